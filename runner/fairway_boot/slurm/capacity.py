"""Creates instances of scale sets for nodes that Slurm wants, and deletes others, through Azure
Resource Manager."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_boot.http import Answer, Failure, send
from fairway_boot.slurm import commands, node_registry
from fairway_boot.slurm.node_registry import locked, open_registry

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_boot.imds import Metadata
    from fairway_boot.slurm.node_registry import NodeRegistry
    from fairway_boot.slurm.settings import Settings

_API = "2024-07-01"
_GONE = 404
_FORBIDDEN = frozenset({401, 403})
# A newer capacity change cancels an older one. Source: Azure documentation, scale sets' errors.
_OVERTAKEN = "OperationPreempted"


@dataclass(frozen=True)
class Instance:
    """A VM of a scale set: its number there, and its provisioning state."""

    id: str
    state: str

    @property
    def failed(self) -> bool:
        """True if Azure could not create it."""
        return self.state == "Failed"

    @property
    def leaving(self) -> bool:
        """True if Azure is deleting it."""
        return self.state == "Deleting"


@dataclass(frozen=True)
class Size:
    """Number of instances that a scale set is to have; `busy` while Azure is changing that."""

    capacity: int
    busy: bool
    sku: dict[str, Any]


class ScaleSetClient:
    """Client for one scale set; all calls are idempotent. Azure never chooses which instances go:
    capacity only grows here, or is set to the present number, and instances are deleted by
    number."""

    def __init__(self, settings: Settings, metadata: Metadata, resource_id: str) -> None:
        self._settings = settings
        self._metadata = metadata
        self._url = f"{settings.arm}{resource_id}"

    def size(self) -> Size:
        """Returns the requested number of instances; a failed change counts as done."""
        body = self._send("GET", "").body
        busy = body.get("properties", {}).get("provisioningState") in ("Updating", "Creating")
        return Size(int(body["sku"]["capacity"]), busy, body["sku"])

    def instances(self) -> list[Instance]:
        """Returns all existing instances, whatever their state."""
        found, url = [], f"{self._url}/virtualMachines?api-version={_API}"
        while url:
            body = self._send("GET", url).body
            for row in body.get("value", []):
                state = str(row.get("properties", {}).get("provisioningState", ""))
                found.append(Instance(str(row["instanceId"]), state))
            url = body.get("nextLink") or ""
        return found

    def set_capacity(self, size: Size, capacity: int) -> Answer:
        """Requests that many instances; `wait` waits for the result."""
        return self._send("PATCH", "", {"sku": {**size.sku, "capacity": capacity}})

    def delete(self, instances: list[str]) -> Answer:
        """Deletes these instances by number; `wait` waits for the result."""
        return self._send("POST", "/delete", {"instanceIds": sorted(instances)})

    def wait(self, started: Answer) -> None:
        """Waits until Azure has finished an operation. Raises Failure with its reason if it failed,
        or was not done within the settings' `patience`. If this identity may not read operations,
        or a later change has replaced this one, the scale set's own state tells the end."""
        url = started.headers.get("azure-asyncoperation", "")
        deadline = time.monotonic() + self._settings.patience
        while time.monotonic() < deadline:
            if url:
                try:
                    if _finished(self._send("GET", url).body):
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

    def _send(self, method: str, where: str, body: object = None) -> Answer:
        """Sends a request to a path of the scale set, or to the address that an answer has
        named."""
        url = where if "://" in where else f"{self._url}{where}?api-version={_API}"
        arm, authority = f"{self._settings.arm}/", self._settings.authority
        if not url.startswith(arm):  # the token must go only to Azure
            raise Failure(0, "ForeignUrl", f"{url} is not at {self._settings.arm}")
        headers = self._metadata.bearer(arm)
        return send(method, url, headers=headers, body=body, authority=authority)


def _finished(operation: dict[str, Any]) -> bool:
    """Returns True once an operation has succeeded. Raises Failure if it ended otherwise."""
    status = str(operation.get("status", ""))
    if status == "Succeeded":
        return True
    if status in ("Failed", "Canceled"):
        error = operation.get("error") or {}
        # Azure wraps the reason in generic errors.
        while error.get("details"):
            error = error["details"][0]
        raise Failure(0, str(error.get("code", status)), str(error.get("message", "")))
    return False


