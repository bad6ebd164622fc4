"""The generated pages of the docs: fields of both files, checks, engines."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks import Subject, all_checks
from fairway_core.checks.examples import explain
from fairway_core.checks.live import LIVE
from fairway_core.environment.model import Environment
from fairway_core.schema import models_in, schema_of
from fairway_runner.engines.capabilities import ENGINES, table
from fairway_runner.jobs.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from fairway_core.checks import Check


_ENVIRONMENT = """# The environment file

<!-- Made by bin/docs from constructs/fairway_core/environment: change it there. -->

```yaml title="environments/lab.yaml"
name: lab
location: southcentralus
filesystems:
  data: {kind: nfs_server, path: /data}
clusters:
  gpu: {engine: slurm, size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 4}, mounts: [data]}
```

Only `name`, `location` and one cluster are required. `fairway check` checks the file, and
`stacks/environments` has longer examples. `fairway schema environment` prints the fields below as
a JSON schema for editors. Beyond the fields:

- `${env:NAME}` in a value is replaced by the environment variable NAME, and
  `${env:NAME:-default}` by the default if it is not set. Keys are never replaced. Within
  `{…}` and `[…]` YAML needs quotes around it: `tags: {owner: "${env:USER}"}`.
- `defaults:` holds settings shared by several clusters or file systems.
- A top-level key that begins with `x-` is ignored; use it for YAML anchors.
"""

_JOB = """# The job file

<!-- Made by bin/docs from runner/fairway_runner/jobs/job.py: change it there. -->

```yaml title="job.yaml"
name: finetune
template: torchrun
nodes: 2
processes_per_node: gpus
params: {lr: 0.001}
inputs: {train: "data:/datasets/train"}
command: python train.py --lr {{ params.lr }} --data "$FAIRWAY_INPUT_TRAIN"
outputs: {model: {}}
timeout: 12h
retries: 2
```

`fairway submit job.yaml` runs it, and `-s dotted.path=value` sets any field for one run, with the
field's type. `fairway schema job` prints the fields below as a JSON schema for editors. Beyond the
fields:

- Every text, except those under `params` and `sweep`, may use `{{ params.NAME }}`,
  `{{ sweep.index }}`, `{{ target.name }}`, `{{ target.vm_size }}`, `{{ nodes }}` and
  `{{ name }}`. An unknown name is an error at its line. So is a parameter that `-s` or a sweep
  sets, if no template reads it and `params` does not list it.
- A value substituted into `command`, `setup` or `finally.command` is quoted for the shell and
  reaches the program unchanged, so put no quotes around it. `{{ params.x | raw }}` inserts it as
  shell text instead.
- Text that has `{{` or `{%` of its own, as `docker ps --format '{{.Names}}'`, goes between
  `{% raw %}` and `{% endraw %}`. The shell's `${#array[@]}` needs neither. Comments are YAML's
  or the shell's, behind `#`.
- `processes_per_node: gpus` starts one process per GPU, or one per core on sizes without GPUs. If
  the job sets `gpus` or `cores`, it starts one for each of those.
- `steps`, in place of `command`, holds several jobs, each with these fields:
  see [Run several steps from one file](howto/steps.md).
- `fairway templates` lists the launchers, and `fairway templates NAME` the options of one.

## Variables

The command runs in a copy of the job's code, with these environment variables. `<ID>` is the name
of an input or an output in capitals: the input `train` is in `FAIRWAY_INPUT_TRAIN`.

