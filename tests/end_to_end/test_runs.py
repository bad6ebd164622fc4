"""Runs on this machine, from `fairway submit` to their end, through the program."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from program import Fairway, Gate, Pipe
from programs import executable, finished


def held(pipe: Pipe, gate: Gate) -> str:
    """Returns a command whose every rank reports that it is up, and waits until the gate opens."""
    up, go = shlex.quote(str(pipe.path)), shlex.quote(str(gate.path))
    return f"exec 9>{up}; echo up >&9; read -r _ <{go}; echo done"


# Logs its arguments, and runs the command that follows the image.
DOCKER = """#!/bin/sh
case $1 in version | rm) exit 0 ;; esac
echo "$@" >>{calls}
while [ "$1" != lab.example/train:1 ]; do shift; done
shift
exec "$@"
"""


def test_run_uses_the_container_of_its_job(
    fairway: Fairway, tmp_path: Path, programs: Path
) -> None:
    calls = tmp_path / "calls"
    executable(programs / "docker", DOCKER.format(calls=calls))
    job = fairway.job(
        # The second node's failure ends the first node, so it waits for the first one's output.
        'echo "$GREETING" >"$FAIRWAY_OUTPUT_SAID/$FAIRWAY_NODE_RANK"; '
        'until [ -s "$FAIRWAY_OUTPUT_SAID/0" ]; do sleep 0.1; done; exit $FAIRWAY_NODE_RANK',
        template="every-node",
        nodes=2,
        processes_per_node=1,
        env={"GREETING": "hello"},
        setup="echo outside",
        container={"image": "lab.example/train:1"},
        outputs={"said": {"when": "always"}},
    )
    submitted = fairway.within("submit", job, "--watch")
    assert submitted.returncode == 1, submitted.stderr
    (words,) = calls.read_text().splitlines()
    assert "--env=FAIRWAY_OUTPUT_SAID" in words
    (said,) = (tmp_path / ".fairway/runs").glob("*/tasks/0/outputs/said/0")
    assert said.read_text() == "hello\n"


class TestTheLifeOfARun:
    """A run from its submission to its end, whichever process is killed on the way."""

    @pytest.mark.nightly
    def test_run_continues_when_its_terminal_is_closed(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        master, slave = pty.openpty()
        take_terminal = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        take_terminal += "os.execv(sys.argv[1], sys.argv[1:])"
        command = fairway.command("submit", fairway.job(held(pipe, gate)), "--watch")
        program = subprocess.Popen(
            [sys.executable, "-c", take_terminal, *command],
            cwd=fairway.folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        pipe.lines(1)
        os.close(master)  # the terminal is gone: its session gets SIGHUP
        assert program.wait(300) == -signal.SIGHUP
        gate.open()
        [run] = json.loads(fairway.within("list", "--json").stdout)
        assert fairway.within("wait", run["run_id"]).returncode == 0

    def test_run_continues_when_submit_is_interrupted(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        job = fairway.job("echo hello; " + held(pipe, gate))
        program = fairway.start("submit", job, "--watch")
        pipe.lines(1)
        first = program.stdout.readline()
        assert (
            program.stdout.readline() == "hello\n"
        )  # it follows the log, so it can be interrupted
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=300)
        run = first.split()[0]
        assert program.returncode == 130
        assert f"fairway cancel {run}" in said
        gate.open()
        assert fairway.within("wait", run).returncode == 0

    def test_run_with_a_killed_supervisor_is_lost_and_its_ranks_are_ended(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        run = fairway.submit(fairway.job(held(pipe, gate), processes_per_node=2))
        pipe.lines(2)
        supervisor = fairway.record(run)["supervisor"]
        waiting = fairway.start("wait", run)
        os.kill(supervisor, signal.SIGKILL)
        out, _ = waiting.communicate(timeout=300)
        assert (waiting.returncode, out) == (5, f"{run} lost\n")
        shown = fairway.show(run)
        assert shown["state"] == "lost"
        assert shown["task_list"][0]["state"] == "lost"
        assert pipe.rest() == "up\nup\n"
        followed = fairway.within("logs", run, "-f")
        assert (followed.returncode, followed.stdout) == (5, "")
        assert f"{run} is lost" in followed.stderr
        again = fairway.within("cancel", run)
        assert (again.returncode, again.stdout) == (0, f"{run} lost\n")

    @pytest.mark.parametrize("word", ["cancel", "retry"])
    @pytest.mark.nightly
    def test_run_survives_the_cleanup_of_a_lost_run_with_its_id_in_another_project(
        self, fairway: Fairway, tmp_path: Path, pipe: Pipe, gate: Gate, word: str
    ) -> None:
        """Run ids are unique only within a project."""
        fairway.submit(fairway.job(held(pipe, gate)), "--run-id", "same-a")
        pipe.lines(1)
        other = replace(fairway, folder=tmp_path / "other", started=[])
        (other.folder / ".fairway").mkdir(parents=True)
        try:
            other.submit(other.job(f"test -e {tmp_path}/again || sleep 600"), "--run-id", "same-a")
            os.kill(other.record("same-a")["supervisor"], signal.SIGKILL)
            other("wait", "same-a")
            (tmp_path / "again").touch()
            done = other(word, "same-a")
            assert done.returncode == 0, done.stderr
            assert other("wait", "same-a").returncode == (0 if word == "retry" else 5)
        finally:
            other.end()
        assert fairway.show("same-a")["state"] == "running"
        gate.open()
        assert fairway.within("wait", "same-a").returncode == 0

    @pytest.mark.parametrize("how", ["ends", "is cancelled", "is lost"])
    @pytest.mark.nightly
    def test_run_that_ends_or_is_lost_leaves_no_daemons_in_other_sessions(
        self, fairway: Fairway, pipe: Pipe, gate: Gate, how: str
    ) -> None:
        """Daemons are ended before the run's last state is written."""
        stray = f"trap '' TERM; exec 9>{pipe.path}; echo $$ >&9; while :; do sleep 600; done"
        script = fairway.folder / "stray.sh"
        script.write_text(stray)
        daemons = ["setsid", "nohup setsid setsid"]
        if how != "is lost":  # without a supervisor it cannot be recognized as a descendant
            daemons.append("env -i setsid")
        start = "; ".join(f"({each} bash {script} >/dev/null 2>&1 &)" for each in daemons)
        job = fairway.job(
            f"{start}; read -r _ <{gate.path}", template="plain", checkpoint={"grace": "1s"}
        )
        run = fairway.submit(job)
        strays = [Path("/proc", pid) for pid in pipe.lines(len(daemons))]
        if how == "ends":
            gate.open()
            assert fairway.within("wait", run).returncode == 0
        elif how == "is cancelled":
            assert fairway.within("cancel", run).stdout == f"{run} cancelled\n"
        else:
            os.kill(fairway.record(run)["supervisor"], signal.SIGKILL)
            assert fairway.within("wait", run).returncode == 5
            pipe.rest()
        assert not [stray for stray in strays if stray.exists() and how != "is lost"]

    def test_run_is_started_once_if_stdout_is_closed(self, fairway: Fairway) -> None:
        command = fairway.command("submit", fairway.job("true", template="plain"))
        closed = finished(["bash", "-c", '"$@" >&-', "bash", *command], cwd=fairway.folder)
        assert (closed.returncode, closed.stderr) == (0, "")
        [run] = json.loads(fairway.within("list", "--json").stdout)
        assert fairway.within("wait", run["run_id"]).returncode == 0


