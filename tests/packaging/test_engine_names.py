"""In `runner/`, what differs between engines is asked of the engine, and never of its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from fairway_runner.engines.capabilities import ENGINES

RUNNER = Path(__file__).parents[2] / "runner"
PACKAGES = ("fairway_runner", "fairway_cli", "fairway_hpc", "fairway_web")


def outside() -> list[Path]:
    """The modules of the runner that belong to no engine. The starter writes environment files,
    which choose one."""
    found = [file for name in PACKAGES for file in sorted((RUNNER / name).rglob("*.py"))]
    theirs = {RUNNER / "fairway_runner" / name for name in ("engines", "starter")}
    return [file for file in found if theirs.isdisjoint(file.parents)]


def named(tree: ast.AST) -> Iterator[int]:
    """The lines that compare something with an engine's name, or choose by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        else:
            continue
        words = {
            each.value for one in asked for each in ast.walk(one) if isinstance(each, ast.Constant)
        }
        if words & ENGINES.keys():
            yield node.lineno


@pytest.mark.parametrize(
    "text",
    ["a.engine == 'batch'", "x not in ('ssh', 'slurm')", "match e:\n    case 'local': pass"],
)
def test_a_comparison_is_found(text: str) -> None:
    assert list(named(ast.parse(text)))


def test_no_module_compares_with_an_engines_name() -> None:
    files = outside()
    assert len(files) > 150
    found = [f"{file}:{line}" for file in files for line in named(ast.parse(file.read_text()))]
    assert found == []


def test_no_module_imports_an_engines_modules() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    own = tuple(f"fairway_runner.engines.{name}" for name in ENGINES)
    found = [
        f"{module} imports {imported}"
        for module in sorted(graph.modules)
        if not module.startswith("fairway_runner.engines.")
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if imported in own or imported.startswith(tuple(f"{name}." for name in own))
    ]
    assert found == []
