"""Limits on a run's cost: the price that keeps them, and refusals where none is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.spec import Budget
from fairway_core.cost.meters import VARIABLE
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.records import read_plan
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import prepare
from fairway_runner.submit.run_plan import budget_of

if TYPE_CHECKING:
    from pathlib import Path

PAIR: dict[str, Any] = {
    "name": "pair",
    "engine": "ssh",
    "nodes": {"min": 2, "max": 2},
    "ssh": {"host": "h", "user": "u", "shared": "/data/fairway"},
}
DEPLOYED = {**PAIR, "environment": "lab", "vm_size": "Standard_ND96isr_H100_v5"}
JOB = Job.model_validate({"name": "a", "command": "true", "max_cost": 200})


@pytest.fixture(autouse=True)
def _nobody_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9/prices")


def _target(facts: dict[str, Any], **more: Any) -> Target:
    return Target.model_validate({**facts, **more})


def test_the_price_is_the_targets_own_or_that_of_its_size() -> None:
    assert budget_of(JOB, _target(PAIR, price=12.5)) == Budget(200.0, "USD", 12.5)
    # As the snapshot of prices that comes with the catalogue has it.
    known = budget_of(JOB, _target(DEPLOYED, region="eastus"))
    assert (known.hourly, known.node_seconds) == (98.32, pytest.approx(200 / 98.32 * 3600))


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        (PAIR, "price: 12.5"),
        (DEPLOYED, "fairway targets sync"),
        ({**DEPLOYED, "region": "southcentralus"}, "-s max_cost=null -s max_duration=SPAN"),
        ({"name": "local", "engine": "local", "nodes": {"min": 1, "max": 9}}, "price: 12.5"),
    ],
)
def test_a_limit_without_a_price_is_refused(facts: dict[str, Any], hint: str) -> None:
    with pytest.raises(UserError, match=r"the price of a node of `(pair|local)` is not known") as e:
        budget_of(JOB, _target(facts))
    [finding] = e.value.findings
    assert hint in (finding.hint or "")
    assert e.value.exit_code == 2


@pytest.mark.parametrize("value", [0, -1, "nan", "much"])
def test_max_cost_that_is_no_amount_of_money_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="max_cost"):
        Job.model_validate({"name": "a", "command": "true", "max_cost": value})


def test_the_price_is_in_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ntemplate: plain\ncommand: 'true'\nmax_cost: 0.5\n")
    local = Target.local().model_copy(update={"price": 3600.0})
    prepared = prepare(load_job(file), local, RunStore(tmp_path / ".fairway"))
    (tmp_path / "plan.json").write_text(prepared.plan.text())
    assert read_plan(tmp_path).max_cost == Budget(0.5, "USD", 3600.0)
    plain = prepare(load_job(file, ["max_cost=null"]), local, RunStore(tmp_path / ".fairway"))
    assert json.loads(plain.plan.text())["max_cost"] is None
