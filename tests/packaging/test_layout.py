"""Layout of the project: source roots that shadow no package, environments of its scripts, names
of its packages in instructions, and examples in docstrings."""

import doctest
import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import constructs
import pytest
from programs import executable, finished

pytestmark = pytest.mark.integration

_WHERE = "import constructs, sys; sys.stdout.write(str(constructs.__file__))"


def test_layout_folder_constructs_does_not_shadow_the_package(repository: Path) -> None:
    assert "site-packages" in str(constructs.__file__)  # under pytest
    done = finished([sys.executable, "-c", _WHERE], cwd=repository, check=True)
    assert "site-packages" in done.stdout


@pytest.mark.parametrize("root", ["constructs", "stacks", "runner", "simulators"])
def test_layout_source_roots_are_no_packages(repository: Path, root: str) -> None:
    assert not (repository / root / "__init__.py").exists()


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_demo_in_an_active_environment_trains_with_its_own_python(
    repository: Path, tmp_path: Path, name: str
) -> None:
    copy, active = tmp_path / "copy", tmp_path / "active"
    asks = "from fairway_runner.engines.local import search_path; import shutil"
    asks += "; print(shutil.which('python', path=search_path()))"
    programs = {
        "setup": "",
        "synth": "",
        "fairway": f"""case $1 in
            submit) "{sys.executable}" -c "{asks}" >python; echo '{{"run_id": "digits-a"}}' ;;
            logs) echo 'done: well' ;;
        esac""",
    }
    for folder in (copy / "bin", copy / ".venv/bin", active / "bin"):
        folder.mkdir(parents=True)
    for program, text in programs.items():
        executable(copy / "bin" / program, f"#!/usr/bin/env bash\n{text}\n")
    for folder in (copy / ".venv", active):
        (folder / "bin/python").symlink_to(sys.executable)
    shutil.copy(repository / "bin/demo", copy / "bin/demo")
    known = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    known |= {name: str(active), "PATH": f"{active}/bin:{os.environ['PATH']}"}
    done = finished([copy / "bin/demo"], env=known)
    assert done.returncode == 0, done.stderr
    assert (copy / "python").read_text() == f"{copy}/.venv/bin/python\n"
    assert "\n         . .venv/bin/activate" in done.stdout


def test_setup_through_a_link_uses_the_environment_of_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    """A copy whose folders are links must not take the environment over."""
    real, linked = tmp_path / "real", tmp_path / "linked"
    (real / "bin").mkdir(parents=True)
    linked.mkdir()
    for name in ("bin/setup", "pyproject.toml"):
        shutil.copy(repository / name, real / name)
    (linked / "bin").symlink_to(real / "bin")
    digest = finished(
        "cat pyproject.toml bin/setup | cksum | tr ' ' '-'", shell=True, cwd=real, check=True
    ).stdout.strip()
    (real / ".venv").mkdir()
    (real / f".venv/.fairway-dev-{digest}").touch()
    done = finished([linked / "bin/setup"])
    assert (done.returncode, done.stderr) == (0, "")
    assert list(linked.iterdir()) == [linked / "bin"]


# `fairway` on the Python package index is another project; `fairway-hpc` is not there yet.
_BARE = re.compile(
    r"""pip\s+install\s[^\n#]*?(?<![\w./-])fairway(?:-hpc)?(?:\[[\w,]*\])?["'`]?(?:\s*$|\s+[^@\s])
    | (?<![\w-])fairway\[
    | (?<![\w-])fairway(?:-hpc)?(?:\[[\w,]*\])?\s*(?:==|~=|>=)\s*[\d@]""",
    re.VERBOSE | re.MULTILINE,
)
_FILES = ("README.md", "CONTRIBUTING.md", "pyproject.toml", ".ci/run")
_FOLDERS = (
    *("bin", "constructs", "docs", "examples", "job_templates", "runner", "simulators", "stacks"),
    *(".github", ".devcontainer"),
)
_TEXT = {".in", ".j2", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def test_bare_package_name_is_installed_in_no_file(repository: Path) -> None:
    files = [repository / name for name in _FILES]
    for folder in _FOLDERS:
        files += [f for f in (repository / folder).rglob("*") if f.suffix in _TEXT and f.is_file()]
    assert len(files) > 300
    found = {
        f"{file.relative_to(repository)}: {match[0].strip()}"
        for file in files
        for match in _BARE.finditer(file.read_text(encoding="utf-8", errors="replace"))
    }
    assert not found


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ('pip install "fairway[local,node]"', True),
        ("run: pip install 'fairway[node]'", True),
        ("pip install fairway", True),
        (".venv/bin/pip install -q fairway-hpc", True),
        ('pip install "fairway-hpc[local]"', True),
        ("fairway[node]==0.1.0", True),
        ("fairway-hpc[node]==@VERSION@", True),
        ("fairway==0.1.0", True),
        ('pip install "fairway-hpc[node] @ git+https://example.org/fairway@0123"', False),
        ("pip install -r requirements.txt  # brings fairway", False),
        ('pip install "./fairway_hpc-0.1.0-py3-none-any.whl[local,node]"', False),
        ('examples = ["fairway-hpc[local]", "numpy>=2"]', False),
    ],
)
def test_bare_package_name_is_found_but_not_one_with_a_source(line: str, bare: bool) -> None:
    assert bool(_BARE.search(f"{line}\n")) is bare


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
