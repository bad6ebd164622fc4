"""How Azure refuses: one form for all of its services' management."""

from __future__ import annotations

from typing import Any


def refused(status: int, code: str, message: str) -> tuple[int, Any]:
    """A status, and an error in the form of Azure Resource Manager."""
    return status, {"error": {"code": code, "message": message}}
