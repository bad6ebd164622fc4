"""Who is sent word of a run, and what: a webhook, people by mail. It is delivered beside whatever
watches the run, which waits for nothing. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairway_agent import bundle
from fairway_agent.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.plan import Mail, RunPlan
    from fairway_agent.run_state import RunState

LOG = "notify.log"

_TEAMS = (".webhook.office.com", ".logic.azure.com", ".api.powerplatform.com")
# Whether the package is installed, as on this machine, or lies in a folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from fairway_agent.delivery import main; main()"
)
_SUBJECT = 150  # letters; the text has all of them
_CARD = "application/vnd.microsoft.card.adaptive"


def event_of(state: str) -> str:
    """Of what is to be heard when a run is in that state."""
    return {"queued": "waiting", "cancelled": "failed"}.get(state, state)


def notify(folder: Path, plan: RunPlan, status: RunState) -> int | None:
    """Starts what sends word of the run's state, if somebody wants it; its process id."""
    wanted = orders(plan, status)
    if not wanted:
        return None
    try:
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable or "python3", "-I", "-c", _PROGRAM, str(bundle.here())],
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
        return None  # the run goes on without
    return process.pid


def is_wanted(plan: RunPlan, status: RunState) -> bool:
    """Whether somebody wants word of that state."""
    return plan.notify is not None and event_of(status.state) in plan.notify.on


def orders(plan: RunPlan, status: RunState) -> list[dict[str, Any]]:
    """What is to be delivered, and to whom; see `delivery`."""
    wanted = plan.notify
    if wanted is None or not is_wanted(plan, status):
        return []
    found, said = [], facts(plan, status, [os.environ.get(name, "") for name in plan.secrets])
    url = os.environ.get(wanted.secret, "") if wanted.secret else wanted.webhook
    if url:
        found.append({"url": url, "body": body(form_of(url, wanted.form), said)})
    if wanted.mail is not None:
        found.append(mail(wanted.mail, said))
    return found


def facts(plan: RunPlan, status: RunState, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """What is said of the run; no secret is in it."""
    mask = Mask(secrets)
    reason = (status.reason or "").encode()
    why = (mask.feed(reason) + mask.flush()).decode(errors="replace") or None
    started, ended = status.started, status.ended
    seconds = round(ended - started, 1) if started and ended else None
    spent = f" after {seconds:g} s" if seconds is not None else ""
    state = status.state
    verb = {"queued": "waits"}.get(state, f"was {state}" if state == "cancelled" else state)
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
    """In which form the receiver wants it."""
    if form != "auto":
        return form
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # what sends it says that it cannot be read
        host = ""
    if host == "hooks.slack.com":
        return "slack"
    return "teams" if host.endswith(_TEAMS) else "json"


def body(form: str, said: dict[str, Any]) -> dict[str, Any]:
    """The message as the receiver reads it.

    Slack: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks; Teams: an adaptive
    card, learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors.
    """
    if form == "slack":
        # What Slack would take for a link or a mention is text.
        text = said["text"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": text}
    if form == "teams":
        block = {"type": "TextBlock", "text": said["text"], "wrap": True}
        card = {"type": "AdaptiveCard", "version": "1.2", "body": [block]}
        return {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]}
    return said


def mail(wanted: Mail, said: Mapping[str, Any]) -> dict[str, Any]:
    """The message as the mail server gets it."""
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