_log = logging.getLogger(__name__)


class Capacity:
    """One scale set and its registry; programs may work on it concurrently."""

    def __init__(self, settings: Settings, metadata: Metadata, name: str) -> None:
        self._settings = settings
        self._name = name
        self.client = ScaleSetClient(settings, metadata, settings.scale_sets[name].id)

    def grow(self, names: list[str]) -> None:
        """Creates instances for these nodes; nodes that get none return to the cloud state. A node
        whose instance Azure took away without Slurm's noticing gets a new one."""
        with open_registry(self._settings, self._name) as registry:
            registry.want(names)
        reason = "Azure made fewer instances than it was asked for"
        try:
            started = self._ask_for_more(names)
            if started is None:
                return
            self.client.wait(started)
        except Failure as failure:
            reason = str(failure)
            _log.error("%s: %s", self._name, failure)
        if self.make_do(reason) == []:
            with open_registry(self._settings, self._name) as registry:
                registry.hold.shortages = 0

    def release(self, names: list[str]) -> None:
        """Deletes the instances of these nodes, and any that an earlier call left over."""
        with open_registry(self._settings, self._name) as registry:
            leaving = registry.release(names)
        self.delete(leaving)

    def give_up_on(self, names: list[str]) -> None:
        """Deletes the instances of nodes that never came up, and counts that as a round."""
        with open_registry(self._settings, self._name) as registry:
            claims = registry.claims
            missed = [name for name in names if name in claims and not claims[name].joined]
            waiting = sum(name in registry.wanted for name in names)
            lacking = registry.troubles
            oldest = sorted(registry.unnamed, key=registry.unnamed.__getitem__)
            silent = sorted(oldest, key=lambda each: each not in lacking)[:waiting]
            if missed or silent:
                trouble = next((t for t in map(registry.trouble_of, (*missed, *silent)) if t), "")
                count = len(missed) + len(silent)
                registry.hold.missed(self._settings, count, trouble)
                _log.error("%s: %s", self._name, registry.hold.reason)
            for id in silent:  # noqa: A001
                registry.dismiss(id)
        self.release(names)

    def give_up_on_silent(self) -> None:
        """Gives up on nodes whose instances report that they cannot be nodes, or never report.
        Slurm itself would wait for its ResumeTimeout, and they cost money meanwhile."""
        before = time.time() - self._settings.silent_after
        with open_registry(self._settings, self._name) as registry:
            names = registry.waiting_for(before)
        if not names:
            return
        self.give_up_on(names)
        with open_registry(self._settings, self._name) as registry:
            hold = registry.hold
        commands.update_nodes(self._settings, names, "power_down_force", hold.reason)
        node_registry.apply(self._settings, self._name, hold)

    def put_back(self, names: list[str]) -> None:
        """Puts nodes back into Slurm's cloud state, immediately or after the partition's hold.
        Until then Slurm leaves them down, and their jobs in the queue."""
        with open_registry(self._settings, self._name) as registry:
            hold = registry.hold
        if hold.active:
            commands.update_nodes(self._settings, names, "down", hold.reason)
            node_registry.apply(self._settings, self._name, hold)
        else:
            commands.update_nodes(self._settings, names, "resume")

    def keep_out(self, names: list[str]) -> None:
        """Keeps nodes that are out of use so for their next instance, while they are deleted."""
        drained = node_registry.keep_drained(self._settings, names)
        with open_registry(self._settings, self._name) as registry:
            hold = registry.hold
        node_registry.apply(self._settings, self._name, hold, set(names) - set(drained))

    def delete(self, instances: list[str]) -> None:
        """Deletes instances by number and waits for it; missing ones are ignored."""
        if not instances:
            return
        # Azure refuses the entire request if one instance does not exist.
        known = {each.id: each for each in self.client.instances()}
        present = [id for id in instances if id in known and not known[id].leaving]  # noqa: A001
        if present:
            _log.info("%s: deleting %s", self._name, " ".join(present))
            try:
                self.client.wait(self.client.delete(present))
            except Failure as failure:
                # `reconcile` retries: the instances are in the registry.
                _log.error("%s: %s", self._name, failure)
                return
        there = {each.id for each in self.client.instances()}
        with open_registry(self._settings, self._name) as registry:
            for id in set(registry.leaving) - there:  # noqa: A001
                del registry.leaving[id]
                registry.troubles.pop(id, None)

    def make_do(self, reason: str) -> list[str] | None:
        """Gives back to Slurm the nodes for which Azure has created no instance; `reason` says why.
        Returns these nodes, or None while Azure is still working: the program that waits for that
        work reports it."""
        if self.client.size().busy:
            return None
        instances = self.client.instances()
        with open_registry(self._settings, self._name) as registry:
            nameless = unregistered_instances(instances, registry)
            registry.see([each.id for each in nameless])
            working = self._free(instances, registry)
            failed = [each.id for each in nameless if each not in working]
            given_up = registry.give_up(max(0, len(registry.wanted) - len(working)))
            if given_up:
                registry.hold.short(self._settings, len(given_up), reason)
            hold = registry.hold
            for id in failed:  # noqa: A001
                registry.dismiss(id)
        self.delete(failed)
        if not given_up:
            return []
        with locked(self._settings, f"{self._name}.scale"):
            size, there = self.client.size(), len(self.client.instances())
            if not size.busy and size.capacity > there:
                self._settle(there)
        _log.warning("%s: no instance for %s: %s", self._name, " ".join(given_up), reason)
        commands.update_nodes(self._settings, given_up, "power_down_force", hold.reason)
        node_registry.apply(self._settings, self._name, hold)
        return given_up

    def _ask_for_more(self, names: list[str]) -> Answer | None:
        """Raises the capacity by what is missing; returns None if enough is under way already."""
        with locked(self._settings, f"{self._name}.scale"):
            size, instances = self.client.size(), self.client.instances()
            with open_registry(self._settings, self._name) as registry:
                registry.want(drop_lost_nodes(instances, registry, among=names))
                missing = len(registry.wanted) - len(self._free(instances, registry))
            absent = max(0, size.capacity - len(instances))
            if size.busy:
                missing -= absent
            elif absent and missing > 0:
                # Evicted: Azure would not replace these, since the capacity would not change.
                size = self._settle(len(instances))
            if missing <= 0:
                return None
            _log.info("%s: %d more instances", self._name, missing)
            return self.client.set_capacity(size, size.capacity + missing)

    def _free(self, instances: list[Instance], registry: NodeRegistry) -> list[Instance]:
        """Returns the instances that may yet ask for a name. "Failed" is the result of Azure's last
        operation on an instance, and a VM whose extension failed works: so one gets its time, and
        Slurm judges an instance that has a name. Source: Azure/vm-scale-sets#82."""
        before = time.time() - self._settings.failed_after
        return [
            each
            for each in unregistered_instances(instances, registry)
            if not each.failed or registry.unnamed.get(each.id, time.time()) > before
        ]

    def _settle(self, count: int) -> Size:
        """Sets the capacity to the present number of instances, which deletes nothing."""
        self.client.wait(self.client.set_capacity(self.client.size(), count))
        return self.client.size()


def drop_lost_nodes(
    instances: list[Instance], registry: NodeRegistry, among: Collection[str]
) -> list[str]:
    """Drops nodes from the registry whose instances Azure took; returns their names."""
    there = {each.id for each in instances if not each.leaving}
    gone = [
        name
        for name, claim in registry.claims.items()
        if name in among and claim.instance not in there
    ]
    for name in gone:
        _log.warning("%s: Azure took instance %s away", name, registry.claims[name].instance)
        del registry.claims[name]
    return gone


def unregistered_instances(instances: list[Instance], registry: NodeRegistry) -> list[Instance]:
    """Returns the instances that are no node, and that nobody has deleted."""
    taken = {claim.instance for claim in registry.claims.values()} | set(registry.leaving)
    return [each for each in instances if each.id not in taken and not each.leaving]
