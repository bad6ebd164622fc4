"""Notifications of runs on this machine, sent by their supervisor."""

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
