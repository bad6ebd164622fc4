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

# Modules that import others by names built at run time, and the modules that these can be. The many
# engines, checks and commands each import the module that chooses among them.
CHOSEN = {
    ("fairway_agent.kubernetes.submit", "fairway_agent.kubernetes.*"),
    ("fairway_cli.main", "fairway_cli.commands.*"),
    ("fairway_core.checks.runner", "fairway_core.checks.*"),
    ("fairway_core.checks.runner", "fairway_core.environment.clusters.*.checks"),
    ("fairway_runner.engines.engine", "fairway_runner.engines.*"),
    ("fairway_stacks.compute", "fairway_stacks.clusters.*"),
}

OTHERS = {
    "job_templates/*": ("runner/test_launchers*.py", "runner/test_templating.py"),
    "stacks/environments/*": ("stacks/*", "core/environment/*"),
    "examples/*": ("runner/test_launchers_examples.py", "end_to_end/test_digits.py"),
    "docs/*": ("end_to_end/test_doc*.py", "end_to_end/test_site.py", "packaging/test_words.py"),
    "README.md": ("end_to_end/test_doc*.py", "packaging/*"),
    ".github/*": ("workflows/*", "runner/starter/*"),
    "bin/*": ("packaging/*", "simulator/test_simulator_command.py"),
    "tests/bench/*": ("packaging/test_bench.py",),
    "tests/golden/*": (
        "core/*_messages.py",
        "runner/test_*_messages.py",
        "runner/test_sweep_s*",
    ),
    "tests/runner/golden/*": ("runner/test_launchers.py", "runner/test_review_*.py"),
    "pyproject.toml": ("packaging/*",),
    "*.py": ("suite/test_imported_names.py",),
}


def changed_files(revision: str) -> list[str]:
    """Returns the paths of the files that differ from a revision, including new files."""
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
    """Returns those of the given tests that a change of these files touches."""
    modules = _with_importers({module for file in changed for module in _modules(file)})
    return [
        test
        for test in tests
        if any(_names(file, test) or _is_run_by(file, test) for file in changed)
        or modules.intersection(_imports_above(test))
    ]


def _is_run_by(file: str, test: str) -> bool:
    """Returns True for an end-to-end test that may run the file: the program imports engines and
    commands by name. Tests of one engine do not run the code of others."""
    if not test.startswith("tests/end_to_end/") or not file.startswith(("runner/", "simulators/")):
        return False
    of_file, of_test = (ENGINES.intersection(Path(path).parts) for path in (file, test))
    if Path(file).parent.name == "engines":  # a single module
        of_file = ENGINES.intersection({Path(file).stem})
    return not of_file or of_file == of_test or "every_engine" in test


def _names(file: str, test: str) -> bool:
    """Returns True for a changed test, a test below a changed helper, or one named in `OTHERS`."""
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
    """Yields the module of a source file, or for other files the modules beside them and below."""
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
    """Yields the helpers and modules that a test and the conftest.py files above it import,
    directly or through helpers. Leaves out the imports of helpers for end-to-end tests: a helper
    that runs the program imports all of its modules. See `_is_run_by`."""
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
    """Returns the modules that a file imports, and imported names, which may be modules too."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


def main() -> None:
    """Prints the files, one per line."""
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    print("\n".join(touched_tests(changed_files(*sys.argv[1:] or ["main"]), sorted(tests))))


if __name__ == "__main__":
    main()
