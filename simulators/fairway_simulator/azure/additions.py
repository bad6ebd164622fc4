"""Additions by services to the resources that they are given, where their answers are read.

`complete` fills in what every resource has. The table holds what one type has beyond that,
by the names of Azure's management API; a type that is not in it is answered with as it came.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Protocol

from fairway_simulator.azure.cloud import NOBODY, STORAGE_SUFFIX
from fairway_simulator.azure.resource_ids import ResourcePath

if TYPE_CHECKING:
    from collections.abc import Mapping


# Where the subnet is not known; documentation says which ranges nobody routes (RFC 5737).
_DOCUMENTATION = IPv4Network("203.0.113.0/24")
_PRIVATE = IPv4Network("10.255.0.0/16")
# Azure keeps the first four addresses of a subnet and the last one.
_KEPT_FIRST, _KEPT = 4, 5


def documentation_address(key: str) -> str:
    """A public address that stands for one; always the same for the key."""
    return _pick(_DOCUMENTATION, key)


def address_in(subnet: Mapping[str, Any] | None, key: str) -> str:
    """An address of the subnet that a machine could get; always the same for the key.

    A private one of no subnet's where that is not known.
    """
    properties = (subnet or {}).get("properties") or {}
    prefixes = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    return _pick(IPv4Network(prefixes[0]) if prefixes[0] else _PRIVATE, key)


def _pick(network: IPv4Network, key: str) -> str:
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])
    return str(network[_KEPT_FIRST + number % max(1, network.num_addresses - _KEPT)])


Made = list[tuple[ResourcePath, dict[str, Any]]]


class Resources(Protocol):
    """Look-up of other resources: a `ResourceStore`."""

    @property
    def vault_host(self) -> str: ...
    def get(self, path: ResourcePath) -> dict[str, Any] | None: ...


@dataclass(frozen=True)
class _New:
    """A resource that was put, to be filled in, and all the others."""

    path: ResourcePath
    resource: dict[str, Any]
    others: Resources

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource["properties"]
        return found

    def set(self, **properties: Any) -> None:
        self.properties.update(properties)

    def address_in(self, subnet_id: str) -> str:
        return address_in(self.others.get(ResourcePath(subnet_id)), self.path.key)


_Addition = Callable[[_New], Made | None]


def complete(path: ResourcePath, resource: dict[str, Any], others: Resources) -> Made:
    """Fills in what the service adds; answers with the resources that it makes beside it."""
    resource["id"] = path.text
    resource["name"] = path.name
    _part(resource, "properties")["provisioningState"] = "Succeeded"
    _add_principal(path, resource)
    addition = _ADDITIONS.get(path.type)
    return (addition(_New(path, resource, others)) if addition else None) or []


def id_for(text: str) -> str:
    """A UUID that is always the same for that text."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, text))


def role_definition(role: str) -> dict[str, Any]:
    """A built-in role as a look-up by its name finds it; the id is made from the name."""
    name = id_for(role)
    return {
        "id": f"/subscriptions/{NOBODY}/providers/Microsoft.Authorization/roleDefinitions/{name}",
        "name": name,
        "type": "Microsoft.Authorization/roleDefinitions",
        "properties": {
            "roleName": role,
            "type": "BuiltInRole",
            "description": "",
            "assignableScopes": ["/"],
            "permissions": [],
        },
    }


