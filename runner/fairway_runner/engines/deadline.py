"""For how long a service that fails is asked again: ten minutes, or what the command line says."""

from __future__ import annotations

USUAL = 600.0  # seconds
LEAST = 5.0
"""Seconds that one try has, however soon the deadline is: what answers at all does so by then."""


class _Choice:
    """What `--deadline` says; a program has one command line."""

    seconds: float | None = None
    offered: bool = False


def deadline() -> float:
    """The seconds for which a failing service is asked again."""
    return USUAL if _Choice.seconds is None else _Choice.seconds


def brief() -> float:
    """The seconds for a target that is one of many which a command looks at, and that it shows
    without an answer too."""
    return LEAST if _Choice.seconds is None else _Choice.seconds


def chosen() -> float | None:
    """The seconds that the command line names; None where it names none."""
    return _Choice.seconds


def is_offered() -> bool:
    """Whether the command has `--deadline`, and it is worth a hint."""
    return _Choice.offered


def choose(seconds: float | None, *, offered: bool = True) -> None:
    """Sets what `--deadline` says for the rest of the command."""
    _Choice.seconds, _Choice.offered = seconds, offered
