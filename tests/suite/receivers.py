"""Receivers of webhooks and mail on loopback."""

import queue
import ssl
from dataclasses import dataclass, field
from typing import Any

from waiting import PATIENCE


@dataclass
class Receiver:
    """The posted messages, and the statuses of the next responses: 0 sends no response, and 200
    follows once the list is empty."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    seen: int = 0
    taken: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    @property
    def port(self) -> int:
        """The port at which the receiver listens."""
        return int(self.url.split(":")[2].partition("/")[0])

    def next(self) -> dict[str, Any]:
        """Waits for the next message."""
        return self.taken.get(timeout=PATIENCE)


@dataclass
class MailServer:
    """The received mails, and the SMTP codes of the next responses, followed by 250. `says` lists
    the offered SMTP extensions. `tls` is used after STARTTLS, or from the start if `is_secure`."""

    address: str = ""
    answers: list[int] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    is_secure: bool = False
    taken: queue.Queue[str] = field(default_factory=queue.Queue)

    def next(self) -> str:
        """Waits for the next mail, as it arrived."""
        return self.taken.get(timeout=PATIENCE)
