"""Where a session is on its main host: as whom, in which folder, and how Jupyter is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.findings import Finding
from fairway_runner.dev.beside import SessionFailed

if TYPE_CHECKING:
    from fairway_runner.dev.beside import Beside

# Before the session's script begins, what prepares it has its name, and may be in any folder.
_QUESTION = """
[ -n "${FAIRWAY_SESSION-}" ] || { printf "\\nfairway-begun=no\\n"; exit 0; }
printf "\\nfairway-%s=%s\\n" user "$(id -un)" folder "$FAIRWAY_SESSION" \\
    port "$(cat "$FAIRWAY_SCRATCH_DIR/jupyter-port" 2>/dev/null)" \\
    token "$(cat "$FAIRWAY_SCRATCH_DIR/jupyter-token" 2>/dev/null)"
"""


@dataclass(frozen=True)
class SessionAccess:
    """The `user` of a session's programs, the `folder` of its code, and the `port` and `token` of
    Jupyter, if it runs there."""

    user: str
    folder: str
    port: int | None = None
    token: str = field(default="", repr=False)


def look(beside: Beside) -> SessionAccess | None:
    """Asks the session; None where its script has not begun, as while its setup runs. SessionFailed
    where it does not answer, or what it says is not what it should be."""
    said = beside.ask(["sh", "-c", _QUESTION])
    facts = dict(re.findall(r"^fairway-(\w+)=(.*)$", said, re.MULTILINE))
    if facts == {"begun": "no"}:
        return None
    user, folder = facts.get("user", ""), facts.get("folder", "")
    port, token = facts.get("port", ""), facts.get("token", "")
    fits = (
        re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", user)
        and folder.startswith("/")
        and folder.isprintable()
        and re.fullmatch(r"(?:[1-9][0-9]{3,4})?", port)
        and int(port or 0) < 1 << 16
        and re.fullmatch(r"(?:[0-9a-f]{48})?", token)
    )
    if not fits:
        message = f"{beside.run.id} does not report its user and folder"
        hint = f"see what this prints: fairway exec {beside.run.id} -- id"
        raise SessionFailed([Finding("session-failed", message, hint)], exit_code=5)
    return SessionAccess(user, folder, int(port) if port and token else None, token)
