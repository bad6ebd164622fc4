"""The instances of scale sets, which nobody puts: as many as the set's capacity says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.addresses import address_in
from fairway_simulator.azure.resource_ids import ResourcePath

if TYPE_CHECKING:
    from fairway_simulator.azure.store import ResourceStore

SCALE_SETS = "microsoft.compute/virtualmachinescalesets"
_LEVEL = "/virtualmachinescalesets/"


def instances_in(store: ResourceStore, collection: ResourcePath) -> list[dict[str, Any]]:
    """What a collection in a scale set lists: its instances, or their network interfaces.

    Any other collection, of scale sets themselves for example, is what the store holds.
    """
    kind = collection.name.lower()
    scale_set = _scale_set_of(store, collection)
    if scale_set is None or kind not in ("virtualmachines", "networkinterfaces"):
        return store.list(collection)
    numbers = range(_capacity(scale_set))
    if kind == "virtualmachines":
        return [_instance(scale_set, number) for number in numbers]
    inside = collection.key.rpartition("/virtualmachines/")
    if inside[1]:  # …/virtualMachines/3/networkInterfaces
        numbers = range(int(inside[2].partition("/")[0]), len(numbers))[:1]
    return [_interface(store, scale_set, number) for number in numbers]


def instance_of(store: ResourceStore, path: ResourcePath) -> dict[str, Any] | None:
    """One instance by its number, or None where the set has no such one."""
    scale_set = _scale_set_of(store, path)
    if scale_set is None or not path.name.isdecimal() or int(path.name) >= _capacity(scale_set):
        return None
    return _instance(scale_set, int(path.name))


def _scale_set_of(store: ResourceStore, path: ResourcePath) -> dict[str, Any] | None:
    """The scale set that a path leads into."""
    before, level, after = path.key.partition(_LEVEL)
    return store.get(ResourcePath(f"{before}{level}{after.partition('/')[0]}")) if level else None


def _capacity(scale_set: dict[str, Any]) -> int:
    return int((scale_set.get("sku") or {}).get("capacity") or 0)


def _instance(scale_set: dict[str, Any], number: int) -> dict[str, Any]:
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
            "provisioningState": "Succeeded",
            "latestModelApplied": True,
            "vmId": f"{number:08d}-0000-0000-0000-000000000000",
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
