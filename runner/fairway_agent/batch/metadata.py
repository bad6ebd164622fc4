"""What Azure tells a virtual machine about itself: tokens, its name, what is about to happen.

Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

# FAIRWAY_METADATA_URL names another service of the same kind.
_ADDRESS = "http://169.254.169.254"
_TIMEOUT = 10.0
_TRIES = 5


def token(resource: str, identity: str) -> str:
    """A token of the node's managed identity (a resource id, "" for the only one)."""
    query = {"api-version": "2018-02-01", "resource": resource}
    if identity:
        query["msi_res_id"] = identity
    return str(_get("identity/oauth2/token", query)["access_token"])


def name() -> str:
    """The machine's name, by which events call it; "" where the service does not say."""
    query = {"api-version": "2021-02-01", "format": "json"}
    try:
        return str(ask("instance/compute", query).get("name", ""))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return ""
        raise


def events() -> list[dict[str, Any]]:
    """What is planned for this machine and its neighbours."""
    found = ask("scheduledevents", {"api-version": "2020-07-01"}, timeout=150).get("Events", [])
    return list(found)


def approve(event_id: str) -> None:
    """Says that the machine is ready for an event, which then need not wait."""
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    ask("scheduledevents", {"api-version": "2020-07-01"}, body)


def ask(
    path: str, query: dict[str, str], body: bytes | None = None, timeout: float = _TIMEOUT
) -> dict[str, Any]:
    """One request; OSError where it fails."""
    base = os.environ.get("FAIRWAY_METADATA_URL") or _ADDRESS
    url = f"{base}/metadata/{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, body, {"Metadata": "true"})  # noqa: S310
    # Never through a proxy: the address means this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise
    try:
        value: dict[str, Any] = json.loads(text or b"{}")
    except ValueError as error:
        raise OSError(f"{path}: {error}") from None
    return value


def _get(path: str, query: dict[str, str]) -> dict[str, Any]:
    for wait in range(_TRIES):
        try:
            return ask(path, query)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 410, 429) and error.code < 500:
                raise
        except OSError:
            if wait == _TRIES - 1:
                raise
        time.sleep(2**wait)
    return ask(path, query)
