"""Secrets, recognised by the name of a field or by their text.

Reviews of plans hide them, because the provider does not mark all of them: hiding too much costs a
reader a value, hiding too little puts a password into a comment.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from fairway_core.plain_secrets import TOKEN

# The last word of a name, in any style: `DB_PASSWORD`, `adminPassword`, `apikey`.
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

# `password=…`, `"client_secret": "…"`, `--token …`: anywhere in a text, also in nested JSON. A
# placeholder such as `$TOKEN` or `<secret>` is not a secret.
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
_RECOGNIZED = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![a-z])(?:sig|signature)=[a-z0-9%+/_-]{16,}"
    r"|://[^/\s:@\"']*:[^/\s@\"'$]+@|https?://[^/\s@\"'$]+@"
    r"|://hooks\.slack\.com/services/\w|\.webhook\.office\.com/webhookb2/\w"
    r"|\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{16,}"
    r"|(?<![a-z0-9+/])[a-z0-9+/]{86}==",
    re.IGNORECASE,
)
_SHORTEST, _LONGEST_OPTION = 8, 40

# A Terraform reference to a resource's attribute; `value` and `secret` are attributes of secrets.
_REFERENCE = re.compile(r"azurerm_\w{1,100}\.[\w-]+(?:\[\d+\])?\.(?P<name>\w+)(?!-)")


@cache
def is_secret_name(name: str) -> bool:
    """Returns True if a value of that name is a secret.

    >>> is_secret_name("DB_PASSWORD"), is_secret_name("key_vault_id")
    (True, False)
    """
    words = _SIGNS.sub("_", _CAPITAL.sub("_", name).lower()).strip("_")
    return _NAME.search(words) is not None


def secret_reference(text: str) -> str | None:
    """Returns the first reference to a secret attribute in a text, which Terraform would show.

    >>> secret_reference("${azurerm_storage_account.storage.primary_access_key}")
    'azurerm_storage_account.storage.primary_access_key'
    """
    for found in _REFERENCE.finditer(text):
        if found["name"] in ("value", "secret") or is_secret_name(found["name"]):
            return found[0]
    return None


@lru_cache(1 << 16)
def contains_secret(text: str) -> bool:
    """Returns True if the text contains a key, a token, a password or a signature.

    >>> contains_secret("mysql --password hunter2"), contains_secret("--password $PASSWORD")
    (True, False)
    """
    from fairway_core.json_values import parse_embedded  # most jobs do not need it

    # Most texts are names, sizes and ids of resources, without secrets.
    if len(text) < _SHORTEST:
        return False
    if "=" in text or ":" in text or "--" in text:
        given = any(map(_is_given, _GIVEN.finditer(text)))
        if given or _RECOGNIZED.search(text) or _is_named(parse_embedded(text)):
            return True
    elif text[0] == "/":
        return False
    return TOKEN.search(text) is not None


def _is_named(value: Any) -> bool:
    """Returns True if the value contains anything under a secret's name, at any depth."""
    if isinstance(value, dict):
        return any(
            _is_named(item) or (is_secret_name(key) and bool(item) and item is not True)
            for key, item in value.items()
        )
    return isinstance(value, list) and any(map(_is_named, value))


def _is_given(found: re.Match[str]) -> bool:
    """Returns True if the name is followed by its value, and not by the next word of a sentence."""
    between = found.string[found.start() : found.start("value")]
    if "=" in between or ":" in between:
        return True
    before = found.string[max(0, found.start() - _LONGEST_OPTION) : found.start()]
    return _OPTION.search(before) is not None
