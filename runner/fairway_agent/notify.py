"""Notifications about a run: who gets which, and their delivery by webhook or mail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairway_agent import control, processes, state_files
from fairway_agent.task_logs import Mask

if TYPE_CHECKING:
    import smtplib
    import ssl
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.spec import Mail, RunPlan
    from fairway_agent.state_files import RunState

LOG = "notify.log"

_TEAMS = (".webhook.office.com", ".logic.azure.com", ".api.powerplatform.com")
# Works if the package is installed, as on this machine, and if it is in a folder.
_PROGRAM = "import sys; sys.path[:0] = sys.argv[1:]; from fairway_agent.notify import main; main()"
_SUBJECT = 150  # characters; the text has them all


def event_of(state: str) -> str:
    """Returns the event that a run's state stands for."""
    return {"queued": "waiting", "cancelled": "failed"}.get(state, state)


def notify(folder: Path, plan: RunPlan, status: RunState) -> int | None:
    """Starts the program that reports the state, if anybody wants it; returns its process id."""
    wanted = due_notifications(plan, status)
    if not wanted:
        return None
    try:
        python = [sys.executable or "python3", *processes.BYTECODE, "-I"]
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                [*python, "-c", _PROGRAM, str(processes.BUNDLE)],
                env={name: os.environ[name] for name in os.environ if name not in plan.secrets},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(json.dumps(wanted).encode())
    except OSError:
        return None  # the run continues without it
    return process.pid


def due_notifications(plan: RunPlan, status: RunState) -> list[dict[str, Any]]:
    """Returns the notifications to deliver, each with its recipient; see `deliver`."""
    wanted = plan.notify
    if wanted is None or event_of(status.state) not in wanted.on:
        return []
    found, said = [], facts(plan, status, [os.environ.get(name, "") for name in plan.secrets])
    url = os.environ.get(wanted.secret, "") if wanted.secret else wanted.webhook
    if url:
        found.append({"url": url, "body": body(form_of(url, wanted.form), said)})
    if wanted.mail is not None:
        found.append(mail(wanted.mail, said))
    return found


def facts(plan: RunPlan, status: RunState, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the facts of a notification about the run, which contain no secret."""
    mask = Mask(secrets)
    reason = (status.reason or "").encode()
    why = (mask.feed(reason) + mask.flush()).decode(errors="replace") or None
    started, ended = status.started, status.ended
    seconds = round(ended - started, 1) if started and ended else None
    spent = f" after {seconds:g} s" if seconds is not None else ""
    state = status.state
    verb = {"queued": "waits", "cancelled": "was cancelled"}.get(state, state)
    return {
        "run": plan.run,
        "event": event_of(state),
        "state": state,
        "reason": why,
        "seconds": seconds,
        "tasks": dict(status.tasks),
        "text": f"{plan.run} {verb}{spent}{f': {why}' if why else ''}",
    }


def form_of(url: str, form: str) -> str:
    """Returns the message format that the receiver wants."""
    if form != "auto":
        return form
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # sending it reports the error
        host = ""
    if host == "hooks.slack.com":
        return "slack"
    return "teams" if host.endswith(_TEAMS) else "json"


def body(form: str, said: dict[str, Any]) -> dict[str, Any]:
    """Returns the message in the receiver's format. Slack:
    docs.slack.dev/messaging/sending-messages-using-incoming-webhooks; Teams: an adaptive card,
    learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors."""
    if form == "slack":
        # Escapes what Slack would take for a link or a mention.
        text = said["text"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": text}
    if form == "teams":
        block = {"type": "TextBlock", "text": said["text"], "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.2", "body": [block]}
        attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        return {"type": "message", "attachments": [attachment]}
    return said


def mail(wanted: Mail, said: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the message in the mail server's format."""
    counts = ", ".join(f"{count} {state}" for state, count in said["tasks"].items())
    tasks = f"\nIts tasks: {counts}.\n" if counts else ""
    password = os.environ.get(wanted.secret, "") if wanted.secret else ""
    return {
        "server": wanted.server,
        "from": wanted.sender,
        "to": list(wanted.to),
        "subject": " ".join(said["text"].split())[:_SUBJECT],
        "text": f"{said['text']}\n{tasks}\nMore: fairway show {said['run']}\n",
        "user": wanted.user,
        "password": password,
    }


PAUSES = (5.0, 30.0, 120.0, 600.0)  # seconds before each further try
PAID_PAUSES = (5.0, 30.0)  # fewer if nodes cost money meanwhile
_ANSWER = 20.0  # seconds for the receiver's answer
_LOOPBACK = [("http", host) for host in ("localhost", "127.0.0.1", "::1")]
_AGAIN = (408, 425, 429)  # client errors that a retry may fix
_MAIL_PORT, _TLS_PORT = 25, 465
_TEMPORARY = range(400, 500)  # RFC 5321, 4.2.1: a retry may succeed


def deliver(orders: Sequence[dict[str, Any]], pauses: Sequence[float] | None = None) -> list[str]:
    """Delivers all notifications, retries those that failed after each pause, and returns why some
    were not accepted. They are made by `due_notifications`: `{"url": …, "body": …}` or
    `{"server": …, …}`."""
    left, lost = list(orders), []
    failures: list[str] = []
    for pause in (0.0, *(PAUSES if pauses is None else pauses)):
        if not left:
            break
        time.sleep(pause)
        tried, left, failures = left, [], []
        for order in tried:
            why, is_final = _post(order) if "url" in order else _mail(order)
            if why and is_final:
                lost.append(why)
            elif why:
                left.append(order)
                failures.append(why)
    return [*lost, *failures]


def failure_lines(failures: Sequence[str]) -> str:
    """Formats log lines for the notifications that were not delivered."""
    return "".join(f"fairway: a notification was not delivered: {why}\n" for why in failures)


def _post(order: Mapping[str, Any]) -> tuple[str, bool]:
    """Posts a message; returns why it was not accepted, and True if a retry would be pointless."""
    # Imported here, because they are as large as everything else, and supervisors need none.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """Follows no redirect, which would be asked without the message."""

        def redirect_request(self, *_: object) -> None:
            return None

    headers = {"Content-Type": "application/json", "User-Agent": "fairway"}
    try:
        parts = urlsplit(order["url"])
        # A secret's value is not checked in the job.
        if parts.scheme != "https" and (parts.scheme, parts.hostname) not in _LOOPBACK:
            return "its address does not begin with https://", True
        data = json.dumps(order["body"]).encode()
        request = Request(order["url"], data, headers)  # noqa: S310
        with build_opener(Stay).open(request, timeout=_ANSWER):
            return "", True
    except HTTPError as error:
        with error:
            is_final = error.code < 500 and error.code not in _AGAIN
        return f"the receiver answered {error.code}", is_final
    except ValueError:
        return "its address cannot be read", True
    except OSError as error:
        # Not the error's own text: it may contain the address.
        return f"the receiver did not answer ({type(error).__name__})", False
    except HTTPException:
        return "the receiver gave no proper answer", False


def _mail(order: Mapping[str, Any]) -> tuple[str, bool]:
    """Sends a mail; returns why it was not accepted, and True if a retry would be pointless. Never
    sends a password to a server that offers no encryption."""
    import smtplib
    import ssl
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"], message["From"] = order["subject"], order["from"]
    message["To"] = ", ".join(order["to"])
    message.set_content(order["text"])
    host, _, port = order["server"].rpartition(":") if ":" in order["server"] else (None, "", "")
    host, number = host or order["server"], int(port or _MAIL_PORT)
    try:
        tls = ssl.create_default_context()
        if number == _TLS_PORT:
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, number, timeout=_ANSWER, context=tls)
        else:
            server = smtplib.SMTP(host, number, timeout=_ANSWER)
        with server:
            if order.get("user") and (why := _sign_in(server, order, tls)):
                return why, True
            refused = server.send_message(message)
    except UnicodeError:
        return "the mail server has a name with a part that is empty or too long", True
    except smtplib.SMTPNotSupportedError:
        return "the mail server takes no address with letters beyond ASCII", True
    except smtplib.SMTPResponseException as error:
        is_final = error.smtp_code not in _TEMPORARY
        return f"the mail server answered {error.smtp_code}", is_final
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        return f"the mail server answered {codes[0]}", not set(codes) & set(_TEMPORARY)
    except (smtplib.SMTPException, OSError) as error:
        return f"the mail server did not answer ({type(error).__name__})", False
    if refused:  # the others have received it: it is not sent again
        codes = [code for code, _ in refused.values()]
        count = f"{len(refused)} of {len(order['to'])} addresses"
        return f"the mail server refused {count} ({codes[0]})", True
    return "", True


