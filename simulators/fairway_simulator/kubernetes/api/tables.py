"""Tables, which is what a person's `kubectl get` asks for: the columns that one looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.http import Answer
from fairway_simulator.kubernetes.conditions import is_true, seconds_since

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.kubernetes.api.requests import ApiRequest
    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object

    Column = Callable[[Object], Any]


def wanted(request: ApiRequest) -> bool:
    """Whether the client would rather have a table."""
    is_reading = request.method == "GET" and not request.switch("watch")
    return is_reading and "as=Table" in request.headers.get("accept", "").partition(",")[0]


def of(resource: Resource, answer: Answer) -> Answer:
    """The table of an object or of a list."""
    document = answer.document
    items = document.get("items") if document.get("kind", "").endswith("List") else [document]
    if items is None or document.get("kind") == "Status":
        return answer
    columns = _COLUMNS.get(resource.plural, {})
    names = ["Name", *columns, "Age"]
    return Answer(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": document.get("metadata") if "items" in document else {},
            "columnDefinitions": [_definition(name) for name in names],
            "rows": [
                {"cells": _cells(each, columns), "object": resource.to_wire(each)} for each in items
            ],
        },
        answer.status,
    )


def _definition(name: str) -> dict[str, Any]:
    form = "name" if name == "Name" else ""
    return {"name": name, "type": "string", "format": form, "description": name, "priority": 0}


def _cells(found: Object, columns: dict[str, Column]) -> list[Any]:
    metadata = found["metadata"]
    age = _duration(seconds_since(metadata["creationTimestamp"]))
    return [metadata["name"], *(column(found) for column in columns.values()), age]


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _pod_ready(pod: Object) -> str:
    known = pod["status"].get("containerStatuses") or ()
    ready = sum(1 for each in known if each.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for each in pod["status"].get("containerStatuses") or ():
        for state in ("waiting", "terminated"):
            if reason := (each["state"].get(state) or {}).get("reason"):
                return str(reason)
    return str(pod["status"].get("phase", "Pending"))


def _restarts(pod: Object) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses") or ())


def _node_status(node: Object) -> str:
    ready = "Ready" if is_true(node, "Ready") else "NotReady"
    return f"{ready},SchedulingDisabled" if node["spec"].get("unschedulable") else ready


_COLUMNS: dict[str, dict[str, Column]] = {
    "pods": {"Ready": _pod_ready, "Status": _pod_status, "Restarts": _restarts},
    "nodes": {"Status": _node_status},
}
