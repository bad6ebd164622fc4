"""Whether a queue of Kueue's can ever admit what is submitted. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.api import FORBIDDEN, Api, Refused
from fairway_agent.kubernetes.manifests import QUEUE
from fairway_agent.kubernetes.quantities import parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

Object = dict[str, Any]

TOO_MUCH = "more than the queue"
NO_CLASS = "no WorkloadPriorityClass"
_UNFIT = 422


def require(found: Object | None, job: Mapping[str, Any]) -> None:
    """Refused where a Job asks for more than its queue has when nothing else runs: it would wait
    there for ever. `found` is where that has its quota."""
    if found is None:
        return
    queue, spec = job["metadata"]["labels"][QUEUE], job["spec"]
    count = min(spec["parallelism"], spec["completions"])
    [container] = spec["template"]["spec"]["containers"]
    wanted: dict[str, str] = (container.get("resources") or {}).get("requests") or {}
    for name, text in wanted.items():
        most = _most(found, name)
        if most is not None and count * parse(text) > most:
            pods = "1 pod asks" if count == 1 else f"{count} pods that start together ask"
            message = (
                f"{pods} for {TOO_MUCH} {queue} ever has: {text} {name} each, of {_text(most)}"
            )
            raise Refused(_UNFIT, message)


def require_class(api: Api, name: str) -> None:
    """Refused where there is no such class of priority: Kueue would look for it for ever."""
    try:
        found = api.get(api.kueue, "workloadpriorityclasses", name, everywhere=True)
    except Refused as refused:
        if refused.status != FORBIDDEN:
            raise
        return  # a head that was prepared without that right
    if found is None:
        raise Refused(_UNFIT, f"the cluster has {NO_CLASS} {name}")


def cluster_queue(api: Api, queue: str) -> Object | None:
    """Where the quota of a queue is; None where that cannot be known."""
    local = api.get(api.kueue, "localqueues", queue) if api.kueue else None
    if local is None:
        raise Refused(_UNFIT, f"the cluster has no queue {queue}, and nothing else starts the job")
    try:
        name = local["spec"]["clusterQueue"]
        found: Object | None = api.get(api.kueue, "clusterqueues", name, everywhere=True)
    except Refused as refused:
        if refused.status != FORBIDDEN:
            raise
        return None  # a head that was prepared without that right
    return found


def _most(queue: Object, resource: str) -> Fraction | None:
    """As much of a resource as one flavor has, with what may be borrowed; None for no limit, and
    for what the queue does not count."""
    spec = queue["spec"]
    in_cohort = bool(spec.get("cohortName") or spec.get("cohort"))
    amounts = []
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                if quota["name"] != resource:
                    continue
                more = quota.get("borrowingLimit") if in_cohort else "0"
                if more is None:
                    return None
                amounts.append(parse(quota["nominalQuota"]) + parse(more))
    return max(amounts, default=None)


def _text(amount: Fraction) -> str:
    for unit in ("Ti", "Gi", "Mi"):
        if amount >= parse(f"1{unit}") and amount % parse(f"1{unit}") == 0:
            return f"{amount / parse(f'1{unit}')}{unit}"
    return f"{float(amount):g}"