class TestWhatReachesTheProgram:
    """The environment, and the folders of the job and of the user."""

    def test_contract_checkpoint_folder_is_new_for_each_run_unless_given(
        self, fairway: Fairway
    ) -> None:
        more = (
            'cat "$FAIRWAY_CHECKPOINT_DIR/n" 2>/dev/null; echo more >>"$FAIRWAY_CHECKPOINT_DIR/n"'
        )
        job = fairway.job(more)
        assert "more" not in fairway.watch(job)
        assert "more" not in fairway.watch(job)
        given = ("-s", "checkpoint={directory: kept/here}")
        assert "more" not in fairway.watch(job, *given)
        assert "more" in fairway.watch(job, *given)
        assert (fairway.folder / "kept" / "here" / "n").read_text() == "more\nmore\n"

    def test_submit_works_without_home_and_imports_no_modules_of_the_job_folder(
        self, fairway: Fairway
    ) -> None:
        for name in ("json", "socket", "signal", "fairway_runner"):
            (fairway.folder / f"{name}.py").write_text("raise SystemExit('shadowed')")
        command = fairway.command("submit", fairway.job("echo up"), "--watch")
        run = finished(["env", "-u", "HOME", *command], cwd=fairway.folder)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "up" in run.stdout

    def test_submit_works_in_folders_with_spaces_and_quotes(self, fairway: Fairway) -> None:
        job_folder = fairway.folder / 'a job\'s "folder" $HOME'
        current = fairway.folder / "where 'I' am; *"
        job_folder.mkdir()
        current.mkdir()
        (job_folder / "mine.txt").write_text("found\n")
        job = fairway.job("cat mine.txt", processes_per_node=2)
        job = job.rename(job_folder / "job.yaml")
        run = fairway.ok("submit", job, "--watch", cwd=current)
        assert run.count("found\n") == 2
