"""Layout of the project: source roots that shadow no package, environments of its scripts, names
of its packages in instructions, and examples in docstrings."""

import contextlib
import doctest
import fcntl
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import constructs
import pytest
from programs import executable, finished
from waiting import until

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
            submit) echo "${{CDKTF_OUTDIR-}}${{FAIRWAY_FOLDER-}}${{FAIRWAY_SERVER-}}" >named
                "{sys.executable}" -c "{asks}" >python; echo '{{"run_id": "digits-a"}}' ;;
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
    known |= dict.fromkeys(("CDKTF_OUTDIR", "FAIRWAY_FOLDER", "FAIRWAY_SERVER"), "/elsewhere")
    done = finished([copy / "bin/demo"], env=known)
    assert done.returncode == 0, done.stderr
    assert (copy / "python").read_text() == f"{copy}/.venv/bin/python\n"
    assert (copy / "named").read_text() == "\n"
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
    python = executable(real / ".venv/bin/python", "")
    (real / f".venv/.fairway-dev-{_digest(real)}").symlink_to(python)
    done = finished([linked / "bin/setup"])
    assert (done.returncode, done.stderr) == (0, "")
    assert list(linked.iterdir()) == [linked / "bin"]


def _digest(clone: Path) -> str:
    digest = "{ cat pyproject.toml bin/setup; pwd; } | cksum | tr ' ' '-'"
    return finished(digest, shell=True, cwd=clone, check=True).stdout.strip()


# It makes an environment, whose pip knows its place, and notes what is asked of it.
_PYTHON = """#!/bin/sh
case "$*" in
    "-m venv --clear "*)
        rm -rf "$4" && mkdir -p "$4/bin" && ln -s "$0" "$4/bin/python"
        printf '#!/bin/sh\\nexec "%s/bin/python" pip' "$4" >"$4/bin/pip"
        chmod +x "$4/bin/pip" && echo venv >>"$CALLS" ;;
    pip) echo "pip 26 from ${PYTHONPATH:-${0%/bin/python}}/lib" ;;
    "-m ensurepip "*) echo ensurepip >>"$CALLS" ;;
    *install*) echo install >>"$CALLS" ;;
esac
"""


