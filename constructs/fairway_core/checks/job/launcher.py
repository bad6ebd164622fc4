"""Rules on the launcher of a job, and on the variables that it sets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity
from fairway_core.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.check import JobSubject, Occurrence

# Templates that run the command once for each rank.
_START_RANKS = frozenset(
    {
        "deepspeed",
        "horovod",
        "hpcx",
        "intelmpi",
        "mpich",
        "mvapich",
        "openmpi",
        "tensorflow",
        "torchrun",
    }
)
# A launcher where a command begins, behind variables that are set for it.
_LAUNCHER = re.compile(
    r"(?m)(?:^|[;&|(]|(?<![^\s;&|(])exec[ \t])[ \t]*(?:\w+=(?:\$\([^()\n]*\)|[^\s;&|(])*[ \t]+)*"
    r"(mpirun|mpiexec|mpiexec\.hydra|torchrun|srun|deepspeed|horovodrun|accelerate\s+launch"
    r"|python3?\s+-m\s+torch\.distributed\.\w+)(?=\s|$)"
)


def _jobs(subject: JobSubject) -> Iterator[Occurrence]:
    job = subject.job
    ranks = job.get("nodes", 1), job.get("processes_per_node", 1)
    yield (
        ("command",),
        {
            "command": str(job.get("command", "")),
            "template": str(job.get("template", "openmpi")),
            "several": ranks != (1, 1),
        },
    )


@check("nested-launcher", Severity.WARNING, Subject.JOB, at=_jobs)
def nested_launcher(command: str, template: str, several: bool) -> Iterator[Fault]:
    """A launcher such as `mpirun` in the command of a template that starts the ranks itself.

    Each of the ranks would start all of them once more.

    Wrong:
        template: openmpi
        processes_per_node: 2
        command: mpirun -np 2 ./train

    Right:
        template: openmpi
        processes_per_node: 2
        command: ./train
    """
    found = _LAUNCHER.search(command) if several and template in _START_RANKS else None
    if found:
        yield Fault(
            f"the template `{template}` starts the ranks, and each of them would run `{found[1]}`",
            f"leave `{found[1]}` and its options out, or use `template: plain`, "
            "which runs the command once",
        )


# What every command may use beside its inputs and outputs, as docs/job.md lists it, and what
# templates have besides.
_ALWAYS = frozenset(
    {
        *("ATTEMPT", "CHECKPOINT_DIR", "CORES", "GPUS", "HOSTS", "MAIN_HOST", "MAIN_PORT"),
        *("NODES", "PORTS", "PROCESSES_PER_NODE", "RUN", "SCRATCH_DIR", "SHARED_DIR", "TASK"),
        *("WORLD_SIZE", "HOSTFILE", "NODE_RANK", "TASK_FOLDER", "NODE_ADDRESS", "PYTHON"),
        *("MPI_ARGS", "EACH_NODE", "SYSTEM_ROOT", "SESSION", "FOLDER", "DEADLINE", "FILES"),
    }
)
_OF_LAST = "TASKS_DIR"
_SECTIONS = {"INPUT": ("inputs", "MOUNT:PATH"), "OUTPUT": ("outputs", "{}")}

# `$NAME` and `${NAME…}`, not `\$NAME`; what follows the name tells whether it may be unset.
_USED = re.compile(r"(?<!\\)\$(?:FAIRWAY_(\w*)|\{FAIRWAY_(\w*)(:?[-=+?])?)")
_SET = re.compile(r"\bFAIRWAY_(\w+)=")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")


def _commands(subject: JobSubject) -> Iterator[Occurrence]:
    job = subject.job
    inputs, outputs = _named("INPUT", job.get("inputs")), _named("OUTPUT", job.get("outputs"))
    yield ("command",), {"text": str(job.get("command", "")), "own": [*inputs, *outputs]}
    setup = job.get("setup")
    if isinstance(setup, dict):
        for name in ("command", "release"):
            yield ("setup", name), {"text": str(setup.get(name) or ""), "own": inputs}
    elif setup:
        yield ("setup",), {"text": str(setup), "own": inputs}
    if last := job.get("finally"):
        own = [*inputs, *_named("OUTPUT", last.get("outputs")), _OF_LAST]
        yield ("finally", "command"), {"text": str(last.get("command", "")), "own": own}


def _named(kind: str, entries: Mapping[str, Any] | None) -> list[str]:
    """The variables of a section, without FAIRWAY_."""
    return [f"{kind}_{name.upper()}" for name in entries or ()]


@check("unknown-variable", Severity.ERROR, Subject.JOB, at=_commands)
def unknown_variable(text: str, own: Collection[str]) -> Iterator[Fault]:
    """A variable such as `$FAIRWAY_OUTPUT_MODEL` of which the job has no such output.

    The shell makes nothing of it: `> $FAIRWAY_OUTPUT_MODLE/best.pt` writes to `/`. A name that
    may be unset is written `${FAIRWAY_OUTPUT_MODEL:-}`, and is not looked at. An output is that
    of `command`, or of `finally` where it stands there; `setup` has none.

    Wrong:
        outputs: {model: {}}
        command: cp best.pt $FAIRWAY_OUTPUT_MODLE/

    Right:
        outputs: {model: {}}
        command: cp best.pt $FAIRWAY_OUTPUT_MODEL/
    """
    text = _COMMENT.sub("", text)
    fine = {*own, *_ALWAYS, *_SET.findall(text)}
    told: set[str] = set()
    for used in _USED.finditer(text):
        name = used[1] if used[1] is not None else used[2]
        if used[3] or name in fine or name in told:
            continue
        told.add(name)
        if hint := _instead(name, fine):
            yield Fault(
                f"the job has no `$FAIRWAY_{name}` here: the shell would expand it to nothing",
                hint,
                within=used[0],
            )


def _instead(name: str, known: Collection[str]) -> str:
    """What to type in its place; "" for a name that may be somebody's own."""
    kind, _, rest = name.partition("_")
    if kind not in _SECTIONS:
        near = nearest(name, known)
        own = f"if your own template sets it, write `${{FAIRWAY_{name}:-}}`"
        return f"did you mean `$FAIRWAY_{near}`?\n{own}" if near else ""
    for other in (kind, *_SECTIONS):
        names = [each.partition("_")[2] for each in known if each.startswith(f"{other}_")]
        near = nearest(rest, names) if rest else next(iter(names), None)
        if near:
            return f"did you mean `$FAIRWAY_{other}_{near}`?"
    section, entry = _SECTIONS[kind]
    return f"add `{section}: {{{rest.lower() or 'NAME'}: {entry}}}`"
