"""A scale set through Azure Resource Manager: its instances, more of them, and some less."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_boot.http import Answer, Failure, send

if TYPE_CHECKING:
    from fairway_boot.imds import Metadata
    from fairway_boot.slurm.settings import Settings

_API = "2024-07-01"
_GONE = 404
_FORBIDDEN = frozenset({401, 403})
# A newer change of the capacity ends an older one. Source: Azure documentation, scale sets' errors.
_OVERTAKEN = "OperationPreempted"


@dataclass(frozen=True)
class Instance:
    """A VM of a scale set: its number there, its unique id, and how far Azure has come with it."""

    id: str
    vm: str
    state: str

    @property
    def failed(self) -> bool:
        """Azure could not make it."""
        return self.state == "Failed"

    @property
    def leaving(self) -> bool:
        """Azure is deleting it."""
        return self.state == "Deleting"


@dataclass(frozen=True)
class Size:
    """Number of instances that a scale set is to have; `busy` while Azure is at work on that."""

    capacity: int
    busy: bool
    sku: dict[str, Any]


class ScaleSetClient:
    """The calls that nodes coming and going need; all of them may be repeated.

    Instances are never left for Azure to choose: capacity only grows here, or is set to what
    there is, and what goes is named by its number.
    """

    def __init__(self, settings: Settings, metadata: Metadata, resource_id: str) -> None:
        self._settings = settings
        self._metadata = metadata
        self._url = f"{settings.arm}{resource_id}"

    def size(self) -> Size:
        """The wanted number of instances; a failed change counts as done."""
        body = self._send("GET", "").body
        busy = body.get("properties", {}).get("provisioningState") in ("Updating", "Creating")
        return Size(int(body["sku"]["capacity"]), busy, body["sku"])

    def instances(self) -> list[Instance]:
        """All instances that there are, whatever their state."""
        found, url = [], f"{self._url}/virtualMachines?api-version={_API}"
        while url:
            body = self._send_to("GET", url).body
            for row in body.get("value", []):
                properties = row.get("properties", {})
                found.append(
                    Instance(
                        id=str(row["instanceId"]),
                        vm=str(properties.get("vmId", "")).lower(),
                        state=str(properties.get("provisioningState", "")),
                    )
                )
            url = body.get("nextLink") or ""
        return found

    def set_capacity(self, size: Size, capacity: int) -> Answer:
        """Asks for that many instances; `wait` tells how it went."""
        return self._send("PATCH", "", {"sku": {**size.sku, "capacity": capacity}})

    def delete(self, instances: list[str]) -> Answer:
        """Deletes these instances by number; `wait` tells how it went."""
        return self._send("POST", "/delete", {"instanceIds": sorted(instances)})

    def wait(self, started: Answer) -> None:
        """Until Azure has done what it was asked for; Failure with its reason if it could not.

        Where this identity may not read operations, or a later change has taken this one's place,
        the scale set's own state tells the end.
        """
        url = started.headers.get("azure-asyncoperation", "")
        deadline = time.monotonic() + self._settings.patience
        while time.monotonic() < deadline:
            if url:
                try:
                    if _finished(self._send_to("GET", url).body):
                        return
                except Failure as failure:
                    if failure.status not in (*_FORBIDDEN, _GONE) and failure.code != _OVERTAKEN:
                        raise
                    url = ""
                    continue
            elif not self.size().busy:
                return
            time.sleep(self._settings.poll)
        raise Failure(0, "NoEnd", f"Azure was not done after {self._settings.patience:.0f} s")

    def _send(self, method: str, path: str, body: object = None) -> Answer:
        return self._send_to(method, f"{self._url}{path}?api-version={_API}", body)

    def _send_to(self, method: str, url: str, body: object = None) -> Answer:
        # Also to the operation that an answer names: a token goes to Azure and nowhere else.
        if not url.startswith(f"{self._settings.arm}/"):
            raise Failure(0, "ForeignUrl", f"{url} is not at {self._settings.arm}")
        return send(
            method,
            url,
            headers=self._metadata.bearer(f"{self._settings.arm}/"),
            body=body,
            authority=self._settings.authority,
        )


def _finished(operation: dict[str, Any]) -> bool:
    """True once an operation has ended well; Failure where it ended otherwise."""
    status = str(operation.get("status", ""))
    if status == "Succeeded":
        return True
    if status in ("Failed", "Canceled"):
        error = operation.get("error") or {}
        # Azure wraps the reason in errors that only say that something went wrong.
        while error.get("details"):
            error = error["details"][0]
        raise Failure(0, str(error.get("code", status)), str(error.get("message", "")))
    return False
