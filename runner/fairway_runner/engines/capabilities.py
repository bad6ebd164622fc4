"""Capabilities of each engine, available without importing its own module.

The same table refuses a job at submission and makes the table of docs/engines.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, Severity, UserError, counted

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_core.documents import Document
    from fairway_core.notifications import Notify
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job


def _row(title: str, default: Any) -> Any:
    return field(default=default, metadata={"title": title})


@dataclass(frozen=True)
class Capabilities:
    """Capabilities that differ between engines; each field is a row of the table."""

    runs_here: bool = _row("Runs on this machine", False)
    """True if tasks are processes of this machine that work in the run's local folder."""
    setup_as_admin: bool = _row("`setup: {command, admin: true}`", False)
    releases: bool = _row("`setup: {command, release}`", False)
    """True if a command can run on the nodes after the run: other engines pass them on at once."""
    after: bool = _row("`after:`", True)
    begins_steps: bool = _row("`steps:` start without a command that follows", True)
    """True if runs wait for others there, even while no machine of the user's is on; docs/batch.md
    explains why Batch cannot."""
    priorities: bool = _row("`priority:`", False)
    """True if a run can overtake waiting runs."""
    accounts: bool = _row("`account:` and `qos:`", False)
    tells_waiting: bool = _row("`notify: {on: waiting}`", True)
    """True if something there notices that a run waits."""
    tells_secretly: bool = _row("`notify: {on: waiting}` with a receiver in `secrets:`", True)
    """True if the program that reports a waiting run has the job's secrets."""
    idle_parts: bool = _row("`idle_gpu:` with `gpus:`", True)
    """True if samples number GPUs as a task with only some of a node's GPUs does."""
    checks_gpus: bool = _row("`preflight: gpus` by default", False)
    """True if `preflight: gpus` is the default for whole nodes with GPUs."""
    mounts_topology: bool = _row(
        "NCCL's topology file is mounted, with `NCCL_NET_GDR_LEVEL: SYS`", False
    )
    """True if tasks lack the HPC image's topology files, but have those that Fairway mounts."""
    schedules: bool = _row("`fairway schedule`", False)
    resizes: bool = _row("`fairway pool resize`", False)
    shell: bool = _row("`fairway ssh` and `tunnel`", True)
    one_copy: bool = _row("The nodes of a task share the job's code", True)
    """True if a file written into the code's folder on one node is visible on all."""
    node_actions: tuple[str, ...] = _row("`fairway nodes`", ())
    """Supported actions on a node: drain, resume, reboot, reimage."""
    prepares: bool = _row("`fairway targets prepare`", False)
    """True if a target defined by hand needs something of Fairway's there before jobs run."""
    machines: bool = _row("`fairway nodes report`", False)
    """True if the engine knows the VM of a node."""


ENGINES = {
    "local": Capabilities(runs_here=True, shell=False),
    "ssh": Capabilities(),
    "slurm": Capabilities(
        priorities=True,
        accounts=True,
        tells_secretly=False,
        idle_parts=False,
        node_actions=("drain", "resume", "reboot"),
        machines=True,
    ),
    "batch": Capabilities(
        setup_as_admin=True,
        releases=True,
        after=False,
        begins_steps=False,
        priorities=True,
        tells_waiting=False,
        tells_secretly=False,
        schedules=True,
        resizes=True,
        one_copy=False,
        node_actions=("drain", "resume", "reboot", "reimage"),
    ),
    "kubernetes": Capabilities(
        priorities=True,
        checks_gpus=True,
        mounts_topology=True,
        node_actions=("drain", "resume"),
        prepares=True,
        machines=True,
    ),
}
"""Capabilities by engine."""

HERE = next(name for name, able in ENGINES.items() if able.runs_here)
"""Name of this machine's engine."""

_NONE = Capabilities(
    after=False,
    begins_steps=False,
    tells_waiting=False,
    tells_secretly=False,
    idle_parts=False,
    shell=False,
    one_copy=False,
)


