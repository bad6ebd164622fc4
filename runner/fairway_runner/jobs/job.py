"""The job file: what to run, on how many nodes, with which parameters."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from fairway_agent.resources import ResourceRequest
from fairway_core.documents import Check, FieldError, Later, Model, matching, require
from fairway_core.fields import Span
from fairway_core.light_fields import is_image
from fairway_runner.jobs.job_fields import (
    FOREIGN_CAUSES,
    FOREIGN_KEYS,
    Identifier,
    Input,
    Note,
    ParamValue,
    Scalar,
    Tags,
    Targets,
    require_pattern,
)

if TYPE_CHECKING:
    from fairway_core.notifications import Notify
    from fairway_runner.jobs.sweep_models import Sweep
else:  # most jobs need neither
    Notify = Later.of("fairway_core.notifications", "Notify")
    Sweep = Later.of("fairway_runner.jobs.sweep_models", "Sweep")

# Bash refuses to set the first ones, and sets the others itself or changes its behavior with them.
_SHELL_KEEPS = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}
_SHELL_KEEPS |= {"BASHPID", "DIRSTACK", "FUNCNAME", "GROUPS", "IFS", "LINENO", "RANDOM"}
_SHELL_KEEPS |= {"EPOCHREALTIME", "EPOCHSECONDS", "SECONDS", "SRANDOM", "_"}

JOB_NAME = r"[a-z][a-z0-9-]{0,39}"
"""Pattern of job names."""
_SECRET_SOURCE = r"env:[A-Za-z_][A-Za-z0-9_]*|keyvault:[A-Za-z0-9-]{1,127}"  # noqa: S105 - how one is named


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        hint = "use letters, digits and underscores"
        raise FieldError(f"`{value[:60]}` cannot name an environment variable", hint)
    if value in _SHELL_KEEPS:
        raise FieldError(f"`{value}` is the shell's own", "choose another name")
    if value.startswith("FAIRWAY_"):
        raise FieldError(f"`{value}` is Fairway's own", "choose a name without FAIRWAY_")
    return value


def _output_pattern(value: str) -> str:
    if value.startswith("/") or ".." in value.split("/"):
        hint = "write it relative to the folder of outputs, for example model/**"
        raise FieldError(f"`{value}` leaves the folder of the job's outputs", hint)
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts:
        hint = "name files in the folder of outputs, for example model/**"
        raise FieldError(f"`{value}` names no file", hint)
    # Python before 3.13 lacks such patterns, and would only report them after the task.
    if any("**" in part and part != "**" for part in parts):
        hint = "`**` stands for folders and is alone between slashes, as in model/**/*.npz"
        raise FieldError(f"`{value}` is not a pattern of files", hint)
    return value


def _distinct_variables(entries: dict[str, Any]) -> dict[str, Any]:
    seen: dict[str, str] = {}
    for name in entries:
        other = seen.setdefault(name.upper(), name)
        if other != name:
            message = f"`{other}` and `{name}` would both be the variable {name.upper()}"
            raise FieldError(message, "rename one of the two", (name,))
    return entries


def _metric_pattern(value: str) -> str:
    try:
        groups = re.compile(value).groups
    except re.error as error:
        hint = r"write \[ and \( for [ and ( themselves"
        raise FieldError(f"`{value}` is not a regular expression: {error}", hint) from None
    if groups != 1:
        hint = "put the number in one pair of parentheses, for example loss=([0-9.]+)"
        raise FieldError(f"`{value}` has {groups} groups where it needs one", hint)
    return value


def _secret_source(value: str) -> None:
    if not re.fullmatch(_SECRET_SOURCE, value):
        hint = "write keyvault:NAME, or on `local` env:NAME, a variable of your own environment"
        raise FieldError("this does not name the source of a secret", hint, secret=True)


def _ranks(value: Any) -> Any:
    if isinstance(value, str):
        hint = "write a number, or `processes_per_node: gpus` for a rank on each GPU"
        raise FieldError(f"`{value[:60]}` is not a number of ranks", hint)
    return value


def _attempts(value: Any) -> Any:
    if isinstance(value, dict):
        message = "this is one number, of failures of the task itself"
        raise FieldError(message, "write `retries: 3`; by their cause it is `retry: {node: 3}`")
    return value


OutputPattern = Annotated[str, AfterValidator(_output_pattern)]
OutputPatterns = Annotated[
    tuple[OutputPattern, ...],
    require(bool, "the list is empty", "leave `pattern` out to keep everything"),
]
ExcludedPattern = Annotated[
    str,
    require(
        lambda value: value == value.strip("/") and not {"", ".", ".."} & {*value.split("/")},
        "`{}` names nothing in the folder of the job's outputs",
        "write a name, or a path from the folder of outputs, for example model/cache/*",
    ),
]
JobName = Annotated[
    str,
    require_pattern(
        JOB_NAME,
        "cannot name a job",
        "up to 40 lower-case letters, digits and hyphens, the first of them a letter",
        in_schema=True,
    ),
]
VariableName = Annotated[str, AfterValidator(_variable)]
ProgramText = Annotated[
    str,
    require(str.strip, "the command is empty", "write the command, for example `python train.py`"),
]
SecretSource = Annotated[str, Check(_secret_source, _SECRET_SOURCE)]
MetricPattern = Annotated[str, AfterValidator(_metric_pattern)]
Image = Annotated[
    str,
    require(
        is_image,
        "`{:.60}` is not a container image",
        "write it as a registry does, in lower-case letters except in the tag, for example "
        "myregistry.azurecr.io/train:1",
    ),
]
SlurmName = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        "`{}` cannot be a name in Slurm",
        "letters, digits, hyphens, underscores and periods, at most 64; first a letter or digit",
        in_schema=True,
    ),
]
_BY_VARIABLES = AfterValidator(_distinct_variables)
PriorityNumber = Annotated[int, Field(ge=-1000, le=1000)]


class Code(Model):
    """The files that a job needs: a folder, and what to leave out of it.

    Links are followed: the job has the files, and whole folders, to which they lead. A link that
    leads back to a folder that it lies in is an error, and so is one that leads out of the project,
    for a Submitter of `fairway serve`. Empty folders are kept. A warning names what cannot be
    copied: links to nothing, sockets, pipes, devices.

    Always left out, in any folder: `.git`, `.fairway`, `.venv`, `venv`, `__pycache__`, `*.pyc`,
    `.ipynb_checkpoints`, `node_modules`, `cdktf.out`, `.terraform`, `.mypy_cache`, `.pytest_cache`
    and `.ruff_cache`. What Git ignores is left out with `gitignore: true`: Git says which files
    that are, by every `.gitignore`, `.git/info/exclude` and your own `core.excludesFile`.

    `provenance.json` has the commit, and `dirty` if the files are others or Git does not say. No
    filter that the repository's own settings name is run for that: after `git lfs install --local`
    an unchanged file may count as another, with its whole text in the diff.
    """

    path: Annotated[str, Field(min_length=1)] = "."
    """The folder, relative to the job file's folder."""
    exclude: tuple[str, ...] = ()
    """Shell patterns of files and folders to leave out, by their names or their paths: `data/` is a
    folder only, and `/data` only the one at the top."""
    gitignore: bool | None = None
    """If true, files that Git ignores are left out, in a work tree. Without this field a warning
    names such files; `false` says that they are meant."""


