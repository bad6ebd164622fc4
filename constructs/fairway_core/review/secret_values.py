"""What is a secret in a plan although the provider does not mark it: by its name, or by its text.

To hide too much costs a reader a value; to hide too little puts a password into a comment.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

# The last word of a name, in whatever way it is written: `DB_PASSWORD`, `adminPassword`, `apikey`.
_NAME = re.compile(
    r"(^|_)(password|passwd|passphrase|passwort|pass|pwd|secret|credential|token|bearer|jwt"
    r"|authorization|cookie|sas|sas_url|sas_uri|shared_access_signature|connection_string"
    r"|kube_?config|protected_settings|user_data|custom_data"
    r"|(access|account|admin|api|app|auth|client|cookie|encryption|function|hmac|host"
    r"|instrumentation|jwt|license|master|munge|primary|private|root|secondary|secret|service"
    r"|session|shared|signing|storage|vault|workspace)_?key|key(?=[0-9]$))"
    r"s?(_(base64|b64|data|der|hash|json|openssh|pem|pkcs8|plain|raw|string|text|value))*"
    r"_?[0-9]?$"
)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SIGNS = re.compile(r"[^a-z0-9]+")

# `password=…`, `"client_secret": "…"`, `--token …`: at any place of a text, also in JSON that
# stands in JSON. What is read from elsewhere, as `$TOKEN` or `<secret>`, is none.
_GIVEN = re.compile(
    r"(?:password|passwd|passphrase|pwd|secret|credentials?|token|authorization"
    r"|(?:access|account|api|auth|client|master|primary|private|secondary|secret|shared|signing"
    r"|storage|workspace)[_-]?key|connection[_-]?string)[0-9]?"
    r"(?:\\*[\"'])?(?:\s*[=:]\s*|\s+)(?:\\*[\"'])?"
    r"(?!(?:true|false|null|none|yes|no|required|optional|keyvault)\b)"
    r"(?!/(?:dev|etc|home|mnt|root|run|var)/)(?P<value>[^\s\"'\\$<{(\[,;&=:|]{4,})",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?:^|\s)--?[\w-]*$")
_TOLD = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![a-z])(?:sig|signature)=[a-z0-9%+/_-]{16,}"
    r"|://[^/\s:@\"']*:[^/\s@\"'$]+@"
    r"|\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{16,}"
    r"|(?<![a-z0-9+/])[a-z0-9+/]{86}==",
    re.IGNORECASE,
)
# What services give out: Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS; and web tokens.
_TOKEN = re.compile(
    r"\b(?:(?:hf_|gh[opsru]_|github_pat_|glpat-|sk-|xox[abpr]-)(?=\S{0,200}[0-9])[A-Za-z0-9_-]{16,}"
    r"|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,})"
)
_SHORTEST, _LONGEST_OPTION = 8, 40


@cache
def is_secret_name(name: str) -> bool:
    """Whether what is called so is a secret.

    >>> is_secret_name("DB_PASSWORD"), is_secret_name("key_vault_id")
    (True, False)
    """
    words = _SIGNS.sub("_", _CAPITAL.sub("_", name).lower()).strip("_")
    return _NAME.search(words) is not None


@lru_cache(1 << 16)
def tells_secret(text: str) -> bool:
    """Whether a key, a token, a password or a signature stands in the text.

    >>> tells_secret("mysql --password hunter2"), tells_secret("--password $PASSWORD")
    (True, False)
    """
    # Most texts are names, sizes and ids of resources, and hold none.
    if len(text) < _SHORTEST:
        return False
    if "=" in text or ":" in text or "--" in text:
        if _TOLD.search(text) or any(_is_given(found) for found in _GIVEN.finditer(text)):
            return True
        if text[0] in "{[" and _is_named(_parsed(text)):
            return True
    elif text[0] == "/":
        return False
    return _TOKEN.search(text) is not None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_named(value: Any) -> bool:
    """Whether something below a secret's name stands in it, at any depth."""
    if isinstance(value, dict):
        return any(
            _is_named(item) or (is_secret_name(key) and bool(item) and item is not True)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(map(_is_named, value))


def _is_given(found: re.Match[str]) -> bool:
    """Whether a name is followed by its value, and not only by the next word of a sentence."""
    between = found.string[found.start() : found.start("value")]
    if "=" in between or ":" in between:
        return True
    before = found.string[max(0, found.start() - _LONGEST_OPTION) : found.start()]
    return _OPTION.search(before) is not None
