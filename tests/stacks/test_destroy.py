"""`fairway destroy`: what was reviewed and approved goes, the last stack first."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError
from fairway_stacks.plan import destroy as destroying
from fairway_stacks.plan.destroy import destroy
from fairway_stacks.plan.planning import StackPlan
from fairway_stacks.plan.stacks import in_order

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fairway_core.review.review import Review
    from fairway_stacks.plan.stacks import StackFolder

    StandIn = Any


@pytest.fixture
def deployed(quick: StandIn, synthesized: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """An environment whose stacks are written already."""

    def written(_: str | None, __: Path) -> list[StackFolder]:
        return in_order(synthesized)

    monkeypatch.setattr(destroying, "synthesize", written)
    return quick


def _gone(terraform: StandIn) -> list[str]:
    return [each["stack"] for each in terraform.calls() if each["command"] == "apply"]


def _destroy(*roles: str, typed: str = "demo", **more: Any) -> list[Review]:
    shown: list[Review] = []
    destroy("demo", roles, None, show=shown.append, ask=lambda name: name == typed, **more)
    return shown


def test_the_stacks_go_the_last_one_first(deployed: StandIn) -> None:
    (review,) = _destroy()
    assert [each.stack for each in review.stacks] == ["demo-compute", "demo-data", "demo-network"]
    assert _gone(deployed) == ["demo-compute", "demo-data", "demo-network"]
    planned = [each["arguments"] for each in deployed.calls() if each["command"] == "plan"]
    assert all("-destroy" in each for each in planned)


@pytest.mark.parametrize(
    ("roles", "gone"),
    [(["compute"], ["demo-compute"]), (["data"], ["demo-compute", "demo-data"])],
)
def test_those_that_read_a_stack_go_with_it(
    deployed: StandIn, roles: list[str], gone: list[str]
) -> None:
    _destroy(*roles)
    assert _gone(deployed) == gone


def test_nothing_goes_unless_the_name_is_typed(deployed: StandIn) -> None:
    with pytest.raises(UserError, match="not approved, and nothing was done"):
        _destroy(typed="yes")
    assert _gone(deployed) == []
    with pytest.raises(UserError, match="there is no stack `computer`"):
        _destroy("computer")


def test_what_is_protected_stops_all_of_it(deployed: StandIn) -> None:
    deployed.fault(data_plan="prevented")
    with pytest.raises(UserError, match="demo-data holds what is protected") as caught:
        _destroy()
    assert "protect: false" in caught.value.findings[0].hint
    assert _gone(deployed) == []


@pytest.mark.parametrize(
    ("waits", "changed", "id_"),
    [(True, (), "not-deployed"), (False, ("azurerm_management_lock.data",), "protected")],
)
def test_destroy_stops_at_a_stack_that_waits_and_at_a_lock(
    tmp_path: Path, waits: bool, changed: tuple[str, ...], id_: str
) -> None:
    plan = StackPlan("demo-data", tmp_path / "plan", tmp_path / "review", waits=waits)
    changes = tuple(SimpleNamespace(address=each) for each in changed)
    found: Any = SimpleNamespace(stacks=[SimpleNamespace(stack="demo-data", changes=changes)])
    with pytest.raises(UserError) as caught:
        destroying._stop_where_it_must([plan], found)
    assert caught.value.findings[0].id == id_


def test_an_approved_review_is_done_and_nothing_else(
    deployed: StandIn, tmp_path: Path, fairway: Callable[..., int]
) -> None:
    report = tmp_path / "report"
    assert fairway("destroy", "demo", "--stack", "compute", "--report", str(report)) == 2
    assert _gone(deployed) == []
    review = report / "review.json"
    assert fairway("destroy", "demo", "--approved", str(review)) == 2, "more than was approved"
    assert _gone(deployed) == []
    arguments = ["demo", "--stack", "compute", "--approved", str(review)]
    assert fairway("destroy", *arguments) == 0
    assert _gone(deployed) == ["demo-compute"]
    found = json.loads(review.read_text())
    found["stacks"][0]["digest"] = "another"
    review.write_text(json.dumps(found))
    assert fairway("destroy", *arguments) == 2
