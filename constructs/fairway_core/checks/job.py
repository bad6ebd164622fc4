"""Rules on a job and its target: secrets, nodes, launcher."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Subject, Violation, check
from fairway_core.findings import Severity
from fairway_core.plain_secrets import secrets_in
from fairway_core.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.catalog import VmSize
    from fairway_core.checks.check import Match
    from fairway_core.target import Target

    Job = Mapping[str, Any]


def _texts(job: Job) -> Iterator[Match]:
    for field in ("command", "setup", "finally"):
        value = job.get(field)
        texts: dict[tuple[str, ...], Any] = {(field,): value}
        if isinstance(value, dict):
            texts = {(field, name): value.get(name) for name in ("command", "release")}
        yield from ((path, {"text": str(text)}) for path, text in texts.items() if text)
    for section in ("env", "params"):
        for name, value in job.get(section, {}).items():
            # The name is included, as it identifies a password.
            yield (section, name), {"text": f"{name}={value}"}


@check("secret-in-job", Severity.ERROR, Subject.JOB, select=_texts)
def secret_in_job(text: str) -> Iterator[Violation]:
    """A key, a signature or a password in a command, `env` or `params` of a job.

    They are kept with the run, and on a service with its task. What is under `secrets:`
    is not: nodes read it from the vault, by their identity.

    Wrong:
        env:
          DATA: "https://lab.blob.core.windows.net/data?sv=2025-05-05&sig=bm90QVJlYWxPbmVBdEFsbA%3D"

    Right:
        env: {DATA: "https://lab.blob.core.windows.net/data"}
        secrets: {DATA_SIGNATURE: "keyvault:data-signature"}
    """
    for kind in secrets_in(text, tokens=True):
        yield Violation(
            f"{kind} is in plain text here",
            "put it into the vault and refer to it: secrets: {NAME: keyvault:NAME}",
        )


# As in `pytorch:2.4.0-cuda12.4-cudnn9` and `nvidia/cuda:12.4.1-base`.
_CUDA = re.compile(r"cuda[-:_]?(\d+)\.(\d+)", re.IGNORECASE)


@check("spot-without-checkpoint", Severity.WARNING, Subject.JOB)
def spot_without_checkpoint(job: Job, target: Target) -> Iterator[Violation]:
    """Several Spot nodes, and a job that would start over when one of them is taken away.

    The more nodes, the sooner that happens: all of them lose what they did.

    Wrong:
        nodes: 8

    Right:
        nodes: 8
        retries: 10
        checkpoint: {directory: "data:/checkpoints/train"}
    """
    nodes = job.get("nodes", 1)
    goes_on = (job.get("retries") or job.get("retry")) and job.get("checkpoint")
    if target.spot and nodes > 1 and not goes_on:
        yield Violation(
            f"the loss of one of {nodes} Spot nodes ends the job, and its work is lost",
            "add `retries:` and `checkpoint:`, and resume from the files in FAIRWAY_CHECKPOINT_DIR",
            ("nodes",),
        )


def _known_size(name: str | None) -> VmSize | None:
    """Returns the size from the catalogue, or None if the target has none or it is unknown."""
    if not name:
        return None
    from fairway_core.catalog import vm_size, vm_sizes  # slow to load, and rarely needed

    return vm_size(name) if name in vm_sizes() else None


@check("old-cuda", Severity.ERROR, Subject.JOB)
def old_cuda(job: Job, target: Target) -> Iterator[Violation]:
    """A container whose tag names a CUDA older than the GPUs: it has no code for them.

    Wrong:
        container: {image: "pytorch/pytorch:1.11.0-cuda11.3-cudnn8-runtime"}

    Right:
        container: {image: "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"}
    """
    container = job.get("container")
    named = _CUDA.search(container["image"]) if container else None
    size = _known_size(target.vm_size) if named else None
    if named is None or size is None or size.gpu is None:
        return
    from fairway_core.catalog.faults import least_cuda

    gpu, least = size.gpu, least_cuda(size.gpu.architecture)
    if least and (int(named[1]), int(named[2])) < least:
        yield Violation(
            f"CUDA {named[1]}.{named[2]} does not support the {gpu.model} of `{size.name}`",
            f"use an image with CUDA {least[0]}.{least[1]} or newer",
            ("container", "image"),
        )


@check("no-sharp", Severity.WARNING, Subject.JOB)
def no_sharp(job: Job, target: Target) -> Iterator[Violation]:
    """In-network reduction (SHARP) on nodes for which Fairway knows no settings.

    The job runs as without it. Of today's sizes ND H100 v5 and ND H200 v5 have it.

    Wrong:
        template: torchrun
        options: {sharp: true}

    Right:
        template: torchrun
        options: {sharp: false}
    """
    options = job.get("options") or {}
    size = _known_size(target.vm_size) if options.get("sharp") is True else None
    if size is None:
        return
    from fairway_core.catalog import fabric_for  # as above

    if not size.rdma or not fabric_for(size).sharp:
        yield Violation(
            f"`sharp: true` has no effect on {size.name}: no settings for it are known",
            "leave it out, or use nodes of the ND H100 v5 or ND H200 v5 series",
            ("options", "sharp"),
        )


# Templates that run the command once per rank.
_START_RANKS = frozenset(
    {"deepspeed", "horovod", "hpcx", "intelmpi", "mpich", "mvapich", "openmpi"}
    | {"tensorflow", "torchrun"}
)
# A launcher at the start of a command, after variable assignments.
_LAUNCHER = re.compile(
    r"(?m)(?:^|[;&|(]|(?<![^\s;&|(])exec[ \t])[ \t]*(?:\w+=(?:\$\([^()\n]*\)|[^\s;&|(])*[ \t]+)*"
    r"(mpirun|mpiexec|mpiexec\.hydra|torchrun|srun|deepspeed|horovodrun|accelerate\s+launch"
    r"|python3?\s+-m\s+torch\.distributed\.\w+)(?=\s|$)"
)


@check("nested-launcher", Severity.WARNING, Subject.JOB)
def nested_launcher(job: Job) -> Iterator[Violation]:
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
    template = str(job.get("template", "openmpi"))
    several = (job.get("nodes", 1), job.get("processes_per_node", 1)) != (1, 1)
    found = _LAUNCHER.search(str(job.get("command", "")))
    if found and several and template in _START_RANKS:
        yield Violation(
            f"the template `{template}` starts the ranks, and each of them would run `{found[1]}`",
            f"leave `{found[1]}` and its options out, or use `template: plain`, "
            "which runs the command once",
            ("command",),
        )


# Variables of every command besides inputs and outputs, as listed in docs/job.md, and those of
# templates.
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

# `$NAME` and `${NAME…}`, not `\$NAME`; the operator after the name allows it to be unset.
_USED = re.compile(r"(?<!\\)\$(?:FAIRWAY_(\w*)|\{FAIRWAY_(\w*)(:?[-=+?])?)")
_SET = re.compile(r"\bFAIRWAY_(\w+)=")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")


def _commands(job: Job) -> Iterator[Match]:
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
    """Returns the names of a section's variables, without FAIRWAY_."""
    return [f"{kind}_{name.upper()}" for name in entries or ()]


@check("unknown-variable", Severity.ERROR, Subject.JOB, select=_commands)
def unknown_variable(text: str, own: Collection[str]) -> Iterator[Violation]:
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
    reported: set[str] = set()
    for used in _USED.finditer(text):
        name = used[1] if used[1] is not None else used[2]
        if used[3] or name in fine or name in reported:
            continue
        reported.add(name)
        if hint := _instead(name, fine):
            yield Violation(
                f"the job has no `$FAIRWAY_{name}` here: the shell would expand it to nothing",
                hint,
                within=used[0],
            )


def _instead(name: str, known: Collection[str]) -> str:
    """Returns a hint for an unknown variable, or "" for one that the user may have set."""
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
