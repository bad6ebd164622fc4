"""Receivers of webhooks and mail on loopback."""

import queue
import ssl
from dataclasses import dataclass, field
from typing import Any

from waiting import PATIENCE


@dataclass
class Receiver:
    """Messages that were posted, and the statuses of the next answers: 0 is no answer at all, and
    200 follows when the list is over."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    seen: int = 0
    taken: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    @property
    def port(self) -> int:
        """At which it listens."""
        return int(self.url.split(":")[2].partition("/")[0])

    def next(self) -> dict[str, Any]:
        """The next message that was taken."""
        return self.taken.get(timeout=PATIENCE)


@dataclass
class MailServer:
    """The mails that were taken, and how the next are answered: with a code of SMTP each, and with
    250 when the list is over. `says` is what it offers beside plain SMTP, `tls` what
    STARTTLS goes on with, or with `is_secure` each connection begins with."""

    address: str = ""
    answers: list[int] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    is_secure: bool = False
    taken: queue.Queue[str] = field(default_factory=queue.Queue)

    def next(self) -> str:
        """The next mail, as it came."""
        return self.taken.get(timeout=PATIENCE)
