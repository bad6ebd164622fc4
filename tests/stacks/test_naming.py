"""Environments with their own naming pattern: all names follow it, and no default name remains."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from environment_files import load
from tests.stacks.documents import FILES, Written

from fairway_core.naming import Naming
from fairway_runner.live.requirements import extended_machines_of

NAMES = "{type}-{name}-{environment}-corp"
OWN = f"naming: {{pattern: '{NAMES}', unique: '{{type}}-{{environment}}-{{name}}'}}\n"
SOURCES = [FILES[name] for name in ("h100-kubernetes", "company", "own", "people")]


def _texts(value: Any) -> Iterator[str]:
    """Yields all strings of a document that Azure sees."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in ("//", "terraform", "terraform_remote_state"):
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize(
    "source", [*SOURCES, "everything"], ids=lambda file: getattr(file, "stem", file)
)
def test_naming_pattern_replaces_every_default_name(
    source: Path | str, everything: str, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = source.read_text() if isinstance(source, Path) else everything
    made: set[str] = set()
    name_of = Naming.name

    def recorded(self: Naming, kind: str, environment: str, *parts: str, **more: str) -> str:
        name = name_of(self, kind, environment, *parts, **more)
        by_default = name_of(Naming(), kind, environment, *parts, **more)
        assert name != by_default, kind
        made.add(by_default.partition("${")[0])
        return name

    monkeypatch.setattr(Naming, "name", recorded)
    documents = written(text + OWN)
    assert len(made) > 30
    pattern = re.compile(rf"(?<![\w/-])(?:{'|'.join(map(re.escape, made))})(?![\w-])")
    found = {match[0] for each in _texts(documents) for match in pattern.finditer(each)}
    assert found == set()


def test_naming_pattern_applies_to_looked_up_machines(tmp_path: Path, everything: str) -> None:
    one = "  one: {engine: ssh, size: Standard_D4s_v6, nodes: 1}\n"
    environment = load(tmp_path, everything + one + OWN)
    assert extended_machines_of(environment) == {"one": "vm-one-lab-corp"}