class Output(Model):
    """Files to keep when a task has ended.

    The task writes them into the directory FAIRWAY_OUTPUT_<ID>, which is `<id>/` in the
    folder of its outputs; `pattern` chooses among them, by default all, and `exclude` leaves some
    out. Pipes and sockets are not kept. `fetch` follows links to other outputs of the task; others
    are left out, and named.
    """

    pattern: OutputPattern | OutputPatterns | None = None
    """Which files to keep: a pattern relative to the folder of outputs, such as `model/*.npz`, or a
    list of them. By default all of `<id>/`. A file that several outputs choose is kept in each."""
    exclude: tuple[ExcludedPattern, ...] = ()
    """Shell patterns of files to leave out, by their names or their paths in the folder of outputs:
    `[model/cache/*, "*.tmp"]`."""
    when: Literal["always", "success", "failure"] = "success"
    """Result of the task after which they are kept: `success`, `failure`, or `always` for both."""
    required: bool = False
    """If true, a task that writes no such file fails, with exit code 74. Otherwise `wait`, `show`
    and `fetch` say that the output is empty."""

    @field_validator("required")
    @classmethod
    def _is_of_a_success(cls, required: bool, info: ValidationInfo) -> bool:
        if required and info.data.get("when") == "failure":
            message = "a task cannot fail for an output that is kept only when it has failed"
            raise FieldError(message, "leave `required` out, or set `when: success`")
        return required