| variable | what it holds |
|---|---|
| `FAIRWAY_INPUT_<ID>` | directory of an input |
| `FAIRWAY_OUTPUT_<ID>` | directory whose files are kept as an output |
| `FAIRWAY_CHECKPOINT_DIR` | directory that outlives attempts: retries find what was saved there |
| `FAIRWAY_SHARED_DIR` | directory of the run that all its nodes and tasks share |
| `FAIRWAY_SCRATCH_DIR` | directory on the node's own disk, for temporary files |
| `FAIRWAY_RUN`, `FAIRWAY_TASK` | ID of the run; number of the task, from 0, or `finally` |
| `FAIRWAY_TASKS_DIR` | in `finally`: [what tasks kept](howto/merge-a-sweep.md), at `TASK/OUTPUT` |
| `FAIRWAY_FILES` | with the template `score`: a list of the task's files, one path per line |
| `FAIRWAY_ATTEMPT` | number of the attempt, from 0 |
| `FAIRWAY_GRACE` | seconds that a task has to end after its signal: `checkpoint.grace` |
| `FAIRWAY_NODES` | number of nodes |
| `FAIRWAY_PROCESSES_PER_NODE`, `FAIRWAY_WORLD_SIZE` | number of ranks on a node, and in all |
| `FAIRWAY_HOSTS` | the nodes, separated by commas, the main host first |
| `FAIRWAY_MAIN_HOST`, `FAIRWAY_MAIN_PORT` | the main host, and a port that is free there |
| `FAIRWAY_GPUS`, `FAIRWAY_CORES` | the task's own, if it shares its node, such as `0,3`, `0-11` |
| `FAIRWAY_PORTS` | a range of ports for the task, such as `10000-12843` |
"""


# What a field takes that takes a value of any kind.
_VALUE = ("text", "whole number", "number", "`true` or `false`")
_LISTED = re.compile(r"(\w+) {2,}\S")
_VARIABLE = re.compile(r"\bFAIRWAY_[A-Z_]+<\w+>")


def environment_page() -> str:
    """docs/environment.md."""
    return _page(_ENVIRONMENT, Environment)


def job_page() -> str:
    """docs/job.md."""
    return _page(_JOB, Job)


def _page(head: str, root: type[BaseModel]) -> str:
    schema = schema_of(root, title="")
    models, paths = models_in(root), _paths(schema)
    parts = [head]
    for name, model in models.items():
        own = schema if name == root.__name__ else schema["$defs"].get(name)
        if own is not None:
            parts.append(_section(name, model, own, models, paths.get(name, [])))
    return "\n".join(parts)


def _paths(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """Where in the file each definition is used, `clusters.NAME`; the shortest paths first."""
    found: dict[str, list[str]] = {}
    waiting = [("", schema)]
    while waiting:
        path, each = waiting.pop(0)
        for name, below in _used_in(path, each):
            if name in found:
                found[name].append(below)
            else:
                found[name] = [below]
                waiting.append((below, schema["$defs"][name]))
    return {name: list(dict.fromkeys(paths)) for name, paths in found.items()}


def _used_in(path: str, schema: Any) -> Iterator[tuple[str, str]]:
    """The definitions that a schema refers to, each with the path at which."""
    if isinstance(schema, list):
        for each in schema:
            yield from _used_in(path, each)
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2], path
    for key in ("anyOf", "oneOf"):
        yield from _used_in(path, schema.get(key))
    for field, value in schema.get("properties", {}).items():
        yield from _used_in(f"{path}.{field}".lstrip("."), value)
    yield from _used_in(f"{path}.NAME", schema.get("additionalProperties"))
    yield from _used_in(f"{path}[]", schema.get("items"))


def _section(
    name: str,
    model: type[BaseModel],
    schema: Mapping[str, Any],
    models: Mapping[str, Any],
    paths: Sequence[str],
) -> str:
    required = schema.get("required", ())
    fields = schema.get("properties", {})
    lines = [f"## {name}\n"]
    if paths:
        where = ", ".join(f"`{path}`" for path in paths)
        lines.append(f"In the file: {where}{_kind(fields)}.\n")
    lines.append(_prose(inspect.getdoc(model) or "", fields) + "\n")
    if fields:
        lines += ["| field | takes | default | meaning |", "|---|---|---|---|"]
    for field, value in schema.get("properties", {}).items():
        default = "required" if field in required else _default(value)
        words = _outside_code(re.sub(r"\s+", " ", value.get("description", "")))
        cells = (f"`{field}`", _type(value, models), default, words)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _kind(fields: Mapping[str, Any]) -> str:
    """The field that tells one kind of a cluster or file system from the others."""
    for field, value in fields.items():
        if "const" in value:
            default = " or without it" if "default" in value else ""
            return f", with `{field}: {value['const']}`{default}"
    return ""


def _prose(docstring: str, fields: Mapping[str, Any]) -> str:
    """A docstring as Markdown: examples are fenced, and a list of the fields is left out. Their
    table follows."""
    paragraphs = []
    for paragraph in docstring.split("\n\n"):
        listed = [match[1] for match in map(_LISTED.match, paragraph.splitlines()) if match]
        if paragraph.startswith(">>> "):
            paragraphs.append(f"```pycon\n{paragraph}\n```")
        elif not listed:
            paragraphs.append(_outside_code(paragraph))
        elif not all(name in fields for name in listed):
            paragraphs.append(f"```text\n{paragraph}\n```")
    return "\n\n".join(paragraphs)


def _outside_code(text: str) -> str:
    """The text, with variables as code: a page would take their <ID> for HTML."""
    parts = text.split("`")
    parts[::2] = [_VARIABLE.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: Any, models: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branches = [_type(each, models) for each in schema[key] if each.get("type") != "null"]
            if set(_VALUE) <= set(branches):
                branches = ["value", *(each for each in branches if each not in _VALUE)]
            return " or ".join(dict.fromkeys(branches))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    return _plain_type(schema, models)


def _plain_type(schema: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            items = _type(schema.get("items"), models)
            return f"list of {'values' if items == 'value' else items}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"name: {_type(schema['additionalProperties'], models)}"
        case "object":
            return "mapping"
        case "string" if "examples" in schema:
            return "text such as " + ", ".join(f"`{each}`" for each in schema["examples"])
        case "integer" | "number" as kind:
            bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
            said = [f"{sign} {schema[key]}" for key, sign in bounds.items() if key in schema]
            noun = "whole number" if kind == "integer" else "number"
            return " ".join([noun, ", ".join(said)]).strip()
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
    return "anything"


_HEAD = """# Checks

<!-- Made by bin/docs from constructs/fairway_core/checks: change it there. -->

```bash
fairway check lab
fairway check lab --live
```

