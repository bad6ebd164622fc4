"""Commands on runs of many tasks, through the program."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Gate, Pipe

PLAIN: dict[str, Any] = {"template": "plain"}
METRICS = {"loss": "loss=([0-9.]+)"}


def sweep(*values: object, **more: Any) -> dict[str, Any]:
    """Returns the fields of a job with a task for each value of `x`."""
    return {**PLAIN, "sweep": {"points": {"grid": {"x": list(values)}}, **more}}


def ended(fairway: Fairway, job: Path, *arguments: str) -> str:
    """Runs a job to its end, whether it succeeds or not, and returns the run's id."""
    run = fairway.within("submit", job, "--watch", "--quiet", "--json", *arguments)
    return json.loads(run.stdout)["run_id"]


def states(fairway: Fairway, run: str) -> list[str]:
    return [task["state"] for task in fairway.show(run)["task_list"]]


class TestWatching:
    def test_watch_without_a_terminal_prints_one_line_per_task(self, fairway: Fairway) -> None:
        job = fairway.job(
            "echo loss={{ params.x }}; exit {{ 0 if params.x < 3 else 7 }}",
            **sweep(1, 2, 3),
            metrics=METRICS,
            **{"finally": {"command": "echo over"}},
        )
        run = fairway.within("submit", job, "--watch")
        assert run.returncode == 7, run.stderr
        first, *lines, end = run.stdout.splitlines()
        run_id = first.split()[0]
        told = sorted(line.rpartition(" ")[0] for line in lines)
        assert told == [
            "[0] succeeded x=1 loss=1",
            "[1] succeeded x=2 loss=2",
            "[2] failed x=3 loss=3 exit code 7",
            "[finally] succeeded",
        ]
        assert end.startswith(f"{run_id} failed after ")
        shown = fairway.show(run_id)["task_list"]
        assert [task["metrics"] for task in shown] == [{"loss": x} for x in (1, 2, 3)] + [{}]
        assert [task["last"] for task in shown] == [False] * 3 + [True]

    @pytest.mark.nightly
    def test_watch_shows_only_the_parameters_of_the_point(self, fairway: Fairway) -> None:
        points = {"sweep": {"points": [{"grid": {"x": [1]}}, {"grid": {"y": [2]}}]}}
        command = "true {{ params.x | default(0) }} {{ params.y | default(0) }}"
        run = fairway.within("submit", fairway.job(command, **points), "--watch")
        told = [line.rpartition(" ")[0] for line in run.stdout.splitlines() if line[0] == "["]
        assert sorted(told) == ["[0] succeeded x=1", "[1] succeeded y=2"]

    def test_watch_on_a_terminal_shows_a_bar_and_colours_unless_no_color_is_set(
        self, fairway: Fairway
    ) -> None:
        job = fairway.job("true {{ params.x }}", **sweep(1, 2))

        def on_terminal(*arguments: object, **environment: str) -> str:
            master, slave = pty.openpty()
            program = subprocess.Popen(
                fairway.command(*map(str, arguments)),
                cwd=fairway.folder,
                stdin=subprocess.DEVNULL,
                stdout=slave,
                stderr=slave,
                env={**os.environ, "TERM": "xterm-256color", **environment},
            )
            os.close(slave)
            text = b""
            while True:
                try:
                    text += os.read(master, 65536)
                except OSError:  # the last process has closed the terminal
                    break
            os.close(master)
            assert program.wait(300) == 0
            return text.decode()

        shown = on_terminal("submit", job, "--watch")
        assert "2/2" in shown
        assert "\x1b[32msucceeded\x1b[0m" in shown
        listed = on_terminal("list", "--watch")
        assert "succeeded" in listed
        assert "\x1b[32m" in on_terminal("list")
        assert "\x1b[32m" not in on_terminal("list", NO_COLOR="1")
        assert "\x1b" not in fairway.within("list").stdout

    @pytest.mark.nightly
    def test_list_watch_ends_when_all_runs_have_ended(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        job = fairway.job(f"exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}", **PLAIN)
        run = fairway.submit(job)
        pipe.lines(1)
        watching = fairway.start("list", "--watch", "--json")
        gate.open()
        out, err = watching.communicate(timeout=300)
        assert [(each["run_id"], each["state"]) for each in json.loads(out)] == [
            (run, "succeeded")
        ], err


class TestLogs:
    def test_logs_of_several_tasks_have_complete_labelled_lines(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        """Each task stops in the middle of a line until the other has done so, too."""
        command = (
            f"exec 9>{pipe.path}; printf 'begun {{{{ params.x }}}}, '; echo up >&9;"
            f" read -r _ <{gate.path}; echo ended; seq 5000; printf last"
        )
        run = fairway.submit(fairway.job(command, setup="echo set up", **sweep("a", "b")))
        following = fairway.start("logs", run, "-f")
        assert following.stdout.readline() == "[setup] set up\n"
        pipe.lines(2 if len(os.sched_getaffinity(0)) > 1 else 1)
        gate.open(2)
        out, err = following.communicate(timeout=300)
        assert following.returncode == 0, err
        lines = out.splitlines()
        for index, name in enumerate("ab"):
            own = [line[4:] for line in lines if line.startswith(f"[{index}] ")]
            assert own == [f"begun {name}, ended", *map(str, range(1, 5001)), "last"]
        assert len(lines) == 2 * 5002
        assert sorted(fairway.within("logs", run).stdout.splitlines()) == sorted(
            ["[setup] set up", *lines]
        )
        assert fairway.within("logs", run, "--task", "1").stdout.startswith("begun b, ended\n1\n")
        fairway.refused("logs", run, "--task", "2", says="its tasks are 0 to 1")


# Fails in its first attempt only; its checkpoint counts the attempts.
FLAKY = """echo attempt $FAIRWAY_ATTEMPT
echo more >>"$FAIRWAY_CHECKPOINT_DIR/n"
[ {{ params.x }} = 1 ] || [ $(wc -l <"$FAIRWAY_CHECKPOINT_DIR/n") -gt 1 ]"""


class TestAgain:
    def test_retry_repeats_failed_tasks_in_the_same_run(self, fairway: Fairway) -> None:
        job = fairway.job(
            FLAKY, setup="echo set up", **sweep(1, 2, 3), **{"finally": {"command": "echo over"}}
        )
        run = ended(fairway, job)
        assert states(fairway, run) == ["succeeded", "failed", "failed", "succeeded"]
        retried = fairway.within("retry", run)
        assert (retried.returncode, retried.stdout.splitlines()) == (
            0,
            [f"{run} runs again: 2 tasks", f"  follow it:  fairway logs {run} -f --attempt 2"],
        )
        assert fairway.within("wait", run).returncode == 0
        shown = fairway.show(run)
        assert shown["state"] == "succeeded"
        assert shown["task_states"] == {"succeeded": 4}
        assert [task["attempts"] for task in shown["task_list"]] == [1, 2, 2, 2]
        again = "fairway: attempt 2: the run was retried"
        saved = fairway.folder / ".fairway" / "runs" / run / "checkpoints"
        assert fairway.within("logs", run).stdout.splitlines() == [
            "[setup] set up",
            "[0] attempt 0",
            *("[1] attempt 0", f"[1] {again}; the checkpoint is in {saved}/1", "[1] attempt 1"),
            *("[2] attempt 0", f"[2] {again}; the checkpoint is in {saved}/2", "[2] attempt 1"),
            *("[finally] over", f"[finally] {again}", "[finally] over"),
        ]
        fairway.refused(
            "retry", run, says=(f"every task of {run} succeeded", f"fairway rerun {run}")
        )

    @pytest.mark.nightly
    def test_retry_gives_a_task_its_retries_again(self, fairway: Fairway) -> None:
        run = ended(fairway, fairway.job("echo $FAIRWAY_ATTEMPT; exit 3", retries=1, **PLAIN))
        assert fairway.within("retry", run).returncode == 0
        assert fairway.within("wait", run).returncode == 3
        log = fairway.within("logs", run).stdout.splitlines()
        assert log[::2] == ["0", "1", "2", "3"]
        why = "the one before ended with exit code 3"
        assert [line.partition(": ")[2] for line in log[1::2]] == [
            f"attempt 2: {why}",
            "attempt 3: the run was retried",
            f"attempt 4: {why}",
        ]
        assert fairway.show(run)["task_list"][0]["attempts"] == 4

    def test_retry_repeats_lost_tasks_and_refuses_a_running_run(
        self, fairway: Fairway, pipe: Pipe, gate: Gate
    ) -> None:
        go = fairway.folder / "go"
        command = f"[ -e {go} ] || {{ exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}; }}"
        command += "; : {{ params.x }}"
        run = fairway.submit(fairway.job(command, **sweep(1, 2, max_parallel=1)))
        pipe.lines(1)
        fairway.refused("retry", run, says=f"{run} has not ended")
        os.kill(fairway.record(run)["supervisor"], signal.SIGKILL)
        assert fairway.within("wait", run).returncode == 5
        assert states(fairway, run) == ["lost", "lost"]
        fairway.refused("retry", run, "--failed", says="leave out --failed")
        go.touch()
        assert fairway.within("retry", run).returncode == 0
        assert fairway.within("wait", run).stdout == f"{run} succeeded\n"
        assert [task["attempts"] for task in fairway.show(run)["task_list"]] == [2, 1]

    @pytest.mark.nightly
    def test_retry_repeats_a_setup_that_failed(self, fairway: Fairway) -> None:
        ready = fairway.folder / "ready"
        run = ended(fairway, fairway.job("echo up", setup=f"test -e {ready}", **PLAIN))
        shown = fairway.within("show", run).stdout
        assert "reason  the setup failed with exit code 1" in shown
        assert "setup   failed, exit code 1" in shown
        ready.touch()
        assert fairway.within("retry", run).returncode == 0
        assert fairway.within("wait", run).returncode == 0
        assert fairway.within("logs", run, "--task", "0").stdout == "up\n"
        assert fairway.show(run)["reason"] is None


SECRET = "s3cr3t-\"'$value\nits second line"


class TestSecrets:
    @pytest.mark.parametrize("template", ["plain", "openmpi"])
    def test_secrets_reach_the_program_and_no_file(self, fairway: Fairway, template: str) -> None:
        check = "import os, sys; sys.exit(os.environ['TOKEN'] != os.environ['EXPECTED'])"
        # Writes one character at a time, so that the secret arrives in pieces.
        cut = "import os, sys; [os.write(1, c.encode()) for c in os.environ['TOKEN']]"
        python = shlex.quote(sys.executable)
        script = fairway.folder / "check.sh"
        # The expected value comes from the environment, so that no file of the job contains it.
        script.write_text(
            f"{python} -c {shlex.quote(check)} || exit 9\n"
            f'echo "token: $TOKEN"; {python} -c {shlex.quote(cut)}; echo; echo end\n'
        )
        job = fairway.job(
            "bash check.sh",
            template=template,
            setup='echo "setup: $TOKEN"',
            secrets={"TOKEN": "env:MINE"},
        )
        run = fairway.within("submit", job, "--watch", MINE=SECRET, EXPECTED=SECRET)
        assert run.returncode == 0, run.stdout + run.stderr
        run_id = run.stdout.split()[0]
        log = fairway.within("logs", run_id, "--task", "0").stdout
        assert log.startswith("token: ***")
        assert log.endswith("end\n")
        assert "[setup] setup: ***" in run.stdout
        text = b"".join(
            p.read_bytes() for p in (fairway.folder / ".fairway").rglob("*") if p.is_file()
        )
        for part in (SECRET, *SECRET.splitlines()):
            assert part.encode() not in text
            assert part not in run.stdout + run.stderr
        fairway.refused("rerun", run_id, says="the environment variable MINE is not set")

    def test_secrets_are_not_in_the_environment_of_the_supervisor(self, fairway: Fairway) -> None:
        """Neither under their own names nor under those of their sources: the task finds them twice
        in its environment, and not in that of its parent, the supervisor."""
        find = "tr '\\0' '\\n' </proc/{}/environ | grep -c =long.enough"
        command = f"echo own: $({find.format('$$')}); echo parent: $({find.format('$PPID')})"
        job = fairway.job(command, secrets={"TOKEN": "env:MINE"}, **PLAIN)
        run = fairway.ok("submit", job, "--watch", MINE="long enough")
        assert "own: 2\nparent: 0\n" in run


@pytest.mark.nightly
def test_ensemble_example_combines_the_models_that_were_kept(
    fairway: Fairway, repository: Path
) -> None:
    """A network that was not trained has kept no model, and is left out of the vote."""
    job = repository / "examples" / "digits" / "ensemble.yaml"
    points = "sweep.points={zip: {hidden: [32, 64, 48], lr: [0.1, 0.1, -1]}}"
    run = ended(fairway, job, "-s", "params.epochs=2", "-s", points)
    assert states(fairway, run) == ["succeeded", "succeeded", "failed", "succeeded"]
    said = fairway.within("logs", run, "--task", "finally").stdout
    first, second, together = (float(each) for each in re.findall(r"0\.\d+", said))
    assert together >= min(first, second) >= 0.5, said
    assert fairway.within("fetch", run, "--task", "finally", "--to", "kept").returncode == 0
    kept = (fairway.folder / "kept/finally/best/model.npz").read_bytes()
    best = 0 if first >= second else 1
    store = fairway.folder / ".fairway/runs" / run / "tasks"
    assert kept == (store / str(best) / "outputs/model/model.npz").read_bytes()
