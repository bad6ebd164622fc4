"""Examples in docstrings, whose results must be as shown."""

import doctest
import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SOURCES = ("runner", "constructs", "stacks", "simulators")
MODULES = sorted(
    ".".join(path.relative_to(ROOT / source).with_suffix("").parts).removesuffix(".__init__")
    for source in SOURCES
    for path in (ROOT / source).rglob("*.py")
    if "\n    >>> " in path.read_text("utf-8") or "\n>>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_doctests_of_a_module_pass(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