Before anything is deployed, Fairway checks for known problems.

- `fairway check` runs the checks on an environment file, and so does `fairway synth`
  before it writes anything. A file that cannot be read as an environment is refused before that.
- `fairway synth` runs the checks on Terraform on the stacks that it has written.
- `fairway review` runs the checks on a plan, as printed by `terraform show -json`.
- `fairway check ENVIRONMENT --live`, and `fairway doctor`, [ask Azure](#in-azure) too.

An **error** stops the command; a **warning** is only printed. To accept a finding on an environment
or its Terraform, ignore the check by its id: for one command with `--ignore ID`, or permanently in
the environment file:

```yaml
checks: {ignore: [no-budget]}
```

The examples below show only the lines that matter.
"""

_SECTIONS = {
    Subject.ENVIRONMENT: "On the environment file",
    Subject.TERRAFORM: "On the generated Terraform",
    Subject.PLAN: "On a plan",
    Subject.JOB: "On a job",
}


_LIVE = """## In Azure

These checks ask Azure. They need `az login`, and the subscription in `ARM_SUBSCRIPTION_ID` or
the default one of `az`; the role Reader on it is enough. They only read. They can be ignored by
their
ids like the others.
"""


def checks_page() -> str:
    """docs/checks.md."""
    parts = [_HEAD, _table()]
    for subject, title in _SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(check) for check in all_checks(subject)]
    parts += [_LIVE, _live_table()]
    return "\n".join(parts)


def _table() -> str:
    rows = ["| check | severity | looks at |", "|---|---|---|"]
    rows += [
        f"| [{check.id}](#{check.id}) | {check.severity} | {check.summary} |"
        for check in all_checks()
    ]
    return "\n".join(rows) + "\n"


def _live_table() -> str:
    rows = ["| check | severity | looks at | reads, under the subscription |", "|---|---|---|---|"]
    rows += [
        f"| `{id_}` | {one.severity} | {one.text} | {one.reads} |" for id_, one in LIVE.items()
    ]
    return "\n".join(rows) + "\n"


def _entry(check: Check) -> str:
    explained = explain(check)
    return (
        f"### {check.id}\n\n*{check.severity.capitalize()}.* {explained.text}\n\n"
        f"Fails:\n\n```yaml\n{explained.wrong}\n```\n\n"
        f"Passes:\n\n```yaml\n{explained.right}\n```\n"
    )


_ENGINES_HEAD = """# Engines

<!-- Made by bin/docs from runner/fairway_runner/engines/capabilities.py: change it there. -->

A target's engine starts its jobs: `local` is this machine, `ssh` a [cluster without a
scheduler](ssh.md), `slurm` a [Slurm partition](slurm-jobs.md), `batch` an [Azure Batch
pool](batch.md) and `kubernetes` a [namespace of a cluster](kubernetes.md). The same job file runs
on all of them, with `container:`, `notify:`, `max_duration:`, `max_cost:`, `idle_gpu:`, `retry:`,
`gpus:`, `cores:` and `fairway cancel RUN --task`. A job that needs something its engine cannot do
is refused at submission. They differ in:

"""

_TAIL = """
On `batch`, a command that follows the run, or a server, starts the next step:
[why](batch.md#steps).

## Which MPI a launcher uses

On every engine, launchers use the MPI on PATH. If there is none, they use one of Azure's HPC image,
from `/opt`, so that no job needs `module load`:

| launcher | MPI of the HPC image |
|---|---|
| `openmpi`, `horovod` | HPC-X, or else the newest Open MPI |
| `hpcx` | HPC-X, whatever is on PATH |
| `mpich`, `mvapich` | MVAPICH |
| `intelmpi` | Intel MPI |
| `nccl-tests` | HPC-X for the image's own programs, which are linked against it |

## Several targets

`target: [nd, spot]` in a job, or `fairway submit JOB --target nd,spot`, names several targets, the
preferred one first. Fairway checks the job for each of them (mounts, sizes, what the engine can do)
before anything starts, and submits the run to the first that has room for it. A target is passed
over if it

- cannot be reached;
- says that it has no capacity or quota: a Batch pool whose last resize failed, a partition that is
  down, fewer nodes up than the job needs, a Kueue queue that admits nothing;
- refuses the run when it is submitted, as Slurm does for a limit that is used up.

If all of them are without capacity, the run waits on the first that answers. `target: {in_order:
[nd, spot]}` is the same as the list.

`target: {cheapest: [nd, spot]}` orders them by price. With `by: price/images_per_second` the price
is divided by what a node achieved there: the metric `images_per_second` per node of the job's last
successful run on that target. Targets without such a run come last. Prices are those of `fairway
cost`; a target in fairway.yaml may set its own `price`.

A run stays on the target that it was submitted to, however long it waits there, and is never on
two: a target that may have any part of it is asked to complete the submission, also if the command
was killed. To move a run, cancel it and submit the job again. `fairway show` says which targets
were passed over, and why.
"""


def engines_page() -> str:
    """docs/engines.md."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return (
        _ENGINES_HEAD
        + "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |")
        + _TAIL
    )
