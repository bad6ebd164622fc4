"""The tests that docs/reliability.md names are there, each in one row."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _named() -> list[str]:
    return re.findall(r"`(test_\w+)`", (ROOT / "docs/reliability.md").read_text("utf-8"))


def _defined() -> set[str]:
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found


def test_every_test_that_the_page_names_exists() -> None:
    assert len(_named()) > 30
    assert sorted(set(_named()) - _defined()) == []


def test_no_test_is_named_twice() -> None:
    assert [name for name, count in Counter(_named()).items() if count > 1] == []
