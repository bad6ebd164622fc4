"""Times as Kubernetes writes them: UTC, whole seconds, or microseconds where it says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now(after: float = 0.0) -> str:
    """The time, this many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(seconds: float) -> str:
    """The time that is so long after 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_exactly() -> str:
    """The time with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_since(text: str) -> float:
    """How long ago that was."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
