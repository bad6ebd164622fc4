"""Notifications of a run by webhook and email."""

import base64
import io
import json
import socket
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from receivers import MailServer, Receiver

from fairway_agent import notify
from fairway_agent.spec import Mail, RunPlan
from fairway_agent.spec import Receiver as Told
from fairway_agent.state_files import RunState
from fairway_core.findings import UserError
from fairway_core.notifications import Notify
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import prepare
from fairway_simulator.certificate import serve_as_localhost

pytestmark = pytest.mark.integration

PLAN = RunPlan("job-a", "/code", secrets=("TOKEN",))
FAILED = RunState("failed", "hunter2 & <b>", started=10.0, ended=22.5)


def test_notify_retries_temporary_errors_but_not_a_404_or_a_redirect(receiver: Receiver) -> None:
    receiver.answers += [500, 0]
    order = {"url": receiver.url, "body": {"run": "job-a"}}
    assert notify.deliver([order], (0.0, 0.0, 0.0)) == []
    assert (receiver.next(), receiver.seen) == ({"run": "job-a"}, 3)
    receiver.answers += [404, 302]
    for status in (404, 302):
        assert notify.deliver([order], (0.0, 0.0)) == [f"the receiver answered {status}"]
    assert receiver.seen == 5
    receiver.answers += [429]
    assert notify.deliver([order], (0.0, 0.0)) == []


def test_notify_failed_delivery_is_reported_without_the_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers += [503, 503]
    monkeypatch.setattr(notify, "PAUSES", (0.0,))
    order = json.dumps([{"url": receiver.url, "body": {}}])
    monkeypatch.setattr("sys.stdin", io.StringIO(order))
    notify.main()
    said = capsys.readouterr().err
    assert said == "fairway: a notification was not delivered: the receiver answered 503\n"
    plain = "its address does not begin with https://"
    answers = {
        "http://[": "its address cannot be read",
        "file:///etc/hostname": plain,
        "data:,x": plain,
        "http://example.org/x": plain,
        "http://127.0.0.1:9/x": "the receiver did not answer (URLError)",
    }
    away = [{"url": url, "body": {}} for url in answers]
    assert notify.deliver(away, ()) == [*answers.values()]


def test_notify_text_and_reason_hold_no_secret() -> None:
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
def test_notify_form_follows_from_the_url_of_the_receiver(url: str, form: str) -> None:
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


def _prepared(folder: Path, **fields: Any) -> dict[str, Any]:
    job = folder / "job.yaml"
    job.write_text(json.dumps({"name": "job", "command": "true", "template": "plain", **fields}))
    prepared = prepare(load_job(job), Target.local(), RunStore(folder / ".fairway"))
    return json.loads(prepared.plan.text())


def test_notify_uses_the_project_default_and_hides_a_secret_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _prepared(tmp_path)["notify"] is None
    url = "https://example.org/all"
    (tmp_path / "fairway.yaml").write_text(f"notify: {{webhook: '{url}', on: [failed]}}\n")
    assert _prepared(tmp_path)["notify"]["webhook"] == url
    own = {"webhook": "https://example.org/own"}
    found = _prepared(tmp_path, notify=own)["notify"]
    assert (found["webhook"], found["on"]) == (own["webhook"], ["failed", "succeeded"])
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
    assert json.loads(sent)[0]["url"] == "https://example.org/private"


def _mail(server: str, status: RunState = FAILED, **more: Any) -> dict[str, Any]:
    to = ("me@example.org", "you@example.org")
    mail = Mail(**{"to": to, "server": server, "sender": "fairway@example.org", **more})
    told = Told("", ("failed",), "auto", mail=mail)
    [order] = notify.due_notifications(RunPlan("job-a", "/code", notify=told), status)
    return order


def test_notify_mail_reports_the_outcome_of_the_run(mail_server: MailServer) -> None:
    """A busy server is retried, and newlines in the reason inject no headers."""
    mail_server.answers += [451, 451]
    status = RunState("failed", "no\nBcc: x@example.org", tasks={"failed": 2, "succeeded": 1})
    order = _mail(mail_server.address, status, to=("me@example.org",))
    assert notify.deliver([order], (0.0, 0.0)) == []
    text = mail_server.next()
    head, _, body = text.partition("\r\n\r\n")
    assert "Subject: job-a failed: no Bcc: x@example.org" in head
    to = [line for line in head.splitlines() if line.startswith(("To:", "Bcc:"))]
    assert to == ["To: me@example.org"]
    assert "Its tasks: 2 failed, 1 succeeded." in body
    assert "fairway show job-a" in body


@pytest.mark.parametrize(
    ("answers", "change", "why"),
    [
        ([550, 550], {}, "answered 550"),
        # The accepted recipient gets no second mail.
        ([250, 550], {}, "refused 1 of 2 addresses (550)"),
        ([], {"server": "127.0.0.1:9"}, "did not answer (ConnectionRefusedError)"),
        (
            [],
            {"server": "smtp..example.org:25"},
            "has a name with a part that is empty or too long",
        ),
        ([], {"to": ["jürgen@example.org"]}, "takes no address with letters beyond ASCII"),
    ],
)
def test_notify_mail_refusal_is_reported_and_not_retried(
    mail_server: MailServer, answers: list[int], change: dict[str, Any], why: str
) -> None:
    mail_server.answers += answers
    order = {**_mail(mail_server.address), **change}
    assert notify.deliver([order], (0.0,)) == [f"the mail server {why}"]
    assert mail_server.answers == []
    assert mail_server.heard.count("QUIT") <= 1
    assert mail_server.taken.qsize() == answers.count(250)


