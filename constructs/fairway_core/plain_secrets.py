"""Secrets in plain text in files that people write, which are refused for them.

Only text counts that can hardly be anything else.
"""

from __future__ import annotations

import re

_KINDS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an account key": re.compile(r"(?i)account_?key\s*[=:]\s*[\"']?[A-Za-z0-9+/]{40,}"),
    "a shared access signature": re.compile(r"[?&]sig=[A-Za-z0-9%+/]{20,}"),
    "a password": re.compile(
        r"(?im)^[ \t]*(?:export[ \t]+)?\w*(?:password|passwd)\s*[=:]\s*[\"']?[^\s$#\"']"
    ),
}
# Short values of such names are not keys: `eos_token=<s>`.
_KEY = re.compile(
    r"(?i)(?:secret|access_key|api_key|token)\s*[=:]\s*[\"']?(?=\S{0,200}[0-9])[a-z0-9+/_.-]{16}"
    r"|key[=:\s]\s*[\"']?[a-z0-9+/]{86}=="
)
# Tokens of Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS; and JSON web tokens.
TOKEN = re.compile(
    r"\b(?:(?:hf_|gh[opsru]_|github_pat_|glpat-|sk-|xox[abpr]-)(?=\S{0,200}[0-9])[A-Za-z0-9_-]{16,}"
    r"|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,})"
)


def secrets_in(text: str, *, tokens: bool = False) -> list[str]:
    """Returns the kind of each secret in the text; with `tokens` also text that only looks like a
    key or a token.

    >>> secrets_in("https://a.blob.core.windows.net/c?sig=abcdefghijklmnopqrstuvwx")
    ['a shared access signature']
    """
    found = [kind for kind, pattern in _KINDS.items() if pattern.search(text)]
    is_token = tokens and (_KEY.search(text) or TOKEN.search(text))
    return found or (["a key or a token"] if is_token else [])
