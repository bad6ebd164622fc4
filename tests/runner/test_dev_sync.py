"""How the code of a session is kept in sync, and how ssh is told of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import code_changes
from fairway_core.findings import UserError
from fairway_runner.dev import ssh
from fairway_runner.dev.beside import Beside, SessionFailed
from fairway_runner.dev.session_access import SessionAccess
from fairway_runner.dev.sync import Known, Sync, take_turn
from fairway_runner.submit import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun

    from fairway_runner.runs.store import Run


class There(Beside):
    """A session whose code is in a folder."""

    folder: Path
    answer: str

    @classmethod
    def of(cls, run: Run, folder: Path) -> There:
        """With this folder."""
        made = cls(run, ["fairway"])
        object.__setattr__(made, "folder", folder)
        object.__setattr__(made, "answer", "")
        return made

    def ask(self, words: Any, data: bytes = b"") -> str:
        """Runs it as the session would."""
        if self.answer:
            return self.answer
        variables = {**os.environ, "FAIRWAY_SESSION": str(self.folder), "FAIRWAY_PID": "1"}
        done = subprocess.run(
            words, input=data, capture_output=True, check=True, cwd=self.folder, env=variables
        )
        return f"a profile prints this\n{done.stdout.decode()}"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("a")
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Where a session has the code."""
    made = tmp_path / "node"
    made.mkdir()
    (made / "a.py").write_text("a")
    return made


def test_only_what_changes_here_is_sent(make_run: MakeRun, code: Path, node: Path) -> None:
    run = make_run("dev-a")
    Known.of(code, ["*.log"]).write(run)
    known = Known.read(run)
    assert known is not None
    sync = Sync(There.of(run, node), known)
    assert not sync.send()
    (node / "made.txt").write_text("of a program there")
    for name in ("b.py", "b.log"):
        (code / name).write_text("b")
    (code / ".git").mkdir()
    (code / ".git" / "config").write_text("x")
    (code / "a.py").unlink()
    (code / "link").symlink_to("nothing")
    (code / "empty").mkdir()
    changes = sync.send()
    assert (list(changes.written), list(changes.removed)) == (["b.py"], ["a.py"])
    assert sorted(each.name for each in node.iterdir()) == ["b.py", "made.txt"]
    # Who attaches later goes on from there.
    again = Known.read(run)
    assert again is not None
    assert not Sync(There.of(run, node), again).send()
    (code / "b.py").chmod(0o755)
    assert list(Sync(There.of(run, node), again).send().written) == ["b.py"]
    assert (node / "b.py").stat().st_mode & 0o100


def test_what_could_not_be_sent_is_sent_again(make_run: MakeRun, code: Path, node: Path) -> None:
    run = make_run("dev-a")
    there = There.of(run, node)
    sync = Sync(there, Known.of(code, []))
    (code / "b.py").write_text("b")
    marks = [code_changes.MARK + text for text in ("{", "[]", '{"refused": [1]}', '{"refused": 7}')]
    for answer in ("nothing", *marks):
        object.__setattr__(there, "answer", answer)
        with pytest.raises(UserError, match="dev-a gave an answer that cannot be read"):
            sync.send()
    object.__setattr__(there, "answer", "")
    assert list(sync.send().written) == ["b.py"]
    assert (node / "b.py").read_text() == "b"


def test_what_is_refused_there_is_said_once(make_run: MakeRun, code: Path, node: Path) -> None:
    run = make_run("dev-a")
    (node / "name\x1b[2J").mkdir()
    sync = Sync(There.of(run, node), Known.of(code, []))
    (code / "name\x1b[2J").write_text("x")
    sync.send()
    [said] = sync.take_refused()
    assert said.endswith("there is a folder of that name")
    assert "\x1b" not in said
    assert not sync.send()
    assert sync.take_refused() == []
    # Who attaches later tries again.
    (node / "name\x1b[2J").rmdir()
    again = Known.read(run)
    assert again is not None
    assert list(Sync(There.of(run, node), again).send().written) == ["name\x1b[2J"]
    assert (node / "name\x1b[2J").read_text() == "x"