@pytest.fixture
def clone(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of `bin/setup` alone, with a stand-in for Python that writes to `calls`."""
    clone = tmp_path / "a clone"
    (clone / "bin").mkdir(parents=True)
    for name in ("bin/setup", "pyproject.toml"):
        shutil.copy(repository / name, clone / name)
    monkeypatch.setenv("FAIRWAY_PYTHON", str(executable(tmp_path / "python", _PYTHON)))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    # A folder of the same name is there, too.
    (tmp_path / "elsewhere/bin").mkdir(parents=True)
    monkeypatch.setenv("CDPATH", str(tmp_path / "elsewhere"))
    return clone


def _setup(clone: Path, *words: str) -> list[str]:
    """Returns what `bin/setup` asked of Python."""
    calls = clone.parent / "calls"
    calls.write_text("")
    finished(["bin/setup", *words], cwd=clone, check=True)
    return calls.read_text().split()


def test_setup_makes_an_environment_anew_that_is_broken_moved_or_copied(clone: Path) -> None:
    (clone / ".venv").mkdir()
    assert _setup(clone) == ["venv", "install"]
    assert _setup(clone) == []
    assert _setup(clone, "dev") == ["install"]
    assert _setup(clone) == []
    python = clone / ".venv/bin/python"
    for gone in ("/nowhere/python3.12", "/bin/true"):
        python.unlink()
        python.symlink_to(gone)
        assert _setup(clone) == ["venv", "install"]
    copied = shutil.copytree(clone, clone.parent / "copied")
    assert _setup(copied) == ["venv", "install"]
    moved = clone.rename(clone.parent / "moved")
    assert _setup(moved) == ["venv", "install"]


def test_setup_keeps_an_environment_that_it_did_not_make(clone: Path, tmp_path: Path) -> None:
    """Such as one of uv, which has no pip."""
    shutil.copy(tmp_path / "python", executable(clone / ".venv/bin/python", ""))
    own = clone / ".venv/own"
    for file in (own, clone / ".venv/pyvenv.cfg"):
        file.touch()
    assert _setup(clone) == ["ensurepip", "install"]
    assert _setup(clone) == []
    moved = clone.rename(clone.parent / "moved")
    assert _setup(moved) == ["ensurepip", "install"]
    assert (moved / ".venv/own").exists()


def test_setup_looks_for_pip_in_the_environment_alone(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _setup(clone)
    monkeypatch.setenv("PYTHONPATH", "/opt/modules")
    assert _setup(clone, "dev") == ["install"]


@pytest.mark.parametrize(
    "kind", ["file", "folder", "broken", "dangling", "of another clone", "empty"]
)
def test_setup_refuses_what_is_no_environment_of_the_folder(clone: Path, kind: str) -> None:
    venv, other = clone / ".venv", clone.parent / "other"
    if kind == "file":
        venv.touch()
    elif kind in ("folder", "broken"):
        executable(venv / "bin/python", "#!/nowhere/python3.12\n")
        if kind == "broken":
            (venv / "pyvenv.cfg").touch()
    else:
        venv.symlink_to(other)
        if kind == "empty":
            other.mkdir()
        elif kind != "dangling":
            shutil.copy(clone.parent / "python", executable(other / "bin/python", ""))
            for name in ("pyvenv.cfg", ".fairway-made"):
                (other / name).touch()
    before = [*venv.rglob("*")]
    done = finished(["bin/setup"], cwd=clone)
    assert (done.returncode, f"first: mv '{venv}' '{venv}.old'" in done.stderr) == (2, True)
    assert not (clone.parent / "calls").exists()
    assert [*venv.rglob("*")] == before


@pytest.mark.parametrize("script", ["bindings", "prices"])
def test_script_is_run_by_the_environment_of_its_own_clone(
    repository: Path, clone: Path, script: str
) -> None:
    shutil.copy(repository / "bin" / script, clone / "bin" / script)
    _setup(clone)
    copied = shutil.copytree(clone, clone.parent / "copied")
    (clone.parent / "calls").write_text("")
    finished([copied / "bin" / script], check=True)
    assert (clone.parent / "calls").read_text().split() == ["venv", "install"]


def test_setup_that_waited_for_another_does_nothing(clone: Path) -> None:
    _setup(clone, "dev")
    (stamp,) = (clone / ".venv").glob(".fairway-dev-*")
    python = stamp.readlink()
    stamp.unlink()
    lock = os.open(clone, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waits = subprocess.Popen(["bin/setup"], cwd=clone)
        children = Path(f"/proc/{waits.pid}/task/{waits.pid}/children")

        def is_at_the_lock() -> bool:
            with contextlib.suppress(OSError):  # a child that has ended meanwhile
                found = children.read_text().split()
                return any(Path(f"/proc/{pid}/comm").read_text() == "flock\n" for pid in found)
            return False

        until(is_at_the_lock)
        stamp.symlink_to(python)
    finally:
        os.close(lock)
    assert waits.wait() == 0
    assert stamp.exists()
    assert list((clone / ".venv").glob(".fairway-*-*")) == [stamp]


def test_scripts_that_change_folders_ignore_the_paths_of_their_user(repository: Path) -> None:
    files = [file for name in ("bin", ".ci") for file in (repository / name).iterdir()]
    texts = {file.name: file.read_text() for file in files}
    changing = {name for name, text in texts.items() if re.search(r"\bcd ", text)}
    assert "setup" in changing
    assert {name for name in changing if "\nunset CDPATH\n" not in texts[name]} == set()


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
# Their examples run in a stack: tests/constructs/test_examples.py.
CONSTRUCTS = ROOT / "constructs/fairway_constructs"
MODULES = sorted(
    ".".join(path.relative_to(ROOT / source).with_suffix("").parts).removesuffix(".__init__")
    for source in SOURCES
    for path in (ROOT / source).rglob("*.py")
    if not path.is_relative_to(CONSTRUCTS)
    if "\n    >>> " in path.read_text("utf-8") or "\n>>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_doctests_of_a_module_pass(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
