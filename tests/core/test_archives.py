"""Archives for hosts, nodes and VMs: equal for equal files, and usable with a bare Python."""

import ast
import io
import re
import shutil
import sys
import tarfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import finished, tool

import fairway_boot
from fairway_agent.main import OLDEST
from fairway_core import archives

pytestmark = pytest.mark.integration


def sources() -> dict[str, bytes]:
    """Returns the Python files of the bundle."""
    _, packed = archives.agent()
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        return {
            member.name: files.extractfile(member).read()  # type: ignore[union-attr]
            for member in files
            if member.name.endswith(".py")
        }


def test_agent_archive_name_and_content_are_reproducible() -> None:
    name, packed = archives.agent()
    archives.agent.cache_clear()
    again, repacked = archives.agent()
    assert (name, packed) == (again, repacked)


def test_archives_of_equal_folders_are_equal(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "sub"
        folder.mkdir(parents=True)
        for file in ("y", "x")[:: 1 if name == "a" else -1]:
            (folder / file).write_text(file)
        (folder / "x").chmod(0o755)
        (folder / "z").mkdir()
    first, second = (archives.pack_folder(tmp_path / name) for name in ("a", "b"))
    assert first == second
    (tmp_path / "b" / "sub" / "x").chmod(0o644)
    assert archives.pack_folder(tmp_path / "b") != first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(entry.name, entry.mode, entry.mtime) for entry in archive] == [
            ("sub/x", 0o755, 0),
            ("sub/y", 0o644, 0),
            ("sub/z", 0o755, 0),
        ]
        assert archive.getmember("sub/z").isdir()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Returns the folder of the agent's programs, unpacked as on a node."""
    digest, archive = archives.agent()
    assert len(digest) == 16
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path


def test_agent_archive_sources_parse_with_the_oldest_python() -> None:
    for name, text in sources().items():
        ast.parse(text, name, feature_version=OLDEST)


def test_agent_archive_modules_import_only_the_standard_library(programs: Path) -> None:
    """The modules are imported by a Python without installed packages."""
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sources()
        if name != "__main__.py"
    ]
    program = f"import sys; sys.path.insert(0, {str(programs)!r})\n"
    program += "".join(f"import {module}\n" for module in sorted(modules))
    program += "assert not any('site-packages' in str(getattr(m, '__file__', ''))"
    program += " for m in sys.modules.values())"
    run = finished([sys.executable, "-I", "-S", "-c", program])
    assert run.returncode == 0, run.stderr
    assert {"fairway_agent.ssh.runs", "fairway_boot.http"} <= set(modules)


def test_agent_archive_entry_point_refuses_python_that_is_too_old(tmp_path: Path) -> None:
    """The first file runs before any other of the bundle is imported."""
    entry = tmp_path / "__main__.py"
    entry.write_bytes(sources()["__main__.py"])
    program = "import runpy, sys; sys.version_info = (3, 9, 1, 'final', 0); "
    program += f"runpy.run_path({str(entry)!r}, run_name='__main__')"
    run = finished([sys.executable, "-I", "-S", "-c", program])
    assert run.returncode == 67
    assert "is too old" in run.stderr


def test_agent_archive_program_refuses_unknown_command(programs: Path) -> None:
    words = [sys.executable, "-S", "-E", str(programs / "fairway-node"), "dance"]
    done = finished(words)
    assert (done.returncode, done.stderr) == (2, "fairway-node: unknown command dance\n")


def test_agent_archive_shell_programs_pass_shellcheck(programs: Path) -> None:
    files = [str(programs / name) for name in ("fairway-agent", "fairway-each-node")]
    done = finished([tool("shellcheck"), *files])
    assert done.returncode == 0, done.stdout


BOOTED = {
    "scheduler": archives.SCHEDULER,
    "node": archives.NODE,
    "login": archives.LOGIN,
    "idle": archives.IDLE,
}
BOOT = pytest.mark.parametrize("modules", BOOTED.values(), ids=BOOTED)


@BOOT
def test_boot_archive_is_small_and_reproducible(modules: tuple[str, ...]) -> None:
    """Azure accepts 65,535 bytes of custom data, of which the archive in base64 is a part."""
    digest, packed = archives.boot(modules)
    assert (digest, packed) == archives.boot(reversed(modules))
    assert len(packed) < 16_000
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        files = {member.name for member in tar if member.size}
    assert files == {f"fairway_boot/{name}.py" for name in modules}


