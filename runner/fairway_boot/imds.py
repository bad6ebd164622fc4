"""The instance metadata service: this VM, tokens of its identity, and scheduled events.

Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fairway_boot.http import Failure, send

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ADDRESS = "http://169.254.169.254"
# Accounts from this number on are people's. If the metadata service is closed to them, another
# service gives them some tokens.
PEOPLE_FROM = 2000
_IN_ITS_PLACE = Path("/etc/fairway/tokens")
_INSTANCE_API = "2021-02-01"
_TOKEN_API = "2018-02-01"  # noqa: S105 - a version
_EVENTS_API = "2020-07-01"
# Answers for tokens while the service is updated, for up to 70 seconds: the pauses of as many tries
# take longer. Source: Microsoft Learn, "How to use managed identities on an Azure VM to acquire an
# access token", Retry guidance.
_UPDATED = frozenset({404, 410})
_UPDATE_TRIES = 9
# Seconds before its end from which a token is renewed: enough for a request and its retries.
_MARGIN = 300.0
# The first request can take two minutes, because Azure then starts the service.
_PATIENCE = 150.0
_MISSING = 404

# The file is a sequence of these records, padded with zeros.
# Source: Linux, include/uapi/linux/hyperv.h (HV_KVP_EXCHANGE_MAX_KEY_SIZE and …_VALUE_SIZE).
_KEY, _VALUE = 512, 2048
_HOST = "PhysicalHostName"

# A freeze lasts only seconds, and memory and connections survive it.
_ENDINGS = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})


@dataclass(frozen=True)
class Machine:
    """A VM: its name (as scheduled events call it), its unique id, and its resource id."""

    name: str
    vm: str
    id: str


@dataclass(frozen=True)
class Event:
    """A scheduled event for this machine, and its earliest time, as Azure gives them."""

    id: str
    kind: str
    not_before: str = ""


@dataclass
class Metadata:
    """This machine's service. `identity` selects one of several identities, by `client_id` or
    `msi_res_id`. FAIRWAY_METADATA_URL names another address than Azure's, for trials."""

    address: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, tuple[str, float]] = field(default_factory=dict)

    def token(self, resource: str) -> tuple[str, float]:
        """Returns a token of the machine's managed identity for a resource, for example
        "https://vault.azure.net", cached for as long as it lasts, and the time of its end. Raises
        Failure if there is none, whose status is never 404."""
        token, until = self._kept.get(resource, ("", 0.0))
        if time.time() > until - _MARGIN:
            query = {"api-version": _TOKEN_API, "resource": resource, **self.identity}
            try:
                body = self._ask(
                    "identity/oauth2/token", query, tries=_UPDATE_TRIES, passing=_UPDATED
                )
            except Failure as failure:
                if failure.status not in _UPDATED:
                    raise
                # Else it would pass for the answer of the service that the token is for.
                raise Failure(0, failure.code, f"no token: {failure.message}") from None
            with _understood("a token"):
                token, until = str(body["access_token"]), float(body["expires_on"])
            self._kept[resource] = token, until
        return token, until

    def bearer(self, resource: str) -> dict[str, str]:
        """Returns the authorization header for a resource."""
        return {"Authorization": f"Bearer {self.token(resource)[0]}"}

    def machine(self) -> Machine:
        """Returns this VM's name and ids."""
        body = self._ask("instance/compute", {"api-version": _INSTANCE_API, "format": "json"})
        with _understood("this machine"):
            name, vm, resource = (str(body.get(key, "")) for key in ("name", "vmId", "resourceId"))
        return Machine(name, vm.lower(), resource)

    def name(self) -> str:
        """Returns the machine's name in scheduled events; "" if the service does not say."""
        try:
            return self.machine().name
        except Failure as failure:
            if failure.status == _MISSING:
                return ""
            raise

    def endings(self, name: str) -> list[Event]:
        """Returns the scheduled events that end the machine of that name, or any if it is "":
        events of its neighbours are listed here too."""
        query = {"api-version": _EVENTS_API}
        body = self._ask("scheduledevents", query, tries=2, timeout=_PATIENCE)
        with _understood("planned events"):
            return [
                Event(str(each["EventId"]), str(each["EventType"]), str(each.get("NotBefore", "")))
                for each in body.get("Events", ())
                if each.get("EventType") in _ENDINGS
                and (not name or name in list(each.get("Resources", ())))
            ]

    def acknowledge(self, event: Event) -> None:
        """Approves an event, so that Azure need not wait any longer."""
        body = {"StartRequests": [{"EventId": event.id}]}
        self._ask("scheduledevents", {"api-version": _EVENTS_API}, body, tries=3)

    def _ask(
        self,
        path: str,
        query: dict[str, str],
        body: object = None,
        *,
        tries: int = 8,
        timeout: float = 10.0,
        passing: Collection[int] = (),
    ) -> Any:
        base = self.address or os.environ.get("FAIRWAY_METADATA_URL") or ""
        if not base and os.getuid() >= PEOPLE_FROM:
            with suppress(OSError):
                base = _IN_ITS_PLACE.read_text(encoding="ascii").strip()
        base = base or ADDRESS
        return send(
            "GET" if body is None else "POST",
            f"{base}/metadata/{path}?{urlencode(query)}",
            headers={"Metadata": "true"},
            body=body,
            tries=tries,
            timeout=timeout,
            passing=passing,
        ).body


@contextmanager
def _understood(what: str) -> Iterator[None]:
    """Raises Failure if the answer read in the block is not the service's, such as that of another
    program at its address."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"the metadata service's answer on {what} cannot be read: {error!r}"
        raise Failure(0, "BadAnswer", message) from None


def physical_host(file: Path) -> str:
    """Returns the name of this VM's physical host, from the file in which Hyper-V gives it; "" if
    Azure does not."""
    try:
        data = file.read_bytes()
    except OSError:
        return ""
    for start in range(0, len(data), _KEY + _VALUE):
        key, value = data[start : start + _KEY], data[start + _KEY : start + _KEY + _VALUE]
        if _text(key) == _HOST:
            return _text(value)
    return ""


def _text(field: bytes) -> str:
    text = field.partition(b"\0")[0].decode("ascii", errors="replace")
    return "".join(each for each in text if each.isalnum() or each in "._-")