Outputs = Annotated[dict[Identifier, Output], _BY_VARIABLES]


class Checkpoint(Model):
    """The folder in which a task saves its checkpoints, and the signal that asks it to stop."""

    directory: Annotated[str, Field(min_length=1)] | None = None
    """The folder of checkpoints: absolute, relative to the job file's folder, or `MOUNT:PATH`. It
    outlives the run, and the next run of the same job resumes from it. By default each run has a
    folder that other runs do not see.
    """
    signal: Literal["TERM", "INT", "USR1", "USR2", "HUP"] = "TERM"
    """The signal that asks a task to stop. A task that is stopped because its node is taken away
    has not succeeded, even if it saves and exits with 0: it starts again as often as `retry`
    allows, and then it has failed."""
    grace: Span = 10.0
    """The time that a task may take to stop before it is killed. The signal goes to the programs
    that work; until then the shell of `command` goes on to the next one, unless it begins with
    `trap 'exit 143' TERM`."""


class Metric(Model):
    """A metric that is read from the log; `loss: "loss=([0-9.]+)"` gives the pattern alone."""

    pattern: MetricPattern
    """A regular expression with one group, the number. A task whose last value is `nan` or
    infinite has diverged: it has no last value, and cannot be the best."""
    better: Literal["lower", "higher"] | None = None
    """Which values are better; by default known for names such as `loss` and `accuracy`."""
    step: MetricPattern | None = None
    """A regular expression with one group, the step or epoch of a value: `epoch=([0-9]+)`. If the
    value's own line has none, the last one before it counts.
    """


class Container(Model):
    """The container image of the tasks, and how to start it."""

    image: Image
    """Its name in a registry, such as myregistry.azurecr.io/train:1."""
    shm_size: (
        Annotated[
            str,
            matching(
                r"[1-9][0-9]*[kmg]",
                "`{}` is not a size",
                "a number with k, m or g, such as 8g",
                in_schema=True,
            ),
        ]
        | None
    ) = None
    """The size of /dev/shm, such as 8g."""
    options: tuple[str, ...] = ()
    """Further options of the container's runtime, such as --cap-add=SYS_PTRACE."""


class Retries(Model):
    """Limits of a task's further attempts, by what ended the last one."""

    FOREIGN: ClassVar[Mapping[str, str]] = FOREIGN_CAUSES

    error: Annotated[int, Field(ge=0, le=100)] | None = None
    """Further attempts after failures of the task itself; the same as `retries`."""
    node: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Further attempts after lost nodes. By default there is no limit on Slurm, and on ssh a lost
    node counts as a failure of the task."""
    preemption: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Further attempts after Azure or Slurm took a node away with notice; by default there is no
    limit. The engine ssh sees no notice: there such a node counts as lost."""


class Idle(Model):
    """When a task's GPUs count as idle, and what happens then. A warning is in the task's log and
    in `fairway show`."""

    below: Annotated[float, Field(gt=0, le=100)]
    """The load in percent below which a GPU counts as idle."""
    for_: Annotated[Span, Field(alias="for")]
    """The time that all GPUs of the task must be idle without a break, for example `30m`."""
    then: Literal["cancel", "warn"] = "cancel"
    """`cancel` ends the task with exit code 124 and does not retry it; `warn` lets it go on."""


class Setup(Model):
    """A command that runs once per node before the tasks, and with which rights."""

    command: ProgramText
    """The shell command line that it runs."""
    admin: bool = False
    """Run it as administrator, as `apt-get install` needs."""
    release: ProgramText | None = None
    """A shell command line that runs on each of these nodes when the run has ended, whether it
    succeeded or not, with the same rights; it is stopped after 15 minutes."""