def test_boot_archives_together_contain_every_boot_module() -> None:
    folder = Path(fairway_boot.__file__).parent
    names = {file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.py")}
    there = {name for name in names if not name.endswith("__init__")}
    assert there == {name for modules in BOOTED.values() for name in modules}


@pytest.fixture
def boot_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a copy of the package from which archives are built."""
    copy = tmp_path / "fairway_boot"
    shutil.copytree(Path(fairway_boot.__file__).parent, copy)
    monkeypatch.setattr(archives, "_BOOT", copy)
    return copy


def reworded(text: str) -> str:
    """Returns a module with other comments and docstrings of other lengths."""
    text = re.sub(
        r'"""(?:[^"]|"(?!""))*"""', '"""Otherwise.\n\n    # In\n\n    more lines.\n    """', text
    )
    text = re.sub(r"^( *)# .*", r"\1# Another\n\n\1# comment", text, flags=re.MULTILINE)
    return "# At the top\n" + re.sub(r"(?<=\S)  # .*", "", text) + "# the end"


def test_boot_archive_changes_only_with_code_of_its_own_modules(boot_code: Path) -> None:
    """Terraform replaces a scheduler whenever its custom data changes."""
    before = {name: archives.boot(modules) for name, modules in BOOTED.items()}
    for file in boot_code.rglob("*.py"):
        text = file.read_text()
        assert reworded(text) != text
        file.write_text(reworded(text))
    assert {name: archives.boot(modules) for name, modules in BOOTED.items()} == before
    program = boot_code / "slurm/power.py"
    program.write_text(program.read_text().replace("max_workers=8", "max_workers=9"))
    after = {name: archives.boot(modules) for name, modules in BOOTED.items()}
    assert {name for name in BOOTED if after[name][0] != before[name][0]} == {"scheduler"}
    assert {name for name in BOOTED if after[name][1] != before[name][1]} == {"scheduler"}


class _Documents(ast.NodeTransformer):
    """A transformer that removes docstrings, and puts `pass` into bodies left empty."""

    def visit(self, node: ast.AST) -> ast.AST:
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [each for each in body if not _is_text(each)]
            node.body = kept or [ast.Pass()] * bool(body)  # type: ignore[attr-defined]
        return self.generic_visit(node)


def _is_text(node: ast.AST) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value
    return isinstance(text, str)


def test_boot_code_drops_only_comments_and_docstrings() -> None:
    texts = [file.read_text() for file in Path(fairway_boot.__file__).parent.rglob("*.py")]
    texts.append(
        'def f():\n    """D."""\n\n    return """a\n\n# b\n""", f"""c\n\n{1}\n\n"""  # e\n'
    )
    for text in texts:
        short = archives.code(text)
        assert ast.dump(ast.parse(short)) == ast.dump(_Documents().visit(ast.parse(text)))
        tokens = tokenize.generate_tokens(io.StringIO(short).readline)
        assert not any(token.type == tokenize.COMMENT for token in tokens)


@BOOT
def test_boot_archive_contains_every_imported_module(
    tmp_path: Path, modules: tuple[str, ...]
) -> None:
    for name, text in archives.boot_files(modules).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for wanted in imported(text):
            assert wanted.replace(".", "/").removeprefix("fairway_boot/") in modules, name
    names = [f"fairway_boot.{name.replace('/', '.')}" for name in modules]
    # -S: only the standard library.
    done = finished(
        [sys.executable, "-S", "-B", "-c", f"import {', '.join(names)}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def imported(text: str) -> Iterator[str]:
    """Yields our modules that a module imports at run time, including inside functions."""
    tree = ast.parse(text)
    for_types = [
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node)
    ]
    skipped = {id(node) for block in for_types for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            source = str(node.module)
            if source.startswith("fairway_"):
                folder = Path(fairway_boot.__file__).parent.parent / source.replace(".", "/")
                # Names imported from a package are modules; names from a module are not.
                names = [f"{source}.{each.name}" for each in node.names]
                yield from names if folder.is_dir() else [source]
