"""Pictures of environments name resources as the stacks do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.diagram import draw
from fairway_core.diagram.drawing import THERE_ALREADY
from fairway_core.environment import load_environment

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / f"tests/stacks/sections/{name}.yaml" for name in ("company", "own", "page", "pods")),
    ROOT / "stacks/environments/lustre-large.yaml",
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_box_is_called_as_its_resource(
    written: Callable[..., dict[str, dict[str, Any]]], file: Path
) -> None:
    stacks = written(file).values()
    named = [
        one for stack in stacks for each in stack["resource"].values() for one in each.values()
    ]
    names = {re.sub(r"\$\{[^}]*\}", "…", str(one.get("name"))) for one in named}
    picture = draw(load_environment(file), file.stem)
    made = [box for box in picture.all_nodes() if not any(THERE_ALREADY in x for x in box.lines)]
    people = {box.title for box in made if box.lines[0].startswith("user or group")}
    assert {box.title for box in made} - people <= names
    for group in (each for network in picture.groups for each in (network, *network.groups)):
        assert group.title in names or THERE_ALREADY in group.lines[-1]
