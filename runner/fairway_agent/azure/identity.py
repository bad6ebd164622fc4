"""This node's own identity in Azure: tokens from its metadata service. Standard library only.

FAIRWAY_METADATA_URL names another service than Azure's, for trials.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import cache
from typing import TYPE_CHECKING

from fairway_agent.faults import Fault

if TYPE_CHECKING:
    from http.client import HTTPResponse

_METADATA = "http://169.254.169.254"
_TRIES = 5
_FIRST_PAUSE = 0.5  # seconds; each pause is twice as long as the one before
_TIMEOUT = 30.0  # seconds without a byte

STORAGE = "https://storage.azure.com/"
VAULT = "https://vault.azure.net"


@cache
def token(resource: str) -> str:
    """A bearer token for a kind of service; Fault where the node has no identity."""
    base = os.environ.get("FAIRWAY_METADATA_URL", _METADATA)
    query = urllib.parse.urlencode({"api-version": "2018-02-01", "resource": resource})
    url = f"{base}/metadata/identity/oauth2/token?{query}"
    with get(url, {"Metadata": "true"}, "the node's identity") as answer:
        return str(json.load(answer)["access_token"])


def get(
    url: str,
    headers: dict[str, str],
    what: str,
) -> HTTPResponse:
    """Opens an address, again where the service is busy; Fault that names `what` otherwise."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - addresses of the target's record
    for number in range(_TRIES):
        try:
            found: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310 - addresses of the target's record
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code} {error.reason}"
            error.close()
            if error.code not in (404, 408, 410, 429) and error.code < 500:
                break
            # The metadata service says 404 and 410 while it is updated; a blob says 404 for ever.
            if error.code == 404 and "/metadata/" not in url:
                break
        except OSError as error:
            why = str(error)
        else:
            return found
        if number < _TRIES - 1:
            time.sleep(_FIRST_PAUSE * 2**number)
    raise Fault("no-access", f"{what} cannot be read: {why}", _HINTS.get(why[:8], ""))


_HINTS = {
    "HTTP 401": "may the nodes' identity read it? look at its roles",
    "HTTP 403": "may the nodes' identity read it? look at its roles",
    "HTTP 404": "is it there, under this name?",
}
