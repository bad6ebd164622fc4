"""Where the retail-price service is."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from fairway_core.findings import UserError

VARIABLE = "FAIRWAY_PRICES_URL"
"""Names another service that answers in the same way: over https, or on this machine."""

_URL = "https://prices.azure.com/api/retail/prices"


def service_url() -> str:
    """Its address; UserError where the variable names one that is neither safe nor here."""
    url = os.environ.get(VARIABLE) or _URL
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        message = f"{VARIABLE}: `{url}` is not an https address"
        raise UserError.of("wrong-prices-url", message, f"unset {VARIABLE}")
    return url
