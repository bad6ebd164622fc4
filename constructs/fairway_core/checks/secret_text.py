"""What keys, tokens and passwords look like in text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an account key": re.compile(r"(?i)account_?key\s*[=:]\s*[\"']?[A-Za-z0-9+/]{40,}"),
    "a shared access signature": re.compile(r"[?&]sig=[A-Za-z0-9%+/]{20,}"),
    "a password": re.compile(
        r"(?im)^[ \t]*(?:export[ \t]+)?\w*(?:password|passwd)\s*[=:]\s*[\"']?[^\s$#\"']"
    ),
}


def secrets_in(text: str) -> Iterator[str]:
    """What secrets the text holds, each as its kind.

    >>> list(secrets_in("https://a.blob.core.windows.net/c?sig=abcdefghijklmnopqrstuvwx"))
    ['a shared access signature']
    """
    for kind, pattern in _KINDS.items():
        if pattern.search(text):
            yield kind