def test_a_folder_that_cannot_be_read_changes_nothing(
    make_run: MakeRun, code: Path, node: Path, tmp_path: Path
) -> None:
    run = make_run("dev-a")
    sync = Sync(There.of(run, node), Known.of(code, []))
    (code / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="loop: Too many levels of symbolic links"):
        sync.send()
    (code / "loop").unlink()
    code.rename(tmp_path / "moved")
    with pytest.raises(UserError, match="code: No such file or directory"):
        sync.send()
    assert (node / "a.py").exists()
    (tmp_path / "moved").rename(code)
    assert not sync.send()


def test_what_git_ignores_is_not_copied_by_who_attaches_later_either(
    make_run: MakeRun, code: Path, node: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    (code / ".gitignore").write_text("*.env\n")
    run = make_run("dev-a")
    Known.of(code, [], gitignore=True).write(run)
    (code / "secret.env").write_text("x")
    (code / "b.py").write_text("b")
    known = Known.read(run)
    assert known is not None
    assert list(Sync(There.of(run, node), known).send().written) == ["b.py"]


def test_what_goes_while_the_folder_is_read_is_left_out(
    make_run: MakeRun, code: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As editors and version control replace files."""
    run = make_run("dev-a")
    sync = Sync(There.of(run, node), Known.of(code, []))
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


def test_nothing_is_copied_before_it_has_begun(make_run: MakeRun, code: Path) -> None:
    """What prepares a session may be in any folder."""
    asked: list[list[str]] = []

    class Asked(Beside):
        """A session that fails."""

        def ask(self, words: Any, *_: Any, **__: Any) -> str:
            """Keeps what it is asked."""
            asked.append(words)
            raise SessionFailed.of("session-failed", "it is asked", "wait")

    with pytest.raises(SessionFailed):
        Sync(Asked(make_run("dev-a"), ["fairway"]), Known(code, (), {})).send()
    [words] = asked
    known = {name: value for name, value in os.environ.items() if name != "FAIRWAY_SESSION"}
    done = subprocess.run(words, env=known, capture_output=True, text=True, check=False, input="")
    assert done.returncode != 0
    assert "FAIRWAY_SESSION: the session has not begun" in done.stderr


def test_a_slow_copy_is_no_slow_look(
    make_run: MakeRun, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a slow look it is long before the next one."""
    clock = [0.0]
    real = snapshot.listed

    def listed(*given: Any, **more: Any) -> Any:
        clock[0] += 2
        return real(*given, **more)

    class Slow(Beside):
        """A session behind a slow line."""

        def ask(self, *_: Any, **__: Any) -> str:
            """Takes a minute."""
            clock[0] += 60
            return f'{code_changes.MARK}{{"refused": []}}'

    monkeypatch.setattr("fairway_runner.dev.sync.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("fairway_runner.dev.sync.listed", listed)
    sync = Sync(Slow(make_run("dev-a"), ["fairway"]), Known(code, (), {}))
    assert sync.send()
    assert (clock[0], sync.took) == (62, 2)


def test_what_copies_is_no_use_of_the_session(
    make_run: MakeRun, code: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("dev-a")
    own, python = tmp_path / "bin", shutil.which("python3")
    own.mkdir()
    (own / "python3").write_text(
        f'#!/bin/sh\n[ -z "$FAIRWAY_PID" ] || exit 7\nexec {python} "$@"\n'
    )
    (own / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    sync = Sync(There.of(run, node), Known(code, (), {}))
    assert list(sync.send().written) == ["a.py"]


def test_many_bytes_are_sent_in_parts(
    make_run: MakeRun, code: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_runner.dev.sync._MOST_AT_ONCE", 3)
    run = make_run("dev-a")
    sync = Sync(There.of(run, node), Known.of(code, []))
    for index in range(5):
        (code / f"{index}.py").write_text("xy")
    (code / "a.py").unlink()
    sync.send()
    assert sorted(each.name for each in node.iterdir()) == [f"{index}.py" for index in range(5)]


def test_one_alone_sends(make_run: MakeRun) -> None:
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
def test_a_damaged_record_of_what_was_sent(make_run: MakeRun, text: str) -> None:
    run = make_run("dev-a")
    assert Known.read(run) is None
    (run.folder / ".sent.json").write_text(text)
    with pytest.raises(UserError, match=r"\.sent\.json cannot be read"):
        Known.read(run)


def test_a_command_that_fails_says_why(make_run: MakeRun) -> None:
    said = "import sys; sys.stderr.write('first\\nno \\x1b[2Jpython3\\n'); sys.exit(3)"
    beside = Beside(make_run("dev-a"), [sys.executable, "-c", said])
    with pytest.raises(SessionFailed, match="a command in dev-a failed: no ") as caught:
        beside.ask(["true"])
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

    def test_it_is_one_that_ssh_reads(self, make_run: MakeRun, home: Path) -> None:
        run = make_run("dev-a")
        host = ssh.write_host(run, SessionAccess("me", "/data/a b"), ["python", "-m", "it's 50%"])
        assert host.vscode == "vscode://vscode-remote/ssh-remote+dev-a/data/a%20b"
        assert host.code_command == "code --remote ssh-remote+dev-a '/data/a b'"
        assert not host.included
        file = home / ".ssh" / "fairway.d" / "dev-a.conf"
        assert file.stat().st_mode & 0o777 == 0o600
        done = subprocess.run(
            ["ssh", "-G", "-F", file, "dev-a"], capture_output=True, text=True, check=True
        )
        facts = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        assert facts["user"] == "me"
        folder = run.folder.parents[2]
        proxy = f"env FAIRWAY_FOLDER={folder} python -m 'it'\"'\"'s 50%%' dev connect dev-a"
        assert facts["proxycommand"] == proxy
        key = run.folder.parents[1] / "ssh" / "key"
        assert facts["identityfile"] == str(key)
        assert key.stat().st_mode & 0o777 == 0o600
        assert ssh.server_command(run)[-1] == key.with_suffix(".pub").read_text().strip()
        assert key.read_text() not in "".join(ssh.server_command(run))

    def test_its_key_may_lie_in_any_folder(
        self, make_run: MakeRun, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = home / 'of "me" \\ 5%d' / "key"
        key.parent.mkdir()
        monkeypatch.setattr(ssh, "_key", lambda _: key)
        ssh.write_host(make_run("dev-a"), SessionAccess("me", "/data"), ["fairway"])
        file = home / ".ssh" / "fairway.d" / "dev-a.conf"
        words = ["ssh", "-G", "-F", file, "dev-a"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        # What it takes for a token, such as %d, is replaced after this.
        assert f"identityfile {key}\n".replace("%", "%%") in said

    def test_it_goes_with_its_run(self, make_run: MakeRun, home: Path) -> None:
        folder = home / ".ssh" / "fairway.d"
        run = make_run("dev-a")
        ssh.write_host(run, SessionAccess("me", "/data"), ["fairway"])
        (folder / "gone.conf").write_text("# /nowhere/at/all\nHost gone\n")
        (folder / "mine.conf").write_text("Host mine\n")
        (home / ".ssh" / "config").write_text("include ~/.ssh/fairway.d/*.conf\n")
        assert ssh.write_host(run, SessionAccess("me", "/data"), ["fairway"]).included
        assert sorted(each.name for each in folder.iterdir()) == ["dev-a.conf", "mine.conf"]
        ssh.remove_host(run)
        ssh.remove_host(run)
        assert [each.name for each in folder.iterdir()] == ["mine.conf"]

    def test_what_cannot_be_written(
        self, make_run: MakeRun, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / ".ssh").write_text("a file")
        with pytest.raises(UserError, match=r"fairway\.d cannot be written: Not a directory"):
            ssh.write_host(make_run("dev-a"), SessionAccess("me", "/data"), ["fairway"])
        run = make_run("dev-b")
        (run.folder.parents[1] / "ssh" / "key.pub").unlink()
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(UserError, match="`ssh-keygen` is not on this machine's PATH") as caught:
            ssh.server_command(run)
        assert caught.value.exit_code == 4
