"""Imports without cycles, including imports for types and names in strings. In `runner/`,
differences between engines are asked of the engine and never decided by its name."""

import ast
from collections.abc import Iterator, Mapping, Set
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from changed import CHOSEN

from fairway_runner.engines.capabilities import ENGINES, HERE

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[2]

PACKAGES = (
    *("fairway_core", "fairway_constructs", "fairway_stacks", "fairway_agent", "fairway_boot"),
    *("fairway_runner", "fairway_cli", "fairway_hpc", "fairway_web", "fairway_simulator"),
)

# From the lowest to the highest; see the layers in pyproject.toml.
LAYERS = (
    {"fairway_boot"},
    {"fairway_agent"},
    {"fairway_core"},
    {"fairway_runner", "fairway_constructs"},
    {"fairway_hpc", "fairway_stacks", "fairway_simulator", "fairway_web"},
    {"fairway_cli"},
)
DECLARED = {
    # The stand-in for Azure, a program that plans without an account query.
    ("fairway_stacks.plan.promised", "fairway_simulator.azure"),
}
Imports = Mapping[str, Set[str]]


Nodes = list[ast.AST]


def nodes_of(text: str) -> Nodes:
    """Returns all nodes of a module's syntax tree."""
    return [*ast.walk(ast.parse(text))]


def named(nodes: Nodes, modules: Set[str]) -> set[str]:
    """Returns the modules that strings of a module name, such as programs that it starts."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            word = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            found |= {word} & modules
    return found


def chosen(nodes: Nodes, modules: Set[str]) -> set[str]:
    """Returns the names of modules that a module composes, with `*` for the parts filled in."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "*" for each in node.values]
            found.add("".join(map(str, parts)))
    own = {each for each in found if each.startswith("fairway_")}
    return {each for each in own if any(fnmatchcase(name, each) for name in modules)}


def engines_named(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each engine that is named: by a string of only that name, or
    by the section of a target that only this engine has."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value
        elif (
            isinstance(node, ast.Attribute) and node.attr != HERE
        ):  # any engine may use Target.local()
            word = node.attr
        else:
            continue
        if word in ENGINES:
            yield node.lineno, word


@pytest.fixture(scope="module")
def trees(imports: Imports) -> Mapping[str, Nodes]:
    """Returns the syntax tree of each module."""
    found = {}
    for root in ("constructs", "stacks", "runner", "simulators"):
        for file in sorted((REPOSITORY / root).rglob("*.py")):
            path = file.relative_to(REPOSITORY / root).with_suffix("")
            module = ".".join(path.parts).removesuffix(".__init__")
            if module in imports:
                found[module] = nodes_of(file.read_text(encoding="utf-8"))
    assert len(found) > 500
    return found


@pytest.fixture(scope="module")
def imports() -> Imports:
    """Returns the modules that each module imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}


@pytest.fixture(scope="module")
def hidden(imports: Imports, trees: Mapping[str, Nodes]) -> Imports:
    """Returns the other modules that each module names in strings."""
    known = set(imports)
    return {module: named(nodes, known) - {module} for module, nodes in trees.items()}


def test_imports_have_no_cycles(imports: Imports, hidden: Imports) -> None:
    assert len(imports) > 500
    both = {module: imports[module] | hidden.get(module, set()) for module in imports}
    TopologicalSorter(both).prepare()  # CycleError names a cycle


def test_imports_named_in_strings_are_of_lower_layers_or_declared(hidden: Imports) -> None:
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


def test_imports_chosen_by_name_are_declared(imports: Imports, trees: Mapping[str, Nodes]) -> None:
    known = set(imports)
    found = {(module, each) for module, nodes in trees.items() for each in chosen(nodes, known)}
    assert found == CHOSEN


# Other things with the name of an engine.
OTHERS = {
    ("fairway_runner.targets", "local"),  # the target that always exists
    ("fairway_runner.dev_sessions", "ssh"),  # a folder with keys
    ("fairway_cli.main", "ssh"),  # a command
    ("fairway_runner.targets.lookup", "ssh"),  # a program
}
RUNNER = ("fairway_runner", "fairway_cli", "fairway_hpc", "fairway_web")
# Modules of engines; the starter writes environment files, which choose an engine, and the live
# checks query Azure for the needs of such a file.
THEIRS = tuple(f"fairway_runner.{name}." for name in ("engines", "starter", "live"))


def test_runner_modules_name_no_engine(trees: Mapping[str, Nodes]) -> None:
    outside = [
        module
        for module in trees
        if module.startswith(RUNNER) and not f"{module}.".startswith(THEIRS)
    ]
    assert len(outside) > 100
    found = [
        f"{module}:{line}"
        for module in outside
        for line, word in engines_named(trees[module])
        if (module, word) not in OTHERS
    ]
    assert found == []


def test_runner_modules_import_no_module_of_an_engine(imports: Imports) -> None:
    own = tuple(f"fairway_runner.engines.{name}." for name in ENGINES)
    found = [
        f"{module} imports {imported}"
        for module in sorted(imports)
        if module.startswith(RUNNER) and not module.startswith("fairway_runner.engines.")
        for imported in sorted(imports[module])
        if f"{imported}.".startswith(own)
    ]
    assert found == []


@pytest.mark.parametrize("text", ["x = 'a.b'", "x = {b'a.b'}", "run(['python3', '-m', 'a.b'])"])
def test_module_name_in_a_string_is_found(text: str) -> None:
    assert named(nodes_of(text), {"a", "a.b"}) == {"a.b"}


def test_module_name_in_an_f_string_is_found() -> None:
    text = "import_module(f'fairway_a.{b}.c'), f'fairway_a.{b}.d', f'{b}.fairway_a'"
    assert chosen(nodes_of(text), {"fairway_a.b.c", "fairway_a"}) == {"fairway_a.*.c"}


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
def test_engine_name_in_code_is_found(text: str) -> None:
    assert list(engines_named(nodes_of(text)))