def capabilities(engine: str) -> Capabilities:
    """Returns the capabilities of an engine by its name; that of steps, no job, has none."""
    return ENGINES.get(engine, _NONE)


def runs_here(engine: str) -> bool:
    """Returns True if its tasks are processes of this machine."""
    return capabilities(engine).runs_here


def require(job: Job, target: Target) -> None:
    """Raises UserError for features that no job can have on this target, whatever its state."""
    if findings := [*_refusals(job, target, capabilities(target.engine))]:
        raise UserError(findings)


def _refusals(job: Job, target: Target, able: Capabilities) -> Iterator[Finding]:
    def refused(cannot: str, path: str, hint: str) -> Finding:
        return Finding("not-supported", f"{cannot}: its engine is `{target.engine}`", hint, path)

    name = f"`{target.name}`"
    if job.setup_is_admin and not able.setup_as_admin:
        hint = (
            "leave `admin: true` out, and install what needs these rights in the nodes' "
            f"image; or use a target with {engines_with('setup_as_admin')}"
        )
        yield refused(f"{name} cannot run setup as administrator", "setup.admin", hint)
    if job.release_command is not None and not able.releases:
        cannot = f"{name} cannot run anything on the nodes of an ended run"
        hint = (
            "leave it out (-s setup.release=null), and end with it in `command`; "
            f"or use a target with {engines_with('releases')}"
        )
        yield refused(cannot, "setup.release", hint)
    if job.after and not able.after:
        hint = "wait for the other run first: fairway wait RUN && fairway submit JOB"
        yield refused(f"`after` has no effect on {name}", "after", hint)
    if job.notify and "waiting" in job.notify.on and not able.tells_secretly:
        yield from _about_waiting(job.notify, name, able)
    if job.idle_gpu is not None and job.gpus is not None and not able.idle_parts:
        hint = (
            "leave `idle_gpu` out (-s idle_gpu=null), take whole nodes (-s gpus=null), or use a "
            f"target with {engines_with('idle_parts')}"
        )
        yield refused(f"{name} cannot tell which of a node's GPUs are idle", "idle_gpu", hint)
    for field_ in ("account", "qos") if not able.accounts else ():
        if getattr(job, field_) is not None:
            leave = f"leave it out (-s {field_}=null)"
            hint = f"{leave}, or use a target with {engines_with('accounts')}"
            yield refused(f"{name} does not support `{field_}`", field_, hint)


def _about_waiting(notify: Notify, name: str, able: Capabilities) -> Iterator[Finding]:
    hint, reasons = "leave `waiting` out of `notify.on`", ["nothing runs there before they start"]
    if able.tells_waiting:
        hint += ", or use a receiver without a secret"
        reasons = [f"only their tasks can read `{each}`" for each in notify.secrets.values()]
    for why in reasons:
        message = f"{name} cannot notify of waiting runs: {why}"
        yield Finding("not-supported", message, hint, "notify.on")


def ineffective(job: Job, target: Target, document: Document) -> Iterator[Finding]:
    """Yields warnings about settings of the job that the target ignores."""
    able = capabilities(target.engine)
    if job.priority not in ("normal", 0) and not (able.priorities or able.runs_here):
        message = (
            f"`priority` has no effect on `{target.name}`: runs start there in the order of their "
            "submission"
        )
        hint = (
            f"leave it out (-s priority=normal), or use a target with {engines_with('priorities')}"
        )
        location = document.location(("priority",))
        yield Finding("no-effect", message, hint, "priority", Severity.WARNING, location)


def engines_with(name: str) -> str:
    """Lists the engines that have the capability of that name, for a hint."""
    return " or ".join(f"`{engine}`" for engine, able in ENGINES.items() if getattr(able, name))


def table() -> list[tuple[str, list[str]]]:
    """Returns each row's title, and a word per engine in the order of ENGINES."""
    rows = []
    for row in fields(Capabilities):
        values = [getattr(able, row.name) for able in ENGINES.values()]
        words = [
            ", ".join(("list", *v)) if isinstance(v, tuple) else "yes" if v else "no"
            for v in values
        ]
        rows.append((row.metadata["title"], words))
    return rows