def _part(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    """The mapping under a key, made where there is none or null."""
    if not isinstance(mapping.get(key), dict):
        mapping[key] = {}
    found: dict[str, Any] = mapping[key]
    return found


def _add_principal(path: ResourcePath, resource: dict[str, Any]) -> None:
    """The principal of a resource that has an identity of its own."""
    identity = resource.get("identity")
    if isinstance(identity, dict) and "SystemAssigned" in str(identity.get("type", "")):
        identity["principalId"] = id_for(path.key)
        identity["tenantId"] = NOBODY


def _storage_account(new: _New) -> None:
    services = ("blob", "dfs", "file", "queue", "table", "web")
    new.properties.update(
        {
            "primaryLocation": new.resource.get("location"),
            "statusOfPrimary": "available",
            "primaryEndpoints": {
                service: f"https://{new.path.name}.{service}.{STORAGE_SUFFIX}/"
                for service in services
            },
        }
    )


def _data_collection(new: _New) -> None:
    made = id_for(new.path.key).replace("-", "")
    properties = new.properties
    properties["immutableId"] = f"dcr-{made}"
    for service in ("configurationAccess", "logsIngestion", "metricsIngestion"):
        properties[service] = {
            "endpoint": f"https://{new.path.name}.{service.lower()}.monitor.azure.com"
        }


def _role_assignment(new: _New) -> None:
    """It says for what it holds; the provider takes one without a scope for another one."""
    at = new.path.key.rindex("/providers/microsoft.authorization/")
    new.properties["scope"] = new.path.text[:at]


def _drop_unused(properties: dict[str, Any]) -> None:
    """Drops capabilities that are put empty or all off: Compute does not answer with them."""
    if not any((properties.get("additionalCapabilities") or {}).values()):
        properties.pop("additionalCapabilities", None)


def _network_interface(new: _New) -> None:
    for configuration in new.properties.get("ipConfigurations") or ():
        properties = _part(configuration, "properties")
        subnet = (properties.get("subnet") or {}).get("id", "")
        if not properties.get("privateIPAddress"):
            properties["privateIPAddress"] = new.address_in(subnet)


def _private_zone(new: _New) -> Made:
    record: dict[str, Any] = {
        "type": "Microsoft.Network/privateDnsZones/SOA",
        "properties": {
            "fqdn": f"{new.path.name}.",
            "ttl": 3600,
            "soaRecord": {
                "email": "azureprivatedns-host.microsoft.com",
                "host": "azureprivatedns.net",
                "expireTime": 2419200,
                "minimumTtl": 10,
                "refreshTime": 3600,
                "retryTime": 300,
                "serialNumber": 1,
            },
        },
    }
    place = ResourcePath(f"{new.path.text}/SOA/@")
    return [(place, {"id": place.text, "name": "@", **record})]


def _virtual_machine(new: _New) -> Made:
    """The disk of the system is a resource of its own, as any other disk."""
    properties = new.properties
    _drop_unused(properties)
    properties["vmId"] = id_for(new.path.key)
    storage = _part(properties, "storageProfile")
    storage["dataDisks"] = storage.get("dataDisks") or []
    disk = _part(storage, "osDisk")
    disk["name"] = disk.get("name") or f"{new.path.name}_OsDisk"
    group = new.path.text.lower().index("/providers/")
    place = ResourcePath(
        f"{new.path.text[:group]}/providers/Microsoft.Compute/disks/{disk['name']}"
    )
    managed = _part(disk, "managedDisk")
    managed["id"] = place.text
    size = disk.get("diskSizeGB") or 30
    kept = {"diskSizeGB": size, "osType": "Linux", "provisioningState": "Succeeded"}
    sku = {"name": managed.get("storageAccountType", "Standard_LRS")}
    location = new.resource.get("location")
    facts = {"id": place.text, "name": disk["name"], "location": location, "sku": sku}
    return [(place, {**facts, "properties": kept})]


def _lustre(new: _New) -> None:
    properties = new.properties
    address = new.address_in(properties.get("filesystemSubnet", ""))
    properties["clientInfo"] = {
        "mgsAddress": address,
        "lustreVersion": "2.15.5",
        "mountCommand": f"mount -t lustre {address}@tcp:/lustrefs /lustre",
    }
    properties["health"] = {"state": "Available"}


_ADDITIONS: dict[str, _Addition] = {
    "microsoft.authorization/roleassignments": _role_assignment,
    "microsoft.batch/batchaccounts": lambda new: new.set(
        accountEndpoint=f"{new.path.name}.{new.resource.get('location')}.batch.azure.com"
    ),
    "microsoft.batch/batchaccounts/pools": lambda new: new.set(allocationState="Steady"),
    "microsoft.compute/virtualmachines": _virtual_machine,
    "microsoft.compute/virtualmachinescalesets": lambda new: _drop_unused(new.properties),
    "microsoft.containerregistry/registries": lambda new: new.set(
        loginServer=f"{new.path.name}.azurecr.io"
    ),
    "microsoft.insights/datacollectionendpoints": _data_collection,
    "microsoft.insights/datacollectionrules": _data_collection,
    # The provider waits until the vault answers, so it is here.
    "microsoft.keyvault/vaults": lambda new: new.set(vaultUri=f"https://{new.others.vault_host}/"),
    "microsoft.managedidentity/userassignedidentities": lambda new: new.set(
        principalId=id_for(new.path.key),
        clientId=id_for(f"{new.path.key}/client"),
        tenantId=NOBODY,
    ),
    "microsoft.netapp/netappaccounts/capacitypools/volumes": lambda new: new.set(
        mountTargets=[
            {
                "ipAddress": new.address_in(new.properties.get("subnetId", "")),
                "mountTargetId": id_for(new.path.key),
            }
        ]
    ),
    "microsoft.network/networkinterfaces": _network_interface,
    "microsoft.network/privatednszones": _private_zone,
    "microsoft.network/publicipaddresses": lambda new: new.set(
        ipAddress=documentation_address(new.path.key)
    ),
    "microsoft.operationalinsights/workspaces": lambda new: new.set(
        customerId=id_for(new.path.key)
    ),
    "microsoft.storage/storageaccounts": _storage_account,
    "microsoft.storagecache/amlfilesystems": _lustre,
}
