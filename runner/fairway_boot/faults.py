"""Faults on a host that a person can fix."""

from __future__ import annotations

NO_CONNECTION, NO_ANSWER = "no-connection", "service-away"
"""The ids of faults that may pass by themselves: a host cannot be reached, or what is there does
not answer."""


class Fault(Exception):
    """Becomes an error message of the command that asked; see `fairway_core.findings`."""

    def __init__(self, id: str, message: str, hint: str = "", exit_code: int = 5) -> None:  # noqa: A002
        self.record = {"id": id, "message": message, "hint": hint, "exit_code": exit_code}
        super().__init__(message)

    @property
    def said(self) -> str:
        """In one line: what is wrong, and what to do."""
        hint = self.record["hint"]
        return f"{self}; {hint}" if hint else str(self)
