"""The environments of the project, and what they and the runs cost."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fairway_core.checks import check_environment
from fairway_core.cost.cache import prices_at_hand
from fairway_core.cost.environment import parts_of
from fairway_core.diagram import draw
from fairway_core.environment import load_environment, read_environment
from fairway_core.environment.selection import known_environments
from fairway_core.findings import UserError, finding_facts
from fairway_core.suggestions import did_you_mean
from fairway_runner.environment_costs import cost_facts
from fairway_runner.output_file import svg
from fairway_runner.quantities import moment
from fairway_runner.runs.accounting import require_group, run_cost_facts
from fairway_runner.runs.query import spending

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_core.findings import Finding
    from fairway_web.runs import Runs


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


def cost(file: Path) -> dict[str, Any]:
    """The answer of `fairway cost --offline --json`."""
    loaded = load_environment(file)
    return cost_facts(loaded, parts_of(loaded), prices_at_hand())


def picture(file: Path) -> bytes:
    """A diagram of an environment, as SVG, drawn anew where its file has changed."""
    return _drawn(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _drawn(file: Path, _changed: int) -> bytes:
    return svg(draw(load_environment(file), file.stem)).encode()


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
