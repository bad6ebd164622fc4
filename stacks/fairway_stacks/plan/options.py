"""What `bin/plan` and `bin/deploy` have in common: arguments, messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_INTERRUPTED = 130


def add_common(parser: argparse.ArgumentParser) -> None:
    """The environment and what may be lost."""
    parser.add_argument(
        "environment",
        nargs="?",
        metavar="ENVIRONMENT",
        help="a file, or the name of one; by default FAIRWAY_ENVIRONMENT, or the only one",
    )
    parser.add_argument(
        "--allow",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="a resource whose loss is meant; repeatable, and those in FAIRWAY_ALLOW too",
    )


def allowed(given: list[str]) -> list[str]:
    """The addresses whose loss is meant: those given, and those of FAIRWAY_ALLOW."""
    return [*given, *os.environ.get("FAIRWAY_ALLOW", "").split()]


def say(line: str) -> None:
    """Progress goes to standard error: standard output is for the review."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def tell(error: UserError) -> None:
    """A user's error as its findings."""
    for finding in error.findings:
        say(format_finding(finding))


def run(command: Callable[[], int]) -> int:
    """The exit code of a command; a user's error is printed as its findings."""
    try:
        return command()
    except UserError as error:
        tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