def test_notify_mail_password_is_sent_only_encrypted_to_a_verified_server(
    mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2-secret")
    mail_server.says += ["AUTH PLAIN LOGIN"]
    order = _mail(mail_server.address, user="me", secret="PASSWORD")
    assert order["password"] == "hunter2-secret"
    why = ["the mail server offers no encryption, and got no password"]
    assert notify.deliver([order], (0.0,)) == why
    assert not [line for line in mail_server.heard if "AUTH" in line or "hunter2" in line]
    mail_server.tls, authority = serve_as_localhost(tmp_path)
    mail_server.says += ["STARTTLS", "AUTH PLAIN"]
    why = ["the mail server did not answer (SSLCertVerificationError)"]
    assert notify.deliver([order], ()) == why
    assert not [line for line in mail_server.heard if line.startswith("AUTH")]
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert notify.deliver([order], ()) == []
    [auth] = [line for line in mail_server.heard if line.startswith("AUTH PLAIN ")]
    assert base64.b64decode(auth.split()[2]) == b"\0me\0hunter2-secret"
    assert "hunter2-secret" not in mail_server.next()


def test_notify_mail_to_port_465_is_encrypted_from_the_start(
    mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host, _, own = mail_server.address.partition(":")
    reached = socket.create_connection

    def connect(address: tuple[str, int], *options: Any) -> socket.socket:
        """Connects to the test's server, which may not use port 465 itself."""
        assert address == (host, 465)
        return reached((host, int(own)), *options)

    monkeypatch.setattr(socket, "create_connection", connect)
    mail_server.tls, authority = serve_as_localhost(tmp_path)
    mail_server.is_secure = True
    mail_server.says += ["AUTH PLAIN"]
    monkeypatch.setenv("PASSWORD", "hunter2-secret")
    order = _mail(f"{host}:465", user="me", secret="PASSWORD")
    why = ["the mail server did not answer (SSLCertVerificationError)"]
    assert notify.deliver([order], ()) == why
    assert mail_server.heard == []
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert notify.deliver([order], ()) == []
    words = [line.split()[0].upper() for line in mail_server.heard]
    assert "AUTH" in words
    assert "STARTTLS" not in words
    assert "Subject: " in mail_server.next()


@pytest.mark.parametrize(
    ("offered", "password", "why"),
    [
        ([], "hunter2", "the mail server lets nobody sign in: leave `user` and `password` out"),
        (["AUTH PLAIN"], "pässword", "the user or the password has letters beyond ASCII"),
    ],
)
def test_notify_mail_failed_sign_in_is_reported_and_others_are_notified(
    mail_server: MailServer,
    receiver: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offered: list[str],
    password: str,
    why: str,
) -> None:
    """The sign-in is tried once."""
    mail_server.tls, authority = serve_as_localhost(tmp_path)
    mail_server.says += ["STARTTLS", *offered]
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("PASSWORD", password)
    order = _mail(mail_server.address, user="me", secret="PASSWORD")
    [said] = notify.deliver([order, {"url": receiver.url, "body": {}}], (0.0,))
    assert said.startswith(why)
    assert receiver.next() == {}
    assert mail_server.heard.count("STARTTLS") == 1


MAIL = {"to": ["me@example.org"], "server": "mail.example.org", "from": "fairway@example.org"}
ADDRESSES = ("http://e.org/x", "https://", "secret:", "secret:a b", "ftp://x/y", "x", "https://[x")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        *(({"webhook": address}, "webhook") for address in ADDRESSES),
        ({}, "this names no receiver"),
        ({"mail": {**MAIL, "to": []}}, "to"),
        ({"mail": {**MAIL, "to": ["me"]}}, "`me` is not an email address"),
        ({"mail": {**MAIL, "to": ["a\x07@example.org"]}}, "is not an email address"),
        ({"mail": {**MAIL, "to": ["a@x.io", "A@x.io"]}}, "`A@x.io` is named twice"),
        ({"mail": {**MAIL, "from": "a@x.io\nBcc: b@x.io"}}, "is not an email address"),
        ({"mail": {**MAIL, "server": "https://x"}}, "this is not a mail server"),
        ({"mail": {**MAIL, "server": "-x"}}, "this is not a mail server"),
        ({"mail": {**MAIL, "server": "smtp..example.org:25"}}, "this is not a mail server"),
        ({"mail": {**MAIL, "server": f"{'x' * 64}.example.org"}}, "this is not a mail server"),
        ({"mail": {**MAIL, "server": "x:99999"}}, "this is not a mail server"),
        ({"mail": {**MAIL, "user": "me"}}, "`user` and `password` belong together"),
        ({"mail": {**MAIL, "user": "me", "password": "p4ss"}}, "a password must not be in a file"),
    ],
)
def test_notify_invalid_receiver_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        Notify(**fields)
    assert says in str(caught.value)
    assert "p4ss" not in caught.value.findings[0].message


def test_notify_mail_in_the_plan_holds_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mail = {**MAIL, "server": "mail.example.org:587", "user": "me", "password": "secret:P"}
    with pytest.raises(UserError, match=r"`notify.mail.password`: the job has no secret `P`"):
        _prepared(tmp_path, notify={"mail": mail})
    monkeypatch.setenv("MINE", "hunter2-secret")
    plan = _prepared(tmp_path, notify={"mail": mail}, secrets={"P": "env:MINE"})
    assert "hunter2" not in json.dumps(plan)
    read = RunPlan.from_json({**plan, "run": "job-a"})
    assert read.notify == Told(
        "",
        ("failed", "succeeded"),
        "auto",
        mail=Mail(("me@example.org",), "mail.example.org:587", "fairway@example.org", "me", "P"),
    )
    assert RunPlan.from_json(json.loads(read.text())).notify == read.notify
