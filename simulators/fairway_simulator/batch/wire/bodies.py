"""Permitted bodies of requests: the properties of the service's models and their types.

The models are those of azure-batch, generated from the service's own specification. A property that
no model has is refused with InvalidRequestBody: see "Batch Status and Error Codes" of the REST
reference.
"""

from __future__ import annotations

import enum
import json
import re
import typing
from datetime import datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

UNLIMITED = "P10675199DT2H48M5.4775807S"
"""The service's longest duration, which stands for `no limit`."""

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class ServiceError(Exception):
    """An error response; the default message is made from the code."""

    def __init__(self, status: int, code: str, message: str = "", /, **values: object) -> None:
        self.status = status
        self.code = code
        self.message = message or re.sub(r"(?<!^)(?=[A-Z])", " ", code).capitalize()
        self.values = values
        super().__init__(f"{status} {code}: {self.message}")

    def wire(self) -> dict[str, Any]:
        """Returns the error as in a response, or in a task collection's result."""
        body: dict[str, Any] = {
            "code": self.code,
            "message": {"lang": "en-US", "value": self.message},
        }
        if self.values:
            body["values"] = [{"key": key, "value": str(v)} for key, v in self.values.items()]
        return body


def invalid_property(name: str, value: object, reason: str = "") -> ServiceError:
    """Returns the error (400) that a property of the body has an invalid value."""
    details: dict[str, object] = {"PropertyName": name, "PropertyValue": value}
    if reason:
        details["Reason"] = reason
    return ServiceError(400, "InvalidPropertyValue", "", **details)


def seconds(text: str, name: str = "duration") -> float:
    """Parses an ISO 8601 duration into seconds. Raises an error about the property `name` if it is
    malformed.

    >>> seconds("P1DT30M")
    88200.0
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or text in {"P", "PT"} or text.endswith("T"):
        raise invalid_property(name, text, "not an ISO 8601 duration")
    parts = {key: float(value or 0) for key, value in match.groupdict().items()}
    return (parts["days"] * 24 + parts["hours"]) * 3600 + parts["minutes"] * 60 + parts["seconds"]


LARGEST = 1 << 20
"""The maximum size of a body, in bytes."""
_NODE = "/pools/{poolId}/nodes/{nodeId}"
_MODELS = {
    ("POST", "/pools/{poolId}/resize"): "BatchPoolResizeOptions",
    ("POST", f"{_NODE}/reboot"): "BatchNodeRebootOptions",
    ("POST", f"{_NODE}/reimage"): "BatchNodeReimageOptions",
    ("POST", f"{_NODE}/disablescheduling"): "BatchNodeDisableSchedulingOptions",
    ("POST", f"{_NODE}/users"): "BatchNodeUserCreateOptions",
    ("PUT", f"{_NODE}/users/{{userName}}"): "BatchNodeUserReplaceOptions",
    ("POST", "/jobs"): "BatchJobCreateOptions",
    ("PATCH", "/jobs/{jobId}"): "BatchJobUpdateOptions",
    ("POST", "/jobs/{jobId}/disable"): "BatchJobDisableOptions",
    ("POST", "/jobs/{jobId}/terminate"): "BatchJobTerminateOptions",
    ("POST", "/jobs/{jobId}/tasks"): "BatchTaskCreateOptions",
    ("POST", "/jobs/{jobId}/addtaskcollection"): "BatchTaskGroup",
    ("PUT", "/jobs/{jobId}/tasks/{taskId}"): "BatchTask",
    ("POST", "/jobschedules"): "BatchJobScheduleCreateOptions",
}

_PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    datetime: (str,),
    timedelta: (str,),
}


def read(method: str, path: str, body: bytes) -> dict[str, Any]:
    """Parses the body of a request, {} if it is empty. Raises ServiceError (400) if the body has
    what its operation's model lacks. Operations themselves check for required properties."""
    if not body:
        return {}
    if len(body) > LARGEST:
        raise ServiceError(413, "RequestBodyTooLarge", MaxLimit=LARGEST)
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServiceError(400, "InvalidRequestBody")
    if name := _MODELS.get((method, path)):
        _check_model(_model(name), document, "")
    return document


def _check_model(model: Any, body: object, where: str) -> None:
    if not isinstance(body, dict):
        raise _wrong(where, "an object is expected")
    known = _properties(model)
    for name, value in body.items():
        if name not in known:
            raise _wrong(f"{where}{name}", "there is no such property")
        if value is not None:
            _check_value(known[name], value, f"{where}{name}")


def _check_value(kind: Any, value: Any, where: str) -> None:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        # In a union of `str`, an enumeration and None, the enumeration is the most specific.
        wanted = [each for each in inner if each is not type(None)]
        _check_value(wanted[-1], value, where)
    elif origin is list:
        if not isinstance(value, list):
            raise _wrong(where, "a list is expected")
        for number, each in enumerate(value):
            _check_value(inner[0], each, f"{where}[{number}]")
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        allowed = [str(each.value).lower() for each in kind]
        if str(value).lower() not in allowed:
            name = where.rpartition(".")[2]
            raise invalid_property(name, value, f"one of {', '.join(allowed)}")
    elif kind in _PLAIN:
        is_flag = isinstance(value, bool)
        if not isinstance(value, _PLAIN[kind]) or is_flag != (kind is bool):
            raise _wrong(where, f"{kind.__name__} is expected")
    elif isinstance(kind, type) and kind.__module__.startswith("azure.batch."):
        _check_model(kind, value, f"{where}.")


def _wrong(where: str, reason: str) -> ServiceError:
    return ServiceError(400, "InvalidRequestBody", PropertyName=where, Reason=reason)


def _model(name: str) -> Any:
    from azure.batch.models import _models

    return getattr(_models, name)


@cache
def _properties(model: Any) -> dict[str, Any]:
    """Returns the type of each property of a model, by its name on the wire."""
    from azure.batch import models
    from azure.batch.models import _models

    # The models' forward references name this module, which does not export some of the models
    # that only requests use.
    names = {"_models": SimpleNamespace(**{**vars(_models), **vars(models)})}
    found = {}
    for base in reversed(model.__mro__):
        own = SimpleNamespace(__annotations__=vars(base).get("__annotations__", {}))
        for name, kind in typing.get_type_hints(own, names).items():
            if not name.startswith("_"):
                wire = getattr(vars(base)[name], "_rest_name_input", None) or name
                found[wire] = kind
    return found
