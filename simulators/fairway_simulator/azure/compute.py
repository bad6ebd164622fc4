"""Machines and scale sets: instances that Azure creates, and operations that end after an answer.

Stricter than Azure usually is, where its documents leave it open: an instance's number is never
reused, and no change of the capacity is repeated automatically. Sources: Azure REST API, Virtual
Machine Scale Sets; Azure documentation, "Resolve errors for resource quotas" and "Provisioning
states"; Azure/vm-scale-sets#82 for instances that failed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_core.catalog import vm_size
from fairway_simulator.azure.additions import address_in, id_for
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.resource_ids import ResourcePath, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.azure.store import ResourceStore

    Told = Callable[[str, int], None]

SCALE_SETS = "microsoft.compute/virtualmachinescalesets"
_LEVEL = "/virtualmachinescalesets/"
_OPERATIONS = f"/subscriptions/{NOBODY}/providers/Microsoft.Compute/locations/loopback/operations"
# Actions on machines by POST that end after the answer. Source: Azure REST API, Virtual Machines
# and Virtual Machine Scale Sets.
_ACTIONS = frozenset({"deallocate", "delete", "start"})


@dataclass(frozen=True)
class Started:
    """An answer with an operation in progress: the path at which to poll it."""

    path: str


@dataclass
class Compute:
    """Instances of all scale sets, and the results of operations.

    `room` is how many instances Azure has the capacity for in each scale set, and `vcpus` how many
    vCPUs the quota allows for all of them; the next `broken` instances are created and then Failed,
    and the next `busy` starts or stops of a machine are refused as it is at work. `on_make` and
    `on_delete` are called for each instance that comes or goes, with the id of its scale set and
    its number.
    """

    store: ResourceStore
    room: int | None = None
    vcpus: int | None = None
    broken: int = 0
    busy: int = 0
    on_make: Told = lambda *_: None
    on_delete: Told = lambda *_: None
    _instances: dict[str, dict[int, str]] = field(default_factory=dict)
    _made: dict[str, int] = field(default_factory=dict)
    _operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def answer(self, method: str, path: ResourcePath, body: Any) -> tuple[int, Any] | None:
        if path.key.startswith(_OPERATIONS.lower()):
            with self._lock:
                end = self._operations.get(path.key)
            return (200, end) if end else refused(404, "NotFound", "no such operation")
        if method == "PATCH" and path.type == SCALE_SETS and self.store.get(path):
            return self._patch(path, body or {})
        subject = path.parent_of_action()
        machines = subject.type.startswith("microsoft.compute/virtualmachine")
        if method == "POST" and machines and path.name.lower() in _ACTIONS:
            return self._act(subject, path.name.lower(), body or {})
        return None

    def evict(self, scale_set: str, number: int) -> None:
        """Takes an instance away; the requested capacity stays."""
        with self._lock:
            del self._of(ResourcePath(scale_set).key)[number]
        self.on_delete(scale_set, number)

    def instances_in(self, collection: ResourcePath) -> list[dict[str, Any]]:
        """Lists a collection in a scale set: its instances, or their network interfaces.

        Any other collection, of scale sets themselves for example, comes from the store.
        """
        kind = collection.name.lower()
        found = self._scale_set_of(collection)
        if found is None or kind not in ("virtualmachines", "networkinterfaces"):
            return self.store.list(collection)
        key, scale_set = found
        with self._lock:
            states = dict(self._of(key))
        if kind == "virtualmachines":
            return [_instance(scale_set, number, state) for number, state in states.items()]
        inside = collection.key.rpartition("/virtualmachines/")
        if inside[1]:  # …/virtualMachines/3/networkInterfaces
            states = {n: s for n, s in states.items() if str(n) == inside[2].partition("/")[0]}
        return [_interface(self.store, scale_set, number) for number in states]

    def instance(self, path: ResourcePath) -> dict[str, Any] | None:
        found = self._scale_set_of(path)
        if found is None or not path.name.isdecimal():
            return None
        key, scale_set = found
        with self._lock:
            state = self._of(key).get(int(path.name))
        return None if state is None else _instance(scale_set, int(path.name), state)

    def _patch(self, path: ResourcePath, body: dict[str, Any]) -> tuple[int, Any]:
        """Changes a scale set: adds instances if more are requested, and refuses fewer.

        Azure would choose which ones go, so no client of ours may request a smaller capacity than
        there are instances.
        """
        with self._lock:
            before = self._of(path.key)
            wanted = int((body.get("sku") or {}).get("capacity", len(before)))
            if wanted < len(before):
                return refused(400, "BadRequest", "this leaves to Azure which instances go")
            lacking = self._beyond_quota(path, wanted - len(before))
            if lacking:
                return refused(409, "OperationNotAllowed", lacking)
            self.store.patch(path, body)
            made = self._make(path.key, wanted - len(before))
            missing = wanted - len(before)
        for number in made:
            self.on_make(path.text, number)
        if not missing:
            return self._start()
        text = "Allocation failed. We do not have sufficient capacity for the requested VM size."
        # Azure nests the reason as deeply.
        details = [{"code": "AllocationFailed", "message": text}]
        error = {"code": "VMFailure", "details": details}
        return self._start({"status": "Failed", "error": error})

    def _beyond_quota(self, path: ResourcePath, more: int) -> str:
        """Returns Azure's message on a quota that a change would exceed; "" if it would not."""
        if self.vcpus is None or more <= 0:
            return ""
        resource = self.store.get(path) or {}
        size = vm_size(resource["sku"]["name"])
        used = sum(map(len, self._instances.values())) * size.quota_vcpus
        needed = more * size.quota_vcpus
        if used + needed <= self.vcpus:
            return ""
        return (
            f"Operation could not be completed as it results in exceeding approved "
            f"{size.quota_family} Cores quota. Additional details - Current Limit: {self.vcpus}, "
            f"Current Usage: {used}, Additional Required: {needed}"
        )

    def _make(self, key: str, count: int) -> list[int]:
        """Creates `count` instances, or fewer where room ends; returns the numbers of working
        ones."""
        instances, made = self._of(key), []
        for _ in range(count):
            if self.room is not None and len(instances) >= self.room:
                break
            number = self._made.get(key, 0)
            self._made[key] = number + 1
            instances[number] = "Failed" if self.broken else "Succeeded"
            if not self.broken:
                made.append(number)
            self.broken = max(0, self.broken - 1)
        return made

    def _act(
        self, subject: ResourcePath, action: str, body: dict[str, Any]
    ) -> tuple[int, Any] | None:
        """Acts on a machine or on instances of a scale set; None if the subject does not exist."""
        found = self.store.get(subject)
        if found is None:
            return None
        if action != "delete":
            with self._lock:
                if self.busy:
                    self.busy -= 1
                    text = "another operation is being performed on this machine"
                    return refused(409, "Conflict", text)
            return self._start()
        with self._lock:
            instances = self._of(subject.key)
            numbers = [int(each) for each in body.get("instanceIds") or ()]
            if not numbers or set(numbers) - instances.keys():
                text = f"no instance of {subject.name} is one of {numbers}"
                return refused(404, "ResourceNotFound", text)
            for number in numbers:
                del instances[number]
            sku = {**found["sku"], "capacity": _capacity(found) - len(numbers)}
            self.store.patch(subject, {"sku": sku})
        for number in numbers:
            self.on_delete(subject.text, number)
        return self._start()

    def _start(self, failure: dict[str, Any] | None = None) -> tuple[int, Any]:
        with self._lock:
            path = f"{_OPERATIONS}/{len(self._operations)}"
            self._operations[path.lower()] = failure or {"status": "Succeeded"}
        return 202, Started(path)

    def _of(self, key: str) -> dict[int, str]:
        """Returns the instances of a scale set, created with its initial capacity when it is first
        seen."""
        if key not in self._instances:
            found = self.store.get(ResourcePath(key)) or {}
            count = _capacity(found)
            self._instances[key] = dict.fromkeys(range(count), "Succeeded")
            self._made[key] = count
        return self._instances[key]

    def _scale_set_of(self, path: ResourcePath) -> tuple[str, dict[str, Any]] | None:
        """Returns the scale set that a path leads into, and its key."""
        before, level, after = path.key.partition(_LEVEL)
        key = f"{before}{level}{after.partition('/')[0]}"
        found = self.store.get(ResourcePath(key)) if level else None
        return (key, found) if found else None


