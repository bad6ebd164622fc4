"""Tasks that take a part of a node: where there are such, and that a node has as much; and tasks
whose GPUs are watched, that it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.engines.capabilities import capabilities, engines_with, runs_here
from fairway_runner.quantities import counted

if TYPE_CHECKING:
    from fairway_core.documents import Document
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job


def require_share(job: Job, target: Target, document: Document) -> None:
    """UserError, at the field's line, for a job that wants a part of a node where nodes are given
    as a whole, or more than a node has."""
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
    """UserError, at the field's line, for a job whose GPUs are watched where nodes have none."""
    if job.idle_gpu is None:
        return
    has = _node_of(target)
    if has is not None and not has["gpus"]:
        message = f"`idle_gpu` watches GPUs, and a node of `{target.name}` has none"
        location = document.location(("idle_gpu",))
        hint = "leave it out: -s idle_gpu=null"
        raise UserError([Finding("no-gpus", message, hint, "idle_gpu", location=location)])


def _no_parts(target: Target, has: dict[str, int] | None, name: str) -> tuple[str, str]:
    """Why the target's nodes are given as a whole, and what to do for a job with a field of that
    name; "" where tasks may have parts of them."""
    whole, leave = f"`{target.name}` gives each task whole nodes", f"leave it out (-s {name}=null)"
    if not capabilities(target.engine).shares:
        hint = f"{leave}, or use a target with {engines_with('shares')}"
        return f"{whole}: its engine is `{target.engine}`", hint
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
        return f"{whole}: they have one task slot each", hint
    return "", ""


_WORDS = {"gpus": "GPU", "cores": "core"}


def _node_of(target: Target) -> dict[str, int] | None:
    """How many GPUs and cores a node has; None where that is seen when a task starts."""
    if runs_here(target.engine):
        from fairway_agent.resources import look

        found = look()
        return {"gpus": len(found.gpus), "cores": len(found.cores)}
    if target.kubernetes is not None:
        from fairway_agent.kubernetes.shares import counts
        from fairway_core.kubernetes.resources import of_node

        gpus, cores = counts(of_node(target))  # as many of each as pods can have
        return {"gpus": gpus, "cores": cores}
    if not target.vm_size:
        return None
    from fairway_core.catalog import vm_size

    size = vm_size(target.vm_size)
    return {"gpus": size.gpu.count if size.gpu else 0, "cores": size.vcpus}
