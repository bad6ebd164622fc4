"""What `bin/plan` and `bin/deploy` have in common: arguments, messages and exit codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_WRONG = 2
_INTERRUPTED = 130
_SCRIPTS = Path(__file__).resolve().parents[3] / "bin"


def program(name: str) -> str:
    """How `plan` or `deploy` is started: in the repository, or where the wheel is installed."""
    if (_SCRIPTS / name).is_file():
        return f"bin/{name}"
    return "python -m fairway_stacks.plan" + (".deploy" if name == "deploy" else "")


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
    """The exit code of a command; a user's error is printed as its findings.

    So is a file that cannot be written.
    """
    try:
        return command()
    except UserError as error:
        tell(error)
        return error.exit_code
    except OSError as error:
        if error.filename is None:
            raise
        message = f"{error.filename}: {error.strerror}"
        tell(UserError.of("cannot-write", message, "name another file or folder"))
        return _WRONG
    except KeyboardInterrupt:
        return _INTERRUPTED
