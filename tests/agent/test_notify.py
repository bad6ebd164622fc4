"""Word of a run on its way to a webhook."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from fairway_agent import notify
from fairway_agent.plan import RunPlan
from fairway_agent.run_state import RunState
from fairway_core.findings import UserError
from fairway_core.notifications import Notify
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.submission import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Receiver

PLAN = RunPlan("job-a", "/code", secrets=("TOKEN",))
FAILED = RunState("failed", "hunter2 & <b>", started=10.0, ended=22.5)


def test_a_receiver_that_fails_twice_is_asked_again(receiver: Receiver) -> None:
    receiver.answers += [500, 0]
    assert notify.deliver(receiver.url, {"run": "job-a"}, (0.0, 0.0, 0.0)) == ""
    assert (receiver.next(), receiver.seen) == ({"run": "job-a"}, 3)


def test_one_that_refuses_is_left_alone(receiver: Receiver) -> None:
    receiver.answers += [404]
    assert notify.deliver(receiver.url, {}, (0.0, 0.0)) == "the receiver answered 404"
    assert receiver.seen == 1
    receiver.answers += [429]
    assert notify.deliver(receiver.url, {}, (0.0, 0.0)) == ""


def test_one_that_is_away_is_told_of_without_its_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers += [503, 503]
    monkeypatch.setattr(notify, "PAUSES", (0.0,))
    order = json.dumps({"url": receiver.url, "body": {}})
    monkeypatch.setattr("sys.stdin", io.StringIO(order))
    notify.main()
    said = capsys.readouterr().err
    assert said == "fairway: a notification was not delivered: the receiver answered 503\n"
    assert notify.deliver("http://[", {}, ()) == "its address cannot be read"
    why = notify.deliver("http://127.0.0.1:9/x", {}, ())
    assert why == "the receiver did not answer (URLError)"


def test_what_is_said_holds_no_secret() -> None:
    said = notify.facts(PLAN, FAILED, ["hunter2"])
    assert said["text"] == "job-a failed after 12.5 s: *** & <b>"
    assert (said["event"], said["reason"], said["seconds"]) == ("failed", "*** & <b>", 12.5)
    assert notify.facts(PLAN, RunState("cancelled"))["text"] == "job-a was cancelled"
    waiting = notify.facts(PLAN, RunState("queued", "nodes are busy"))
    assert (waiting["event"], waiting["text"]) == ("waiting", "job-a waits: nodes are busy")


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://hooks.slack.com/services/T/B/x", "slack"),
        ("https://contoso.webhook.office.com/webhookb2/x", "teams"),
        ("https://prod-1.westeurope.logic.azure.com:443/workflows/x", "teams"),
        ("https://hooks.slack.com.example.org/x", "json"),
        ("https://[x", "json"),
    ],
)
def test_forms(url: str, form: str) -> None:
    assert notify.form_of(url, "auto") == form
    assert notify.form_of(url, "json") == "json"
    said = notify.facts(PLAN, FAILED)
    made = notify.body(form, said)
    if form == "slack":
        assert made == {"text": "job-a failed after 12.5 s: hunter2 &amp; &lt;b&gt;"}
    elif form == "teams":
        [card] = made["attachments"]
        assert card["content"]["body"][0]["text"] == said["text"]
    else:
        assert made == said


@pytest.mark.parametrize(
    "webhook",
    ["http://example.org/x", "https://", "secret:", "secret:a b", "ftp://x/y", "x", "https://[x"],
)
def test_an_address_that_is_none_is_refused(webhook: str) -> None:
    with pytest.raises(ValueError, match="webhook"):
        Notify(webhook=webhook)


def _prepared(folder: Path, **fields: Any) -> dict[str, Any]:
    job = folder / "job.yaml"
    job.write_text(json.dumps({"name": "job", "command": "true", "template": "plain", **fields}))
    prepared = prepare(load_job(job), Target.local(), RunStore(folder / ".fairway"))
    plan: dict[str, Any] = json.loads(prepared.plan.files(prepared.job)["plan.json"])
    return plan


def test_the_project_gives_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _prepared(tmp_path)["notify"] is None
    url = "https://example.org/all"
    (tmp_path / "fairway.yaml").write_text(f"notify: {{webhook: '{url}', on: [failed]}}\n")
    assert _prepared(tmp_path)["notify"]["webhook"] == url
    own = {"webhook": "https://example.org/own"}
    found = _prepared(tmp_path, notify=own)["notify"]
    assert (found["webhook"], found["on"]) == (own["webhook"], ["failed", "succeeded"])


def test_the_address_may_be_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="the job has no secret `HOOK`"):
        _prepared(tmp_path, notify={"webhook": "secret:HOOK"})
    monkeypatch.setenv("MINE", "https://example.org/private")
    plan = _prepared(tmp_path, notify={"webhook": "secret:HOOK"}, secrets={"HOOK": "env:MINE"})
    assert plan["notify"]["secret"] == "HOOK"
    assert "private" not in json.dumps(plan)
    process = MagicMock()
    monkeypatch.setenv("HOOK", "https://example.org/private")
    monkeypatch.setattr(notify.subprocess, "Popen", process)
    notify.notify(tmp_path, RunPlan.from_json({**plan, "run": "job-a"}), RunState("succeeded"))
    [call] = process.call_args_list
    assert "private" not in json.dumps(call.args)
    assert "HOOK" not in call.kwargs["env"]
    [sent] = process.return_value.stdin.write.call_args.args
    assert json.loads(sent)["url"] == "https://example.org/private"
