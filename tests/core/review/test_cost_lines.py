"""What a review says of costs of which not all is known."""

from __future__ import annotations

import pytest

from fairway_core.review.costs import CostChange, CostReview
from fairway_core.review.lines import Given, cost_lines


def _change(address: str, difference: float | None, *, whole: bool = False) -> CostChange:
    return CostChange("compute", address, "VM", 0.0, difference, difference, difference, whole)


def _first(*changes: CostChange, most: int | None = None) -> str:
    line = next(cost_lines(CostReview("USD", changes, ()), most=most))
    return "".join(part.text if isinstance(part, Given) else part for part in line)


@pytest.mark.parametrize("known", [None, 0.5])
def test_cost_lines_name_changes_without_a_price(known: float | None) -> None:
    said = _first(_change("vm.files", None), _change("vm.b", known), _change("vm.c", known))
    assert "3 of 3 changes (vm.files, vm.b, vm.c)" in said


def test_cost_lines_count_many_changes_without_a_price() -> None:
    known = _change("vm.known", 1.0, whole=True)
    said = _first(known, *(_change(f"vm.n{n}", None) for n in range(1, 1203)), most=2)
    assert "1202 of 1203 changes (vm.n1, vm.n2 and 1,200 more)" in said
    assert "vm.known" not in said
