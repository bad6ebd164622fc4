"""Names that tests and stand-ins, also nightly ones, import, replace or start exist."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from changed import ROOT

ROOTS = ("constructs", "stacks", "runner", "simulators", "tests/suite", "tests/bench")
_PACKAGES = "core|constructs|stacks|agent|boot|runner|cli|hpc|web|simulator"
OURS = re.compile(rf"(?:fairway_(?:{_PACKAGES})|tests)(?:\.\w+)*")
STRING = re.compile(rf"fairway_(?:{_PACKAGES})(?:\.[A-Za-z_]\w*)+(?![\w[])")
FROM = re.compile(rf"from ({OURS.pattern}) import (\w+(?:, \w+)*)")


@functools.cache
def names_of(file: Path) -> frozenset[str]:
    """Returns the names that a module may define."""
    found = {"__file__", "__name__", "__path__"}
    waiting: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return frozenset(found)


@functools.cache
def file_of(module: str) -> Path | None:
    """Returns the file of one of our modules; for a folder, its possibly missing `__init__.py`."""
    for root in ["."] if module.startswith("tests") else ROOTS:
        path = ROOT / root / module.replace(".", "/")
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if path.is_dir():
            return path / "__init__.py"
    return None


def exists(dotted: str) -> bool:
    """Returns True for one of our modules, a name in it, or an attribute of such a name."""
    module, name = dotted, ""
    while not (file := file_of(module)) and "." in module:
        module, _, name = module.rpartition(".")
    return file is not None and (not name or (file.is_file() and name in names_of(file)))


def imported(nodes: list[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """Yields the line of each import of ours, its local name, and its dotted name."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for each in node.names:
                name = f"{prefix}{each.name}"
                if OURS.match(name) or file_of(name.partition(".")[0]):
                    yield node.lineno, each.asname or each.name, name


def used(nodes: list[ast.AST], modules: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yields the line and the dotted name of each use or replacement of a name in one of the
    `modules`, given by their local names, and of each dotted name of ours in a string."""
    for node in nodes:
        match node:
            case ast.Attribute(value=owner, attr=name) if module := modules.get(_dotted(owner)):
                yield node.lineno, f"{module}.{name}"
            case ast.Call(
                args=[owner, ast.Constant(str(name)), _], func=ast.Attribute(attr="setattr")
            ):
                if module := modules.get(_dotted(owner)):
                    yield node.lineno, f"{module}.{name}"
            case ast.Constant(str(text)) if "fairway_" in text or "tests" in text:
                yield from ((node.lineno, name) for name in STRING.findall(text))
                for module, names in FROM.findall(text):
                    yield from ((node.lineno, f"{module}.{name}") for name in names.split(", "))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def missing(text: str) -> list[str]:
    """Returns each name of ours in a text that does not exist, after its line."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [*imported(nodes)]
    modules = {here: name for _, here, name in names if file_of(name)}
    for node in nodes:  # variables hide modules of the same name
        if isinstance(node, ast.arg):
            modules.pop(node.arg, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            modules.pop(node.id, None)
    found = [*((line, name) for line, _, name in names), *used(nodes, modules)]
    return [f"{line}: {name}" for line, name in found if not exists(name)]


def test_imported_names_of_tests_and_simulators_exist() -> None:
    files = {file for folder in ("tests", "simulators") for file in (ROOT / folder).rglob("*.py")}
    assert len(files) > 500
    wrong = {
        str(file.relative_to(ROOT)): names
        for file in files - {Path(__file__)}
        if (names := missing(file.read_text("utf-8")))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    [
        "import fairway_core.gone",
        "def test():\n    from fairway_core.fields import gone",
        "from waiting import gone",
        "from fairway_core import fields as f\nassert f.gone",
        "from fairway_core import fields\nmonkeypatch.setattr(fields, 'gone', 1)",
        "monkeypatch.setattr('fairway_core.fields.gone', 1)",
        "run('python -m fairway_core.gone')",
        "run('import sys; from fairway_core.fields import Span, gone')",
    ],
)
def test_imported_names_check_finds_a_missing_name(text: str) -> None:
    (name,) = missing(text)
    assert name.endswith(".gone")
