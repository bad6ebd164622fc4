"""Time to review a large plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measure import BIN, PYTHON, Benchmark, Command, Pair, seconds, side_by_side

_SAMPLES = Path(__file__).resolve().parents[1] / "core/review/plans"
_RESOURCES = 5_000


def _plan(folder: Path, sample: str) -> Path:
    """Writes a plan that repeats the sample's resources, in every part, until there are 5,000."""
    plan = json.loads((_SAMPLES / f"{sample}.json").read_text())
    states = [plan["planned_values"], plan.get("prior_state", {}).get("values", {})]
    lists = [
        plan,
        plan["configuration"]["root_module"],
        *(state.get("root_module", {}) for state in states),
    ]
    for holder in lists:  # a plan of cdktf configures each resource separately
        for key in ("resource_changes", "resource_drift", "resources"):
            if holder.get(key):
                holder[key] = _many(holder[key])
    file = folder / f"{sample}.json"
    file.write_text(json.dumps(plan))
    return file


def _many(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    repeated = (resources[number % len(resources)] for number in range(_RESOURCES))
    return [
        {**resource, "address": f"{resource['address']}[{number}]"}
        for number, resource in enumerate(repeated)
    ]


def _review(folder: Path, sample: str) -> Pair:
    file = _plan(folder, sample)
    ours = Command([BIN / "fairway", "review", "--markdown", file])
    load = Command([PYTHON, "-c", "import json, sys; json.load(open(sys.argv[1]))", file])
    return side_by_side(seconds, ours, load, runs=7)


def _grown(folder: Path) -> Pair:
    return _review(folder, "grow")


def _created(folder: Path) -> Pair:
    return _review(folder, "create")


BENCHMARKS = [
    Benchmark("review of 5,000 resources", "json.load of the plan", 3.0, _grown),
    Benchmark("review of 5,000 new resources", "json.load of the plan", 3.5, _created),
]
