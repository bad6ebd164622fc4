"""The instance metadata service: which VM this is, tokens of its identity, what Azure plans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .requests import send

if TYPE_CHECKING:
    from .settings import Settings

_HEADERS = {"Metadata": "true"}
_INSTANCE_API = "2021-02-01"
_TOKEN_API = "2018-02-01"  # noqa: S105 - a version
_EVENTS_API = "2020-07-01"
# A token is asked for anew while it still has time for a request and its repetitions.
_MARGIN = 300.0


class Tokens:
    """Tokens of this VM's managed identity, kept for as long as they last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: dict[str, tuple[str, float]] = {}

    def bearer(self, resource: str) -> dict[str, str]:
        """The header that opens a resource, for example "https://vault.azure.net"."""
        token, until = self._kept.get(resource, ("", 0.0))
        if time.time() > until - _MARGIN:
            query = {"api-version": _TOKEN_API, "resource": resource}
            if self._settings.client_id:
                query["client_id"] = self._settings.client_id
            url = f"{self._settings.metadata}/metadata/identity/oauth2/token?{urlencode(query)}"
            body = send("GET", url, headers=_HEADERS).body
            token, until = body["access_token"], float(body["expires_on"])
            self._kept[resource] = token, until
        return {"Authorization": f"Bearer {token}"}


def instance(settings: Settings) -> dict[str, str]:
    """This VM: `name` (as scheduled events call it), `vm` (its unique id), `id` (resource id)."""
    url = f"{settings.metadata}/metadata/instance/compute?api-version={_INSTANCE_API}"
    body = send("GET", url, headers=_HEADERS).body
    return {"name": body["name"], "vm": body["vmId"].lower(), "id": body["resourceId"]}


def events(settings: Settings) -> list[dict[str, Any]]:
    """What Azure is going to do to the VMs that this one stands beside."""
    # The very first question can take two minutes: Azure then switches the service on.
    body = send("GET", _events_url(settings), headers=_HEADERS, tries=2).body
    return list(body.get("Events", []))


def acknowledge(settings: Settings, event_id: str) -> None:
    """Tells Azure that it need not wait any longer."""
    body = {"StartRequests": [{"EventId": event_id}]}
    send("POST", _events_url(settings), headers=_HEADERS, body=body, tries=3)


def _events_url(settings: Settings) -> str:
    return f"{settings.metadata}/metadata/scheduledevents?api-version={_EVENTS_API}"
