"""Synchronization of a session's code, and the ssh settings that lead to the session."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import refused
from programs import executable, finished
from running import MakeRun

from fairway_core.findings import UserError
from fairway_runner import dev_sessions
from fairway_runner.dev_sessions import SessionAccess
from fairway_runner.dev_sync import Known, SessionExec, SessionFailed, Sync, take_turn
from fairway_runner.runs.store import Run
from fairway_runner.submit import snapshot

pytestmark = pytest.mark.integration


class There(SessionExec):
    """A session that is on this machine."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Returns the command unchanged."""
        return list(words)


class Gone(SessionExec):
    """A session that does not answer."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Returns a command that fails at once."""
        return ["sh", "-c", "echo no connection >&2; exit 255", *words]


@pytest.fixture(params=[True, False], ids=["rsync", "tar"])
def has_rsync(request: pytest.FixtureRequest) -> bool:
    """True if rsync is on both sides."""
    return bool(request.param)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("a")
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Folder of the session's copy of the code."""
    made = tmp_path / "node"
    made.mkdir()
    (made / "a.py").write_text("a")
    return made


def sync_of(run: Run, known: Known | None, node: Path, *, has_rsync: bool = True) -> Sync:
    assert known is not None
    return Sync(There(run, ["fairway"]), known, str(node), has_rsync)


def test_dev_sync_sends_only_changes(
    make_run: MakeRun, code: Path, node: Path, *, has_rsync: bool
) -> None:
    run = make_run("dev-a")
    Known.of(code, ["*.log"]).write(run)
    sync = sync_of(run, Known.read(run), node, has_rsync=has_rsync)
    assert not sync.send()
    (node / "made.txt").write_text("of a program there")
    for name in ("b.py", "b.log"):
        (code / name).write_text("b")
    (code / ".git").mkdir()
    (code / ".git" / "config").write_text("x")
    (code / "a.py").unlink()
    (code / "link").symlink_to("nothing")
    (code / "empty").mkdir()
    hostile = "-a b'\"$(touch owned) `x` \\ \x1b[2J é\n;"
    (code / "new").mkdir()
    (code / "new" / hostile).write_text("new")
    changes = sync.send()
    assert (sorted(changes.written), changes.removed) == (["b.py", f"new/{hostile}"], ["a.py"])
    assert sorted(each.name for each in node.iterdir()) == ["b.py", "made.txt", "new"]
    assert (node / "new" / hostile).read_text() == "new"
    assert sync.has_rsync is has_rsync
    # A later attach continues from the recorded state.
    again = sync_of(run, Known.read(run), node, has_rsync=has_rsync)
    assert not again.send()
    (code / "b.py").chmod(0o755)
    assert list(again.send().written) == ["b.py"]
    assert (node / "b.py").stat().st_mode & 0o100


def test_dev_sync_sends_again_after_a_failure(make_run: MakeRun, code: Path, node: Path) -> None:
    run = make_run("dev-a")
    sync = sync_of(run, Known.of(code, []), node)
    (code / "b.py").write_text("b")
    sync.session = Gone(run, ["fairway"])
    for _ in range(2):
        with pytest.raises(SessionFailed, match="a command in dev-a failed: no connection"):
            sync.send()
    sync.session = There(run, ["fairway"])
    assert (list(sync.send().written), sync.has_rsync) == (["b.py"], True)
    assert (node / "b.py").read_text() == "b"


@pytest.fixture
def wrap_rsync(programs: Path) -> Callable[[str], object]:
    """Function that puts a line of shell before the real rsync."""
    real = shutil.which("rsync")
    return lambda line: executable(programs / "rsync", f'{line}\nexec {real} "$@"')


def test_dev_sync_uses_tar_if_the_node_has_no_rsync(
    make_run: MakeRun, code: Path, node: Path, wrap_rsync: Callable[[str], object]
) -> None:
    wrap_rsync('[ "$1" != --server ] || exit 127')
    sync = sync_of(make_run("dev-a"), Known(code, (), {"gone.py": (1, 1, False)}), node)
    (node / "gone.py").write_text("x")
    changes = sync.send()
    assert (changes.written, changes.removed, sync.has_rsync) == (["a.py"], ["gone.py"], False)
    assert [each.name for each in node.iterdir()] == ["a.py"]