class Finally(Model):
    """One task that runs after all the others, on one node, whether they failed or not.

    It finds the outputs of the others in FAIRWAY_TASKS_DIR, at TASK/OUTPUT, such as `0/model`.
    Failed tasks are there too, with the outputs that they kept.
    """

    command: ProgramText
    """The shell command line that it runs."""
    outputs: Outputs = Field(default_factory=dict)
    """Files of this task to keep. FAIRWAY_OUTPUT_<ID> is the directory of each output."""


class Job(Model):
    """A training job: what to run, on how many nodes, and what to keep."""

    FOREIGN: ClassVar[Mapping[str, str]] = FOREIGN_KEYS

    name: JobName
    """Name of the job. The ID of each run begins with it."""
    tags: Tags = ()
    """Tags of its runs, for `fairway list --tag`; `--tag` adds others."""
    note: Note = ""
    """A note about its runs; `--note` replaces it."""
    target: Targets | None = None
    """The target to run on, or several, of which a run takes the first that has room; `--target`
    overrides it. By default `local`.
    """
    template: Annotated[str, Field(min_length=1)] = "openmpi"
    """The launcher: a name that `fairway templates` lists, or a file."""
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of nodes that the job takes, all at once."""
    processes_per_node: Annotated[int, Field(ge=1, le=1024), BeforeValidator(_ranks)] = 1
    """Number of ranks on each node; `gpus` means one per GPU that the task has there, or per core
    where there are none.
    """
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of GPUs that a task takes when it shares its node with other tasks; by default it has
    the whole node. It gets the same fraction of the cores.
    """
    cores: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Number of cores, as `nproc` counts them, that a task takes when it shares its node with other
    tasks; without `gpus` it has no GPU.
    """
    command: ProgramText
    """The shell command line that each rank runs, in a copy of the job's code. What it leaves in
    the background does not outlive it: wait for what is to end by itself."""
    params: dict[Identifier, ParamValue] = Field(default_factory=dict)
    """Values for the job's templates, each `{{ params.NAME }}`. Versions and the like are text, in
    quotes: the number 1.10 prints as 1.1."""
    options: dict[str, Scalar] = Field(default_factory=dict)
    """The template's options; `fairway templates NAME` lists them."""
    preflight: Literal["none", "gpus", "fabric"] | None = None
    """The check that every node must pass before the launcher starts; by default `gpus` on
    Kubernetes for tasks that have whole nodes with NVIDIA GPUs, and else `none`."""
    code: Code = Code()
    """The files that the job needs."""
    setup: ProgramText | Setup | None = None
    """A shell command line that runs once per node, before the tasks."""
    inputs: Annotated[dict[Identifier, Input], _BY_VARIABLES] = Field(default_factory=dict)
    """Directories that the job reads, each in FAIRWAY_INPUT_<ID>: on a mount, staged from storage,
    or kept by another run."""
    env: dict[VariableName, str] = Field(default_factory=dict)
    """Environment variables of every rank."""
    secrets: dict[VariableName, SecretSource] = Field(default_factory=dict)
    """Environment variables whose values are looked up when the job starts, and never stored."""
    container: Container | None = None
    """The container that the tasks run in."""
    outputs: Outputs = Field(default_factory=dict)
    """Files to keep when a task ends. FAIRWAY_OUTPUT_<ID> is the directory of each output."""
    checkpoint: Checkpoint = Checkpoint()
    """Checkpoints that a task saves and resumes from."""
    retries: Annotated[int, Field(ge=0, le=100), BeforeValidator(_attempts)] = 0
    """Further attempts after a failure; the checkpoint directory stays the same."""
    retry: Retries | None = None
    """Further attempts by what ended the last one."""
    timeout: Span | None = None
    """Time limit of one attempt, which then ends with exit code 124."""
    max_duration: Span | None = None
    """Time limit of the whole run, from the start of its first task to the end of its last. The run
    then ends with exit code 124.
    """
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Cost limit of the whole run in US dollars, by the price of the nodes that it holds. The run
    then ends with exit code 124.
    """
    sample_every: Span | None = 10.0
    """The time between two samples of the nodes' GPUs, processors, memory, disks and network, for
    `fairway top`; `null` turns it off.
    """
    idle_gpu: Idle | None = None
    """Cancels a task whose GPUs are idle, or warns about it, by the samples of all its nodes. A
    task without sampled GPUs goes on; `setup` and `finally` are not watched."""
    priority: Literal["low", "normal", "high"] | PriorityNumber = "normal"
    """Which of several waiting jobs starts first: a word, or a number from −1000 to 1000. The
    highest starts first. It has no effect on `ssh`."""
    account: SlurmName | None = None
    """The Slurm account that the job is charged to."""
    qos: SlurmName | None = None
    """The Slurm quality of service that the job runs with."""
    metrics: dict[Identifier, MetricPattern | Metric] = Field(default_factory=dict)
    """Metrics to read from the log, each by a regular expression."""
    notify: Notify | None = None
    """Who is notified about its runs; by default as `notify:` in the project's fairway.yaml
    says."""
    after: tuple[str, ...] = ()
    """Runs that must have succeeded before this one starts."""
    finally_: Finally | None = Field(default=None, alias="finally")
    """A task that runs after all the others."""
    sweep: Sweep | None = None
    """Runs the job as many tasks, each with its own values of `params`."""

    @field_validator("gpus", "cores")
    @classmethod
    def _of_one_node(cls, count: int | None, info: ValidationInfo) -> int | None:
        nodes = info.data.get("nodes", 1)
        if count is not None and nodes > 1:
            name = info.field_name
            message = f"a job of {nodes} nodes uses whole nodes: `{name}` is for one node"
            raise FieldError(message, f"leave `{name}` out, or set `nodes: 1`")
        return count

    @field_validator("idle_gpu")
    @classmethod
    def _can_be_seen(cls, idle: Idle | None, info: ValidationInfo) -> Idle | None:
        if idle is None or "sample_every" not in info.data:
            return idle
        every = info.data["sample_every"]
        if every is None:
            message = "idle GPUs are found by samples, and `sample_every: null` turns them off"
            raise FieldError(message, "leave `sample_every` out, or `idle_gpu`")
        if idle.for_ < every:
            message = "it is shorter than the time between two samples, `sample_every`"
            raise FieldError(message, "make `for` longer, or `sample_every` shorter", ("for",))
        if info.data.get("cores") and not info.data.get("gpus"):
            message = "a task with `cores` and without `gpus` has no GPU"
            raise FieldError(message, "leave `idle_gpu` out, or set the number of `gpus`")
        return idle

    @field_validator("secrets")
    @classmethod
    def _are_not_in_env(cls, secrets: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name in secrets.keys() & info.data.get("env", {}).keys():
            raise FieldError("`env` sets the same", "leave one of the two out", (name,))
        return secrets

    @field_validator("retry")
    @classmethod
    def _errors_are_said_once(cls, retry: Retries | None, info: ValidationInfo) -> Retries | None:
        if retry is not None and retry.error is not None and info.data.get("retries"):
            raise FieldError("`retries` sets the same", "leave one of the two out", ("error",))
        return retry

    @property
    def failures_allowed(self) -> int:
        """Number of failures of its own after which a task is retried."""
        return self.retries or (self.retry and self.retry.error) or 0

    @property
    def retry_limits(self) -> dict[str, int]:
        """Limits of a task's retries after ends that are no failure of its own, by cause."""
        causes = {"node", "preemption"}
        return self.retry.model_dump(include=causes, exclude_none=True) if self.retry else {}

    @property
    def wanted(self) -> ResourceRequest | None:
        """A task's share of its node; None for entire nodes."""
        return ResourceRequest.of(self.gpus, self.cores)

    @property
    def priority_number(self) -> int:
        """The priority from −1000 to 1000; 0 is normal."""
        from fairway_agent.job_facts import PRIORITIES  # most readers of a job need none

        return PRIORITIES[self.priority] if isinstance(self.priority, str) else self.priority

    @property
    def setup_command(self) -> str:
        """Shell command that runs once per node; "" for none."""
        return self.setup.command if isinstance(self.setup, Setup) else self.setup or ""

    @property
    def setup_is_admin(self) -> bool:
        """True if the setup runs with administrator's rights."""
        return isinstance(self.setup, Setup) and self.setup.admin

    @property
    def release_command(self) -> str | None:
        """Shell command that runs once per node after the end of the run."""
        return self.setup.release if isinstance(self.setup, Setup) else None

    @property
    def world_size(self) -> int:
        return self.nodes * self.processes_per_node
