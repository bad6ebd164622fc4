"""Inputs of a run that other runs have kept on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_runner.engines.refusals import gone_input
from fairway_runner.runs.records import read_plan

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder


def require(run: RunFolder) -> None:
    """Refused where one of them has gone: its run was removed."""
    plan = read_plan(run.folder)
    for each in plan.chained:
        if not plan.awaits(each) and not (run.folder.parents[1] / each.path).is_dir():
            raise gone_input(each.name, each.path)