def _capacity(scale_set: dict[str, Any]) -> int:
    return int((scale_set.get("sku") or {}).get("capacity") or 0)


def _instance(scale_set: dict[str, Any], number: int, state: str) -> dict[str, Any]:
    properties = scale_set["properties"]
    profile = properties.get("virtualMachineProfile") or {}
    prefix = (profile.get("osProfile") or {}).get("computerNamePrefix", scale_set["name"])
    place = f"{scale_set['id']}/virtualMachines/{number}"
    interface = f"{place}/networkInterfaces/primary"
    return {
        "id": place,
        "name": f"{scale_set['name']}_{number}",
        "instanceId": str(number),
        "location": scale_set.get("location"),
        "sku": {key: scale_set["sku"].get(key) for key in ("name", "tier")},
        "zones": scale_set.get("zones"),
        "properties": {
            "provisioningState": state,
            "latestModelApplied": True,
            "vmId": id_for(place.lower()),
            "osProfile": {"computerName": f"{prefix}{number:06d}"},
            "networkProfile": {
                "networkInterfaces": [{"id": interface, "properties": {"primary": True}}]
            },
            "instanceView": {
                "statuses": [{"code": "PowerState/running", "displayStatus": "VM running"}]
            },
        },
    }


def _interface(store: ResourceStore, scale_set: dict[str, Any], number: int) -> dict[str, Any]:
    profile = scale_set["properties"].get("virtualMachineProfile") or {}
    interfaces = (profile.get("networkProfile") or {}).get("networkInterfaceConfigurations") or [{}]
    configured = (interfaces[0].get("properties") or {}).get("ipConfigurations") or [{}]
    subnet = ((configured[0].get("properties") or {}).get("subnet") or {}).get("id", "")
    machine = f"{scale_set['id']}/virtualMachines/{number}"
    return {
        "id": f"{machine}/networkInterfaces/primary",
        "name": "primary",
        "properties": {
            "primary": True,
            "provisioningState": "Succeeded",
            "virtualMachine": {"id": machine},
            "ipConfigurations": [
                {
                    "name": "primary",
                    "properties": {
                        "primary": True,
                        "privateIPAddress": address_in(
                            store.get(ResourcePath(subnet)), machine.lower()
                        ),
                        "subnet": {"id": subnet},
                    },
                }
            ],
        },
    }
