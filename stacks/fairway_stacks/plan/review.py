"""`fairway review` as a program: the end of every plan."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_stacks.plan.planning import StackPlan

DATA_LOST = 3
_FAILED = 5

# GitHub takes a summary of 1 MiB.
_LONGEST = 1_000_000
_CUT = "\n\n… (cut: review.json has all of it)\n"


@dataclass(frozen=True)
class Reviewer:
    """Reviews plans against those of a base; `allow` holds addresses whose loss is meant."""

    base: Sequence[str] = ()
    allow: Sequence[str] = ()

    def show(self, plans: Sequence[StackPlan], *form: str) -> int:
        """Prints the review to standard output, as text or in the given form; its exit code."""
        return subprocess.run(self._command(plans, *form), check=False).returncode

    def text(self, plans: Sequence[StackPlan], form: str) -> tuple[str, int]:
        """The review in the given form, and its exit code; UserError where there is none."""
        done = subprocess.run(
            self._command(plans, form), stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode not in (0, DATA_LOST):
            message = f"fairway review failed with exit code {done.returncode}"
            raise UserError.of("no-review", message, exit_code=_FAILED)
        return done.stdout, done.returncode

    def facts(self, plans: Sequence[StackPlan]) -> tuple[dict[str, Any], int]:
        """The review as plain data, and its exit code."""
        text, code = self.text(plans, "--json")
        found: dict[str, Any] = json.loads(text)
        return found, code

    def report(self, plans: Sequence[StackPlan], folder: Path) -> None:
        """Writes review.md and review.json, in which no secret stands, into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for form, name in (("--markdown", "review.md"), ("--json", "review.json")):
            (folder / name).write_text(self.text(plans, form)[0], encoding="utf-8")

    def summarize(self, plans: Sequence[StackPlan], file: Path) -> None:
        """Adds the review in Markdown to a file, such as that of a job's summary on GitHub."""
        with file.open("a", encoding="utf-8") as stream:
            stream.write(cut(self.text(plans, "--markdown")[0]))

    def _command(self, plans: Sequence[StackPlan], *form: str) -> list[str]:
        options = [*form]
        for plan in self.base:
            options += ["--base", plan]
        for address in self.allow:
            options += ["--allow", address]
        program = [sys.executable, "-P", "-m", "fairway_runner.cli", "review"]
        return [*program, *(plan.argument for plan in plans), *options]


def cut(text: str, longest: int = _LONGEST) -> str:
    """The text, or as much of it as `longest` bytes hold."""
    if len(text.encode()) <= longest:
        return text
    kept = text.encode()[: longest - len(_CUT.encode())].decode(errors="ignore")
    return kept + _CUT
