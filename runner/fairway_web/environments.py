"""The environments of the project, and what they and the runs cost.

Terraform's stacks are synthesised by a program of its own: nothing of that is loaded here.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.checks import check_environment
from fairway_core.cost.cache import prices_at_hand
from fairway_core.environment import read_environment
from fairway_core.environment.selection import known_environments
from fairway_core.findings import UserError, finding_facts
from fairway_core.suggestions import did_you_mean
from fairway_runner.quantities import moment
from fairway_runner.runs.accounting import require_group, run_cost_facts
from fairway_runner.runs.query import spending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.findings import Finding
    from fairway_web.runs import Runs

_PATIENCE = 120.0  # seconds for a program; only one that hangs takes so long
_SERVICE_FAILED = 5


def environment_file(name: str) -> Path:
    """The file of an environment; UserError for an unknown one."""
    known = known_environments()
    if name not in known:
        message = f"no environment is called `{name[:60]}`"
        raise UserError.of("unknown-environment", message, did_you_mean(name, known))
    return known[name]


def checked(file: Path) -> Sequence[Finding]:
    """The findings of `fairway check`."""
    try:
        loaded = read_environment(file)
        ignored = set(loaded.environment.checks.ignore)
        return check_environment(loaded.environment, loaded.document, ignore=ignored)
    except UserError as error:
        return error.findings


@dataclass
class Programs:
    """Answers of other commands. `program` is what starts Fairway's commands; of each file the
    picture is kept that was made of it last."""

    program: Sequence[str]
    _pictures: dict[Path, tuple[int, bytes]] = field(default_factory=dict)

    def cost(self, file: Path) -> dict[str, Any]:
        """The answer of `fairway cost --offline --json`."""
        facts: dict[str, Any] = json.loads(self.run("cost", str(file), "--offline", "--json"))
        return facts

    def picture(self, file: Path) -> bytes:
        """A diagram of an environment, as SVG."""
        changed = file.stat().st_mtime_ns
        known = self._pictures.get(file)
        if known is None or known[0] != changed:
            with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
                made = Path(folder, "diagram.svg")
                self.run("diagram", str(file), "--output", str(made))
                self._pictures[file] = known = (changed, made.read_bytes())
        return known[1]

    def run(self, *words: str) -> str:
        """The output of a command; UserError with what it complains of."""
        try:
            done = subprocess.run(
                [*self.program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            message = f"`fairway {words[0]}` took longer than {_PATIENCE:g} s"
            hint = f"see what it says: fairway {words[0]} {words[1]}"
            raise UserError.of("slow-command", message, hint, exit_code=_SERVICE_FAILED) from None
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            message = f"`fairway {words[0]}` failed: {said}"
            hint = f"try it in a terminal: fairway {words[0]} {words[1]}"
            raise UserError.of("failed-command", message, hint, exit_code=done.returncode)
        return done.stdout


def run_costs(runs: Runs, by: str, since: str) -> dict[str, Any]:
    """The answer of `fairway cost --runs --json` for the runs that are known here."""
    prices, kind = prices_at_hand(), None if by == "run" else by
    require_group("by", kind)
    held = spending(runs, prices, since=moment("since", since) if since else None)
    facts = run_cost_facts(held.uses, by=kind, currency=prices.currency)
    return {**facts, "findings": [finding_facts(each) for each in held.damaged]}


def metrics(runs: Runs) -> str:
    """The runs by state and target, in Prometheus' text format."""
    counts: dict[tuple[str, str], int] = {}
    for run in runs.unsorted():
        try:
            key = (run.record.target, run.state)
        except (UserError, OSError):
            continue  # `list` says what is wrong with it
        counts[key] = counts.get(key, 0) + 1
    lines = ["# HELP fairway_runs Runs of this project.", "# TYPE fairway_runs gauge"]
    for (target, state), count in sorted(counts.items()):
        label = target.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'fairway_runs{{target="{label}",state="{state}"}} {count}')
    return "\n".join(lines) + "\n"
