"""Sends word of a run to a webhook, beside whatever watches the run: nothing waits for it.

The program takes a message on standard input, `{"url": …, "body": …}`: the address may be a
secret, and stands in no command line. A receiver that is away is asked
again for some minutes; then it is told in `notify.log` in the run's folder. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairway_agent import bundle
from fairway_agent.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.plan import RunPlan
    from fairway_agent.run_state import RunState

PAUSES = (5.0, 30.0, 120.0, 600.0)  # seconds before each further try
_ANSWER = 20.0  # seconds for the receiver to answer
_AGAIN = (408, 425, 429)  # of what is the caller's fault, what another try may change
_TEAMS = (".webhook.office.com", ".logic.azure.com", ".api.powerplatform.com")
# Whether the package is installed, as on this machine, or lies in a folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from fairway_agent.notify import main; main()"
)
_CARD = "application/vnd.microsoft.card.adaptive"


def event_of(state: str) -> str:
    """Of what is to be heard when a run is in that state."""
    return {"queued": "waiting", "cancelled": "failed"}.get(state, state)


def notify(folder: Path, plan: RunPlan, status: RunState) -> int | None:
    """Starts what sends word of the run's state, if somebody wants it; its process id."""
    wanted = plan.notify
    if not wanted or event_of(status.state) not in wanted.on:
        return None
    url = os.environ.get(wanted.secret, "") if wanted.secret else wanted.webhook
    secrets = [os.environ.get(name, "") for name in plan.secrets]
    message = {"url": url, "body": body(form_of(url, wanted.form), facts(plan, status, secrets))}
    try:
        with (folder / "notify.log").open("ab") as log:
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
            process.stdin.write(json.dumps(message).encode())
    except OSError:
        return None  # the run goes on without
    return process.pid


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


def deliver(url: str, message: Mapping[str, Any], pauses: Sequence[float] | None = None) -> str:
    """Sends the message, once more after each pause; why nobody took it, or ""."""
    why = ""
    for pause in (0.0, *(PAUSES if pauses is None else pauses)):
        time.sleep(pause)
        why, is_final = _send(url, json.dumps(message).encode())
        if not why or is_final:
            break
    return why


def _send(url: str, data: bytes) -> tuple[str, bool]:
    """Why it was not taken, and whether another try would be pointless."""
    # Whatever watches a run does without them: they are as large as all the rest.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json", "User-Agent": "fairway"}
    try:
        request = Request(url, data, headers)  # noqa: S310 - checked in the job
        with urlopen(request, timeout=_ANSWER):  # noqa: S310
            return "", True
    except HTTPError as error:
        with error:
            is_final = 400 <= error.code < 500 and error.code not in _AGAIN
        return f"the receiver answered {error.code}", is_final
    except ValueError:
        return "its address cannot be read", True
    except OSError as error:
        # Not the error's own text: it may hold the address.
        return f"the receiver did not answer ({type(error).__name__})", False
    except HTTPException:
        return "the receiver gave no proper answer", False


def main() -> None:
    """The program; see the module's docstring."""
    order = json.load(sys.stdin)
    if why := deliver(order["url"], order["body"]):
        sys.stderr.write(f"fairway: a notification was not delivered: {why}\n")


if __name__ == "__main__":
    main()