def require_mountable(job: Job, target: Target, runs: Path) -> None:
    """Raises UserError for a container into which a folder of this name cannot be mounted. `runs`
    has the runs of this machine."""
    if job.container is None:
        return
    shared = target.access.shared if target.access is not None else ""
    ends = ":" if target.kubernetes is not None else ":,"  # of a path, for what mounts it
    for path in (str(runs) if runs_here(target.engine) else shared, *target.mounts.values()):
        if found := next((each for each in ends if each in path), ""):
            message = f"{path} cannot be mounted into a container: it has a `{found}`"
            hint = "rename the folder, or run the job without `container:`"
            raise UserError([Finding("not-supported", message, hint, "container")])


def require_share(job: Job, target: Target, document: Document) -> None:
    """Raises UserError, at the field's line, for a job that asks for a part of a node that is only
    given entirely, or for more than a node has."""
    if job.wanted is None:
        return
    has = _node_of(target)
    for name, count in (("gpus", job.gpus), ("cores", job.cores)):
        if count is None:
            continue
        message, hint = _no_parts(target, has, name)
        if not message and has is not None and count > has[name]:
            message = (
                f"a task needs {counted(count, _WORDS[name])}, and a node of `{target.name}` has "
            )
            message += str(has[name] or "none")
            hint = f"set {name} to at most {has[name]}" if has[name] else "leave it out"
        if message:
            location = document.location((name,))
            raise UserError([Finding("no-share", message, hint, name, location=location)])


def require_gpus(job: Job, target: Target, document: Document) -> None:
    """Raises UserError, at the field's line, for a job with a watch on GPUs if nodes have none."""
    if job.idle_gpu is None:
        return
    has = _node_of(target)
    if has is not None and not has["gpus"]:
        message = f"`idle_gpu` watches GPUs, and a node of `{target.name}` has none"
        location = document.location(("idle_gpu",))
        hint = "leave it out: -s idle_gpu=null"
        raise UserError([Finding("no-gpus", message, hint, "idle_gpu", location=location)])


def _no_parts(target: Target, has: dict[str, int] | None, name: str) -> tuple[str, str]:
    """Returns why the target's nodes are only given entirely, and a hint for a job with a field of
    that name; "" if tasks may have parts of them."""
    leave = f"leave it out (-s {name}=null)"
    if target.kubernetes is not None and has is not None and not has["cores"]:
        message = f"the number of processors that nodes of `{target.name}` share is not known"
        return message, f"{leave}, or set the target's `cpu` under `kubernetes.resources:`"
    if target.batch is None:
        return "", ""
    if has is None:
        message = (
            f"the resources of `{target.name}`'s nodes are not known, so they cannot be shared"
        )
        return message, f"{leave}, or set the target's `vm_size:`"
    if not target.batch.task_slots:
        slots = min(has["gpus"] or has["cores"], 256)
        hint = (
            f"{leave}; or set `task_slots: {slots}` and `mpi: false` for the cluster in the "
            "environment, which replaces its pool: fairway deploy"
        )
        return f"`{target.name}` gives each task whole nodes: they have one task slot each", hint
    return "", ""


_WORDS = {"gpus": "GPU", "cores": "core"}


def _node_of(target: Target) -> dict[str, int] | None:
    """Returns the numbers of GPUs and cores of a node; None if they are not known before a task."""
    if runs_here(target.engine):
        from fairway_agent.resources import look

        found = look()
        return {"gpus": len(found.gpus), "cores": len(found.cores)}
    if target.kubernetes is not None:
        from fairway_agent.kubernetes.settings import counts
        from fairway_core.kubernetes.pools import of_node

        gpus, cores = counts(of_node(target))  # the most of each that a pod can have
        return {"gpus": gpus, "cores": cores}
    if not target.vm_size:
        return None
    from fairway_core.catalog import vm_size

    size = vm_size(target.vm_size)
    return {"gpus": size.gpu.count if size.gpu else 0, "cores": size.vcpus}
