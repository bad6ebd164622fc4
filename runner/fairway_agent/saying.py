"""What Fairway itself says in a task's log. Standard library only."""

from __future__ import annotations


def say(text: str) -> None:
    """A line of Fairway's own in the task's log."""
    print(f"fairway: {text}", flush=True)  # noqa: T201