def test_dev_sync_replaces_a_link_on_the_node_instead_of_following_it(
    make_run: MakeRun, code: Path, node: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (node / "pkg").symlink_to(outside)
    (code / "pkg").mkdir()
    (code / "pkg" / "b.py").write_text("b")
    assert sync_of(make_run("dev-a"), Known(code, (), {}), node).send()
    assert list(outside.iterdir()) == []
    assert (node / "pkg" / "b.py").read_text() == "b"


def test_dev_sync_replaces_a_folder_by_a_file_and_the_reverse(
    make_run: MakeRun, code: Path, node: Path, *, has_rsync: bool
) -> None:
    """A program there has added files to the folder, as Python does."""
    for folder in (code, node):
        (folder / "pkg").mkdir()
        (folder / "pkg" / "b.py").write_text("b")
    (node / "pkg" / "__pycache__").mkdir()
    (node / "pkg" / "__pycache__" / "b.pyc").touch()
    sync = sync_of(make_run("dev-a"), Known.of(code, []), node, has_rsync=has_rsync)
    (code / "pkg" / "b.py").unlink()
    (code / "pkg").rmdir()
    (code / "pkg").write_text("a file")
    (code / "a.py").unlink()
    (code / "a.py").mkdir()
    (code / "a.py" / "c").write_text("c")
    assert sync.send()
    assert ((node / "pkg").read_text(), (node / "a.py" / "c").read_text()) == ("a file", "c")
    assert (sync.has_rsync, bool(sync.send())) == (has_rsync, False)


def test_dev_sync_keeps_what_the_session_has_put_in_place_of_a_removed_file(
    make_run: MakeRun, code: Path, node: Path, *, has_rsync: bool
) -> None:
    sync = sync_of(make_run("dev-a"), Known.of(code, []), node, has_rsync=has_rsync)
    (node / "a.py").unlink()
    (node / "a.py").mkdir()
    (node / "a.py" / "model").write_text("weights")
    (code / "a.py").unlink()
    assert (sync.send().removed, sync.has_rsync) == (["a.py"], has_rsync)
    assert (node / "a.py" / "model").read_text() == "weights"


def test_dev_sync_names_an_unreadable_file(
    make_run: MakeRun, code: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tarfile.TarFile, "add", add)
    sync = sync_of(make_run("dev-a"), Known(code, (), {}), node, has_rsync=False)
    refused(lambda: sync.send(), r"a\.py: Permission denied")


def test_dev_sync_of_an_unreadable_folder_removes_nothing_on_the_node(
    make_run: MakeRun, code: Path, node: Path, tmp_path: Path
) -> None:
    run = make_run("dev-a")
    sync = sync_of(run, Known.of(code, []), node)
    (code / "loop").symlink_to("loop")
    refused(lambda: sync.send(), "loop: Too many levels of symbolic links")
    (code / "loop").unlink()
    code.rename(tmp_path / "moved")
    refused(lambda: sync.send(), "code: No such file or directory")
    assert (node / "a.py").exists()
    (tmp_path / "moved").rename(code)
    assert not sync.send()


def test_dev_sync_leaves_out_files_that_git_ignores(
    make_run: MakeRun, code: Path, node: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    (code / ".gitignore").write_text("*.env\n")
    run = make_run("dev-a")
    Known.of(code, [], gitignore=True).write(run)
    (code / "secret.env").write_text("x")
    (code / "b.py").write_text("b")
    assert list(sync_of(run, Known.read(run), node).send().written) == ["b.py"]


def test_dev_sync_leaves_out_files_removed_while_the_folder_is_read(
    make_run: MakeRun, code: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors and version control replace files in this way."""
    run = make_run("dev-a")
    sync = sync_of(run, Known.of(code, []), node)
    (code / "b").mkdir()
    (code / "c.py").write_text("c")
    real, looks = os.scandir, list[object]()

    def scandir(folder: Path) -> list[os.DirEntry[str]]:
        looks.append(folder)
        with real(folder) as entries:
            found = list(entries)
        (code / "b").rmdir()
        (code / "c.py").unlink()
        return found

    monkeypatch.setattr(os, "scandir", scandir)
    assert not sync.send()
    assert looks == [code]


def test_dev_sync_measures_listing_time_without_copying_time(
    make_run: MakeRun, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause before the next listing grows with the time of the last one."""
    clock = [0.0]
    real = snapshot.list_files

    def listed(*given: Any, **more: Any) -> Any:
        clock[0] += 2
        return real(*given, **more)

    class Slow(SessionExec):
        """A session behind a slow line."""

        def run_here(self, words: Sequence[str], _: bytes) -> subprocess.CompletedProcess[bytes]:
            """Takes a minute."""
            clock[0] += 60
            return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr("fairway_runner.dev_sync.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("fairway_runner.dev_sync.list_files", listed)
    sync = Sync(Slow(make_run("dev-a"), ["fairway"]), Known(code, (), {}), "/there")
    assert sync.send()
    assert (clock[0], sync.took) == (62, 2)


def test_dev_sync_does_not_count_as_use_of_the_session(
    make_run: MakeRun,
    code: Path,
    node: Path,
    wrap_rsync: Callable[[str], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = f'[ "$1" != --server ] || [ -z "$FAIRWAY_PID" ] || touch {tmp_path}/used'
    wrap_rsync(used)
    monkeypatch.setenv("FAIRWAY_PID", "1")
    assert list(sync_of(make_run("dev-a"), Known(code, (), {}), node).send().written) == ["a.py"]
    assert not (tmp_path / "used").exists()


def test_dev_sync_turn_is_held_by_one_process_at_a_time(make_run: MakeRun) -> None:
    run = make_run("dev-a")
    lock = take_turn(run)
    assert lock is not None
    assert take_turn(run) is None
    os.close(lock)
    assert take_turn(run) is not None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"folder": 7, "exclude": [], "files": {}}',
        '{"folder": "/x", "exclude": [], "files": []}',
        '{"folder": "/x", "exclude": [], "files": {"a": [1]}}',
        '{"folder": "/x", "exclude": [], "files": {"a": ["x", 1, true]}}',
    ],
)
def test_dev_sync_with_a_damaged_record_of_sent_files_is_refused(
    make_run: MakeRun, text: str
) -> None:
    run = make_run("dev-a")
    assert Known.read(run) is None
    (run.folder / ".sent.json").write_text(text)
    refused(lambda: Known.read(run), r"\.sent\.json cannot be read")


def test_dev_sync_command_failure_reports_the_last_errors(make_run: MakeRun) -> None:
    said = "import sys; sys.stderr.write('0\\nfirst\\nno \\x1b[2Jpython3\\nend\\n'); sys.exit(3)"
    session = SessionExec(make_run("dev-a"), [sys.executable, "-c", said])
    with pytest.raises(SessionFailed, match="a command in dev-a failed: first; no ") as caught:
        session.ask(["true"])
    assert "\x1b" not in str(caught.value)
    assert caught.value.exit_code == 5


class TestHost:
    """The block of ~/.ssh/config."""

    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "home % 'x'"
        folder.mkdir()
        monkeypatch.setenv("HOME", str(folder))
        return folder

    def test_dev_ssh_host_is_read_by_ssh_with_a_key_in_any_folder(
        self, make_run: MakeRun, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run("dev-a")
        host = dev_sessions.write_host(
            run, SessionAccess("me", "/data/a b"), ["python", "-m", "it's 50%"]
        )
        assert host.vscode == "vscode://vscode-remote/ssh-remote+dev-a/data/a%20b"
        assert host.code_command == "code --remote ssh-remote+dev-a '/data/a b'"
        assert not host.included
        file = home / ".ssh" / "fairway.d" / "dev-a.conf"
        assert file.stat().st_mode & 0o777 == 0o600
        done = finished(["ssh", "-G", "-F", file, "dev-a"], check=True)
        facts = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        assert facts["user"] == "me"
        folder = run.folder.parents[2]
        proxy = f"env FAIRWAY_FOLDER={folder} python -m 'it'\"'\"'s 50%%' dev connect dev-a"
        assert facts["proxycommand"] == proxy
        key = run.folder.parents[1] / "ssh" / "key"
        assert facts["identityfile"] == str(key)
        assert key.stat().st_mode & 0o777 == 0o600
        assert dev_sessions.server_command(run)[-2] == key.with_suffix(".pub").read_text().strip()
        assert key.read_text() not in "".join(dev_sessions.server_command(run))
        key = home / 'of "me" \\ 5%d' / "key"
        key.parent.mkdir()
        monkeypatch.setattr(dev_sessions, "_key", lambda _: key)
        dev_sessions.write_host(run, SessionAccess("me", "/data"), ["fairway"])
        said = finished(["ssh", "-G", "-F", file, "dev-a"], check=True).stdout
        # ssh replaces tokens such as %d after this.
        assert f"identityfile {key}\n".replace("%", "%%") in said

    def test_dev_ssh_host_is_removed_with_its_run(self, make_run: MakeRun, home: Path) -> None:
        folder = home / ".ssh" / "fairway.d"
        run = make_run("dev-a")
        dev_sessions.write_host(run, SessionAccess("me", "/data"), ["fairway"])
        (folder / "gone.conf").write_text("# /nowhere/at/all\nHost gone\n")
        (folder / "mine.conf").write_text("Host mine\n")
        (home / ".ssh" / "config").write_text("include ~/.ssh/fairway.d/*.conf\n")
        assert dev_sessions.write_host(run, SessionAccess("me", "/data"), ["fairway"]).included
        assert sorted(each.name for each in folder.iterdir()) == ["dev-a.conf", "mine.conf"]
        dev_sessions.remove_host(run)
        dev_sessions.remove_host(run)
        assert [each.name for each in folder.iterdir()] == ["mine.conf"]

    def test_dev_ssh_host_that_cannot_be_written_is_reported(
        self, make_run: MakeRun, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / ".ssh").write_text("a file")
        with pytest.raises(UserError, match=r"fairway\.d cannot be written: Not a directory"):
            dev_sessions.write_host(make_run("dev-a"), SessionAccess("me", "/data"), ["fairway"])
        run = make_run("dev-b")
        (run.folder.parents[1] / "ssh" / "key.pub").unlink()
        monkeypatch.setenv("PATH", "/nowhere")
        lacking = "`ssh-keygen` is not on this machine's PATH"
        refused(lambda: dev_sessions.server_command(run), lacking, 4)
        executable(home / "ssh-keygen", "echo No user exists for uid 7 >&2\nexit 255")
        monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
        with pytest.raises(UserError, match="has made no key: No user exists for uid 7"):
            dev_sessions.server_command(run)
