"""Fields that Azure adds to resources, and the resources that it has by itself."""

from __future__ import annotations

import hashlib
import uuid
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.cloud import NOBODY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_simulator.azure.resource_ids import ResourcePath

_PRIVATE = IPv4Network("10.255.0.0/16")
# Azure keeps the first four addresses of a subnet and the last one.
_KEPT_FIRST, _KEPT = 4, 5


def address_in(subnet: Mapping[str, Any] | None, key: str) -> str:
    """Returns an address of the subnet for a machine; always the same for the key.

    If the subnet is unknown, it is a private address outside of any subnet.
    """
    properties = (subnet or {}).get("properties") or {}
    prefixes = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    network = IPv4Network(prefixes[0]) if prefixes[0] else _PRIVATE
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])
    return str(network[_KEPT_FIRST + number % max(1, network.num_addresses - _KEPT)])


def complete(path: ResourcePath, resource: dict[str, Any]) -> None:
    """Fills in the fields of every resource."""
    resource |= {"id": path.text, "name": path.name}
    resource["properties"] = (resource.get("properties") or {}) | {"provisioningState": "Succeeded"}


def id_for(text: str) -> str:
    """Returns a UUID that is always the same for that text."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, text))


def role_definition(role: str) -> dict[str, Any]:
    """Returns a built-in role as a lookup by its name does; the id is derived from the name."""
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
