"""The service's errors: an HTTP status, a code, a sentence, and details as pairs."""

from __future__ import annotations

import re
from typing import Any

UNLIMITED = "P10675199DT2H48M5.4775807S"
"""The longest span that the service knows, which stands for `no limit`."""

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class ServiceError(Exception):
    """An answer that is an error; where it has no sentence, the code is made into one."""

    def __init__(self, status: int, code: str, message: str = "", /, **values: object) -> None:
        self.status = status
        self.code = code
        self.message = message or re.sub(r"(?<!^)(?=[A-Z])", " ", code).capitalize()
        self.values = values
        super().__init__(f"{status} {code}: {self.message}")

    def wire(self) -> dict[str, Any]:
        """The error as a response carries it, and a task collection's result."""
        body: dict[str, Any] = {
            "code": self.code,
            "message": {"lang": "en-US", "value": self.message},
        }
        if self.values:
            body["values"] = [{"key": key, "value": str(v)} for key, v in self.values.items()]
        return body


def invalid_property(name: str, value: object, reason: str = "") -> ServiceError:
    """400: a property of the body has a value that it may not have."""
    details: dict[str, object] = {"PropertyName": name, "PropertyValue": value}
    if reason:
        details["Reason"] = reason
    return ServiceError(400, "InvalidPropertyValue", "", **details)


def seconds(text: str, name: str = "duration") -> float:
    """The length of an ISO 8601 duration in seconds; an error about the property `name` where it
    is none.

    >>> seconds("P1DT30M")
    88200.0
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or text in {"P", "PT"} or text.endswith("T"):
        raise invalid_property(name, text, "not an ISO 8601 duration")
    parts = {key: float(value or 0) for key, value in match.groupdict().items()}
    return (parts["days"] * 24 + parts["hours"]) * 3600 + parts["minutes"] * 60 + parts["seconds"]
