"""Commands that run in a session and whose output is wanted here."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import UserError, printable
from fairway_core.project_folder import VARIABLE
from fairway_runner.engines.die_with_parent import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.runs.store import Run


class SessionFailed(UserError):
    """A session does not do what it is asked."""


@dataclass(frozen=True)
class Beside:
    """A session, and the command line of the program `fairway`, which gets to its nodes."""

    run: Run
    program: Sequence[str]

    def ask(self, words: Sequence[str], data: bytes = b"") -> str:
        """Runs a command in the session with `data` as its input, and returns its output.

        Raises UserError with the last line of its error output if it fails.
        """
        done = self.run_here(self.command(words), data)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = said[-1].strip() if said else f"exit code {done.returncode}"
            message = f"a command in {self.run.id} failed: {printable(why)}"
            hint = f"see its state: fairway show {self.run.id}"
            raise SessionFailed.of("session-failed", message, hint, exit_code=5)
        return done.stdout.decode(errors="replace")

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line that runs a command in the session."""
        return [*self.program, "exec", self.run.id, "--", *words]

    def run_here(self, words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
        """Runs a program of this machine, which may run commands in the session, to its end."""
        return subprocess.run(
            die_with_parent(words),
            input=data,
            capture_output=True,
            env=self.environment(),
            # Ctrl-C is for this program alone, which ends what is under way and says nothing of it.
            start_new_session=True,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """The variables of the program: it finds the run wherever it is started."""
        return {**os.environ, VARIABLE: str(self.run.folder.parents[2])}
