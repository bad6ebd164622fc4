"""In `runner/`, what differs between engines is asked of the engine, and never of its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from fairway_runner.engines.capabilities import ENGINES, HERE

pytestmark = pytest.mark.integration

RUNNER = Path(__file__).parents[2] / "runner"
PACKAGES = ("fairway_runner", "fairway_cli", "fairway_hpc", "fairway_web")


# What else is called as an engine is.
OTHERS = {
    ("fairway_runner/targets/__init__.py", "local"),  # the target that always exists
    ("fairway_runner/dev_sessions.py", "ssh"),  # a folder with keys
    ("fairway_cli/main.py", "ssh"),  # a command
    ("fairway_runner/targets/lookup.py", "ssh"),  # a program
}


def outside() -> list[Path]:
    """The modules of the runner that belong to no engine. The starter writes environment files,
    which choose one, and the live checks ask Azure for what such a file wants."""
    found = [file for name in PACKAGES for file in sorted((RUNNER / name).rglob("*.py"))]
    theirs = {RUNNER / "fairway_runner" / name for name in ("engines", "starter", "live")}
    return [file for file in found if theirs.isdisjoint(file.parents)]


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines with an engine's name, and the name: a text that is nothing else, or the section
    of a target that only its engine has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value
        elif isinstance(node, ast.Attribute) and node.attr != HERE:  # Target.local() is any's
            word = node.attr
        else:
            continue
        if word in ENGINES:
            yield node.lineno, word


@pytest.mark.parametrize(
    "text",
    [
        "a.engine == 'batch'",
        "x not in ('ssh', 'slurm')",
        "match e:\n    case 'local': pass",
        "{'kubernetes': 1}[engine]",
        "target.batch is None",
    ],
)
def test_a_name_is_found(text: str) -> None:
    assert list(named(ast.parse(text)))


def test_no_module_names_an_engine() -> None:
    files = outside()
    assert len(files) > 100
    found = [
        f"{file}:{line}"
        for file in files
        for line, word in named(ast.parse(file.read_text()))
        if (file.relative_to(RUNNER).as_posix(), word) not in OTHERS
    ]
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
