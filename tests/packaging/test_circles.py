"""No module imports itself through others, not for types either, nor by a name in a string."""

import ast
from collections.abc import Mapping, Set
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from changed import CHOSEN

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[2]

PACKAGES = (
    *("fairway_core", "fairway_constructs", "fairway_stacks", "fairway_agent", "fairway_boot"),
    *("fairway_runner", "fairway_cli", "fairway_hpc", "fairway_web", "fairway_simulator"),
)

# What may import what; see the layers in pyproject.toml.
LAYERS = (
    {"fairway_boot"},
    {"fairway_agent"},
    {"fairway_core"},
    {"fairway_runner", "fairway_constructs"},
    {"fairway_hpc", "fairway_stacks", "fairway_simulator", "fairway_web"},
    {"fairway_cli"},
)
DECLARED = {
    # The stand-in for Azure that plans ask which are made without an account: a program.
    ("fairway_stacks.plan.loopback", "fairway_simulator.azure"),
}
Imports = Mapping[str, Set[str]]


def named(text: str, modules: Set[str]) -> set[str]:
    """The modules that strings of a module's text name, such as programs that it starts."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            word = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            found |= {word} & modules
    return found


def chosen(text: str, modules: Set[str]) -> set[str]:
    """The names of modules that a module's text puts together, with `*` for what is filled in."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "*" for each in node.values]
            found.add("".join(map(str, parts)))
    own = {each for each in found if each.startswith("fairway_")}
    return {each for each in own if any(fnmatchcase(name, each) for name in modules)}


@pytest.fixture(scope="module")
def texts(imports: Imports) -> Mapping[str, str]:
    """The text of each module."""
    found = {}
    for root in ("constructs", "stacks", "runner", "simulators"):
        for file in sorted((REPOSITORY / root).rglob("*.py")):
            path = file.relative_to(REPOSITORY / root).with_suffix("")
            module = ".".join(path.parts).removesuffix(".__init__")
            if module in imports:
                found[module] = file.read_text(encoding="utf-8")
    assert len(found) > 500
    return found


@pytest.fixture(scope="module")
def imports() -> Imports:
    """Modules that each module imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}


@pytest.fixture(scope="module")
def hidden(imports: Imports, texts: Mapping[str, str]) -> Imports:
    """Modules that each module names in strings; itself does not count."""
    known = set(imports)
    return {module: named(text, known) - {module} for module, text in texts.items()}


def test_imports_have_no_circles(imports: Imports, hidden: Imports) -> None:
    assert len(imports) > 500
    both = {module: imports[module] | hidden.get(module, set()) for module in imports}
    TopologicalSorter(both).prepare()  # CycleError names a circle


def test_import_names_in_strings_are_of_lower_layers_or_declared(hidden: Imports) -> None:
    height = {package: number for number, layer in enumerate(LAYERS) for package in layer}
    assert height.keys() == set(PACKAGES)
    wrong = set()
    for module, names in hidden.items():
        here = module.partition(".")[0]
        for name in names:
            there = name.partition(".")[0]
            if here != there and height[there] >= height[here]:
                wrong.add((module, name))
    assert wrong == DECLARED


def test_imports_chosen_by_name_are_declared(imports: Imports, texts: Mapping[str, str]) -> None:
    known = set(imports)
    found = {(module, each) for module, text in texts.items() for each in chosen(text, known)}
    assert found == CHOSEN


@pytest.mark.parametrize("text", ["x = 'a.b'", "x = {b'a.b'}", "run(['python3', '-m', 'a.b'])"])
def test_a_name_in_a_string_is_found(text: str) -> None:
    assert named(text, {"a", "a.b"}) == {"a.b"}


def test_a_name_that_is_put_together_is_found() -> None:
    text = "import_module(f'fairway_a.{b}.c'), f'fairway_a.{b}.d', f'{b}.fairway_a'"
    assert chosen(text, {"fairway_a.b.c", "fairway_a"}) == {"fairway_a.*.c"}
