"""Sessions of `fairway dev`, on every engine."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from program import Fairway, Gate, Pipe, Place
from programs import executable, finished
from waiting import PATIENCE, lines_until

from fairway_runner.engines.capabilities import capabilities

Process = subprocess.Popen[str]

HOSTILE = "-a b'\"$(touch owned) `x` \\ é\n;"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory of this test only, where the ssh configuration of sessions is written."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def begun(fairway: Fairway, place: Place, *words: str) -> tuple[Process, str, list[str]]:
    """Starts a session and returns its attached command, its id and the lines printed so far."""
    process = fairway.start("dev", place.name, *words)
    lines = lines_until(process, "are copied there")
    return process, lines[0].split()[0], lines


def within(fairway: Fairway, run: str, script: str) -> str:
    """Returns the output of a command in the session, which must succeed."""
    done = fairway("exec", run, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestSession:
    """`fairway dev`, from its start to its end."""

    @pytest.mark.one_engine("ssh")
    def test_dev_session_syncs_its_code_and_resumes_after_its_client_was_killed(
        self, fairway: Fairway, place: Place, home: Path
    ) -> None:
        code = fairway.folder / "src"
        (code / "pkg").mkdir(parents=True)
        (code / "pkg" / "old.py").write_text("old\n")
        (code / HOSTILE).write_text("first\n")
        fields = {"env": {"MINE": HOSTILE}, "code": {"path": "src"}, "setup": "echo a >made"}
        job = fairway.job("exit 9", **fields)
        process, run, lines = begun(fairway, place, "--job", str(job))
        assert lines[0] == f"{run} is a session on {place.name}"
        shown = 'printf %s "$MINE"; cat made pkg/old.py'
        assert within(fairway, run, shown) == HOSTILE + "a\nold\n"

        (code / "new").mkdir()
        (code / "new" / HOSTILE).write_text("new\n")
        (code / HOSTILE).write_text("second\n")
        (code / "pkg" / "old.py").unlink()
        tool = code / "tool.sh"
        executable(tool, "echo tool")
        lines_until(process, "code: ")
        while not holds(fairway, run, "test -x tool.sh && test ! -e pkg/old.py"):
            lines_until(process, "code: ")
        shown = 'cat "./new/$MINE" "./$MINE"; ./tool.sh; cat made'
        assert within(fairway, run, shown) == "new\nsecond\ntool\na\n"
        assert not (fairway.folder / "owned").exists()
        assert not (code / "made").exists()

        config = home / ".ssh" / "fairway.d" / f"{run}.conf"
        if capabilities(place.engine).shell:
            assert f"             code --remote ssh-remote+{run} /" in "\n".join(lines)
            shown = 'printf "%s|" "$FAIRWAY_RUN" "$MINE"; cat made'
            done = finished(["ssh", "-F", str(config), run, shown], cwd="/")
            assert done.stdout == f"{run}|{HOSTILE}|a\n", done.stderr
        else:
            assert not config.exists()

        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        tool.unlink()
        says = f"{run} already runs on {place.name}: --hours would need another session"
        fairway.refused("dev", place.name, "--hours", "2", says=says)
        again = fairway.start("dev", place.name)
        assert lines_until(again, "code: 1 removed")[0] == f"{run} is a session on {place.name}"
        assert within(fairway, run, "test ! -e tool.sh && cat made") == "a\n"
        again.send_signal(signal.SIGINT)
        _, said = again.communicate(timeout=PATIENCE)
        assert again.returncode == 130
        assert f"{run} keeps running; attach again: fairway dev {place.name}" in said

        listed = json.loads(fairway.within("dev", "list", "--json").stdout)
        assert [(each["run_id"], each["state"]) for each in listed] == [(run, "running")]
        stopped = fairway.within("dev", "stop")
        assert (stopped.returncode, stopped.stdout) == (0, f"{run} cancelled\n"), stopped.stderr
        assert fairway.within("wait", run).returncode == 130
        assert not config.exists()
        assert fairway.within("dev", "list").stdout.startswith("no session is running")

    @pytest.mark.one_engine("ssh")
    def test_dev_session_waits_for_its_setup_before_copying_code(
        self, fairway: Fairway, place: Place, pipe: Pipe, gate: Gate
    ) -> None:
        """Changes go to the folder of the code, wherever the setup's working directory is."""
        setup = f"cd / && echo in setup >{pipe.path} && read -r _ <{gate.path}"
        job = fairway.job("true", setup=setup)
        process = fairway.start("dev", place.name, "--job", str(job))
        [first] = lines_until(process, "is a session on")
        run = first.split()[0]
        assert pipe.lines(1) == ["in setup"]
        # Some engines do not report a task as running during its setup.
        fairway("exec", run, "--", "true")
        (fairway.folder / "new.py").write_text("new\n")
        gate.open()
        [shown] = [line for line in lines_until(process, "are copied there") if "its code:" in line]
        lines_until(process, "code: 1 copied")
        assert shown.split()[-1] == within(fairway, run, "pwd").strip()
        assert within(fairway, run, "cat new.py") == "new\n"
        assert fairway.within("dev", "stop", run).returncode == 0
        process.communicate(timeout=PATIENCE)

    @pytest.mark.one_engine("ssh")
    def test_dev_session_that_is_idle_ends_with_exit_code_124(
        self, fairway: Fairway, place: Place
    ) -> None:
        process = fairway.start("dev", place.name, "--idle", "1s")
        out, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 124, said
        run = out.split()[0]
        assert "fairway: nobody has used the session for 1 s" in fairway.within("logs", run).stdout
        facts = fairway.show(run)
        assert (facts["state"], facts["reason"]) == ("failed", "unused for 1.0s")

    @pytest.mark.one_engine("ssh")
    def test_dev_session_ends_with_exit_code_124_when_its_hours_are_over(
        self, fairway: Fairway, place: Place
    ) -> None:
        began = fairway("dev", place.name, "--hours", "0.0005", "--detach", "--json")
        run = json.loads(began.stdout)["run_id"]
        assert fairway.within("wait", run).returncode == 124
        assert fairway.show(run)["task_list"][0]["timed_out"]


def holds(fairway: Fairway, run: str, script: str) -> bool:
    """Returns True if a command in the session succeeds."""
    return fairway("exec", run, "--", "sh", "-c", script).returncode == 0
