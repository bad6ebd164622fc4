"""Notifications of runs here, sent by their supervisor, also of an unattended run's example."""

import shutil
import subprocess
import sys
from pathlib import Path

from program import Fairway, Gate
from receivers import Receiver
from waiting import until


def test_notifications_are_sent_when_a_run_waits_and_succeeds(
    fairway: Fairway, gate: Gate, receiver: Receiver
) -> None:
    """The receiver's address is a secret, which no file of the run contains."""
    first = fairway.submit(fairway.job(f"read -r _ <{gate.path}", template="plain"))
    notify = {"webhook": "secret:HOOK", "on": ["waiting", "succeeded"], "form": "slack"}
    job = fairway.job(
        "true", template="plain", after=[first], notify=notify, secrets={"HOOK": "env:MINE"}
    )
    done = fairway.within("submit", job, "--quiet", MINE=receiver.url)
    run = done.stdout.strip()
    waits = {"text": f"{run} waits: it comes after {first}"}
    assert receiver.next() == waits, done.stderr
    gate.open()
    assert receiver.next()["text"].startswith(f"{run} succeeded after ")
    assert fairway.within("wait", run).returncode == 0
    folder = fairway.folder / ".fairway" / "runs" / run
    for path in folder.rglob("*"):
        assert not path.is_file() or receiver.url.encode() not in path.read_bytes(), path


def test_notifications_that_fail_do_not_change_the_result_of_the_run(
    fairway: Fairway, receiver: Receiver
) -> None:
    receiver.answers += [404]
    job = fairway.job("exit 3", template="plain", notify={"webhook": receiver.url})
    run = fairway.submit(job)
    assert fairway.within("wait", run).returncode == 3
    assert fairway.show(run)["state"] == "failed"
    until(lambda: receiver.seen)  # else the notifier would retry, for longer than the test lasts


EXAMPLE = Path(__file__).parents[2] / "examples" / "overnight"


def test_overnight_example_fails_once_continues_and_notifies(fairway: Fairway) -> None:
    folder = fairway.folder / "overnight"
    shutil.copytree(EXAMPLE, folder)
    words = [sys.executable, str(folder / "listen.py"), "1", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listener:
        url = listener.stdout.readline().split()[-1]
        run = fairway.submit(folder / "job.yaml", "-s", f"notify.webhook={url}")
        assert listener.stdout.readline().startswith(f"{run} succeeded after ")
        assert listener.wait() == 0
    listed = fairway.within("list", "--tag", "nightly", "--columns", "metric:distance,note").stdout
    assert run in listed
    assert "fails once on purpose" in listed
    log = fairway.within("logs", run, "--grep", "fairway:|goes on").stdout.splitlines()
    assert log[0].startswith("fairway: attempt 2: the one before ended with exit code 1; the check")
    assert log[1] == "goes on from step 120"
    assert fairway.within("note", "overnight", "fails once, and gets there").returncode == 0
    assert fairway.show(run)["note"] == "fails once, and gets there"