def _sign_in(server: smtplib.SMTP, order: Mapping[str, Any], tls: ssl.SSLContext) -> str:
    """Signs the user in; returns why that failed, or ""."""
    import smtplib

    if not isinstance(server, smtplib.SMTP_SSL):
        try:
            server.starttls(context=tls)
        except smtplib.SMTPNotSupportedError:
            return "the mail server offers no encryption, and got no password"
    try:
        server.login(order["user"], order["password"])
    except smtplib.SMTPNotSupportedError:
        return "the mail server lets nobody sign in: leave `user` and `password` out"
    except UnicodeError:
        return "the user or the password has letters beyond ASCII, which mail servers do not take"
    return ""


def main() -> None:
    sys.stderr.write(failure_lines(deliver(json.load(sys.stdin))))


def should_notify(folder: Path, plan: RunPlan, state: RunState) -> bool:
    """Returns True if the caller is to report the run's state now, and records that."""
    wanted, event = plan.notify, event_of(state.state)
    waits = state.state == "queued" and bool(state.reason)
    if wanted is None or event not in wanted.on or not (state.is_final or waits):
        return False
    if not all(os.environ.get(name) for name in wanted.secrets):
        return False  # only jobs have the secrets
    with control.locked(folder):
        events = control.read(folder).of(state.submission).notified
        if event not in events:
            control.change(folder, state.submission, notified=(*events, event))
    return event not in events


def send(folder: Path, plan: RunPlan, state: RunState, *, waits: bool) -> None:
    """Reports the state. What a job leaves behind ends with it: a job `waits` for its delivery."""
    if not waits:
        notify(folder, plan, state)
    elif failures := deliver(due_notifications(plan, state), PAID_PAUSES):
        with suppress(OSError), (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(failure_lines(failures))


def record_end(folder: Path, task: str, submission: int) -> bool:
    """Records the end of the task. Returns True if all tasks of the submission have then recorded
    theirs, which a killed one never does."""
    ended = folder / "ended" / str(submission)
    known, status = control.read(folder), state_files.read_task(folder / "tasks" / task)
    if known.submission != submission or status is None or not status.is_final:
        return False
    ended.mkdir(parents=True, exist_ok=True)
    (ended / task).touch()
    count = sum(1 for _ in os.scandir(ended))
    return count >= sum(len(part.indices) for part in known.parts)


if __name__ == "__main__":
    main()
