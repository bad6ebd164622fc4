"""Prints the test files that a change touches: `python tests/suite/changed.py [REVISION]`.

A test file is touched if it changed, or if it, a conftest.py above it or one of their helpers
imports a module that changed or that imports one which did, through any number of modules. A file
beside the modules of a package counts as a change of them; other files have the tests that
`OTHERS` names.
"""

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import grimp

SUITE = Path(__file__).resolve().parent
ROOT = SUITE.parents[1]
SOURCES = ("constructs", "stacks", "runner", "simulators")
ENGINES = frozenset({"ssh", "slurm", "batch", "kubernetes"})

# Who imports a module whose name is put together as it runs, and which ones that can be. Engines,
# checks and commands are many, and each of them imports what chooses among them.
CHOSEN = {
    ("fairway_agent.batch", "fairway_agent.batch.*"),
    ("fairway_agent.kubernetes.submit", "fairway_agent.kubernetes.*"),
    ("fairway_cli.main", "fairway_cli.commands.*"),
    ("fairway_core.checks.running", "fairway_core.checks.*"),
    ("fairway_runner.engines.engine", "fairway_runner.engines.*"),
}

OTHERS = {
    "job_templates/*": ("runner/test_launchers*.py", "runner/test_templating.py"),
    "stacks/environments/*": ("stacks/*", "core/test_environment*.py"),
    "examples/*": ("runner/test_launchers_examples.py", "end_to_end/test_digits.py"),
    "docs/*": ("end_to_end/test_doc*.py", "end_to_end/test_site.py", "packaging/test_words.py"),
    "README.md": ("end_to_end/test_doc*.py", "packaging/*"),
    ".github/*": ("workflows/*", "runner/starter/*"),
    "bin/*": ("packaging/*", "simulator/test_simulator_command.py"),
    "tests/bench/*": ("packaging/test_bench.py",),
    "tests/golden/*": (
        "core/test_*_messages.py",
        "runner/test_*_messages.py",
        "runner/test_sweep_s*",
    ),
    "tests/runner/golden/*": ("runner/test_launchers.py", "runner/test_review_*.py"),
    "pyproject.toml": ("packaging/*",),
    "*.py": ("suite/test_imported_names.py",),
}


def changed_files(revision: str) -> list[str]:
    """The files that differ from a revision, by their paths in the repository; new ones too."""
    asked = (
        ("diff", "--name-only", revision),
        ("ls-files", "--others", "--exclude-standard"),
    )
    found = [
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in asked
    ]
    return sorted(set("".join(found).splitlines()))


def touched_tests(changed: Sequence[str], tests: Sequence[str]) -> list[str]:
    """The tests, of those at these paths, that a change of these files touches."""
    modules = _with_importers({module for file in changed for module in _modules(file)})
    return [
        test
        for test in tests
        if any(_names(file, test) or _is_run_by(file, test) for file in changed)
        or modules.intersection(_imports_above(test))
    ]


def _is_run_by(file: str, test: str) -> bool:
    """An end-to-end test runs the program, which imports engines and commands by their names: one
    of an engine is touched by all of the runner but what is another engine's."""
    if not test.startswith("tests/end_to_end/") or not file.startswith(("runner/", "simulators/")):
        return False
    of_file, of_test = (ENGINES.intersection(Path(path).parts) for path in (file, test))
    if Path(file).parent.name == "engines":  # a module of its own
        of_file = ENGINES.intersection({Path(file).stem})
    return not of_file or of_file == of_test or "every_engine" in test


def _names(file: str, test: str) -> bool:
    """A changed test, one below a changed helper of tests, or one that `OTHERS` names."""
    for where, patterns in OTHERS.items():
        if fnmatchcase(file, where) and any(
            fnmatchcase(test, f"tests/{each}") for each in patterns
        ):
            return True
    path = Path(file)
    if path.parts[0] != "tests" or path.suffix != ".py" or path.parts[1] == "bench":
        return False
    if path.parts[1] == "suite":
        return test == file or path.stem in _imports_above(test)
    return test == file or (
        not path.name.startswith("test_") and Path(test).is_relative_to(path.parent)
    )


def _modules(file: str) -> Iterator[str]:
    """The modules of a source file; for other files of a package, those beside it and below."""
    path = Path(file)
    if path.parts[0] not in SOURCES or len(path.parts) < 3:
        return
    if path.suffix == ".py":
        yield ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")
        return
    folder = path.parent
    while not (ROOT / folder / "__init__.py").exists() and len(folder.parts) > 2:
        folder = folder.parent
    for module in (ROOT / folder).rglob("*.py"):
        yield from _modules(module.relative_to(ROOT).as_posix())


def _with_importers(modules: set[str]) -> set[str]:
    known = modules & _graph().modules if modules else ()
    return modules.union(*(_graph().find_downstream_modules(module) for module in known))


@functools.cache
def _graph() -> grimp.ImportGraph:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    graph = grimp.build_graph(*settings["tool"]["importlinter"]["root_packages"])
    for importer, pattern in CHOSEN:
        for module in graph.modules:
            if fnmatchcase(module, pattern):
                graph.add_import(importer=importer, imported=module)
    return graph


def _imports_above(test: str) -> Iterator[str]:
    """The helpers and modules that a test, the conftest.py above it and its helpers import, through
    any number of helpers. A helper that runs the program has all of its modules, which says nothing
    of an end-to-end test: see `_is_run_by`."""
    above = [ROOT / folder / "conftest.py" for folder in Path(test).parents]
    waiting, known = [ROOT / test, *filter(Path.exists, above)], set[Path]()
    while waiting:
        path = waiting.pop()
        for name in _imports(path):
            helper = SUITE / f"{name}.py"
            if helper.exists():
                yield name
                waiting += {helper} - known
                known.add(helper)
            elif path.parent != SUITE or not test.startswith("tests/end_to_end/"):
                yield name


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """The modules that a file imports; a name that it takes from a package may be one too."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


def main() -> None:
    """Prints the files, a line each."""
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    print("\n".join(touched_tests(changed_files(*sys.argv[1:] or ["main"]), sorted(tests))))


if __name__ == "__main__":
    main()
