"""The billed parts of resources in a Terraform plan, by their type and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fairway_core.catalog.disks import disk_skus
from fairway_core.catalog.sizes import known_size
from fairway_core.cost.line_items import (
    HARD_DISK,
    NAT_GATEWAY,
    ONE,
    PRIVATE_ENDPOINT,
    PUBLIC_IP,
    Counts,
    LineItem,
    api_server,
    disks,
    netapp_pool,
    vms,
    without_meter,
)
from fairway_core.cost.meters import never_priced
from fairway_core.json_values import first_block, quantity

_Attributes = Mapping[str, Any]

# The beginning of formulas by `fairway_core.autoscale`, and their end if all nodes are alike.
_LIMITS = re.compile(r"minNodes = ([0-9]+);\nmaxNodes = ([0-9]+);")
_ONE_KIND = re.compile(
    r"^\$Target\w+Nodes = 0;\n\$Target(Dedicated|LowPriority)Nodes = total;", re.MULTILINE
)
_LUSTRE = "azurerm_managed_lustre_file_system"
_UNKNOWN_NUMBER = "its number is known after apply"


def line_items_of_resource(type: str, attributes: _Attributes, region: str) -> list[LineItem]:  # noqa: A002
    """Returns the priced parts of a resource in `region`, none if it is free; `attributes` are
    those before or after the change, from `terraform show -json`, without those known only after
    apply."""
    maker = _MAKERS.get(type)
    found = without_meter(type, type) if maker is None else maker(attributes)
    return [replace(part, region=region) for part in found]


def is_priced(type: str) -> bool:  # noqa: A002
    """Returns True if a resource of that type may have parts with a price, known or not."""
    return type in _MAKERS or never_priced(type) is not None


def _scale_set(attributes: _Attributes) -> list[LineItem]:
    size, instances = attributes.get("sku"), quantity(attributes.get("instances"))
    if not isinstance(size, str) or instances is None:
        return [LineItem("nodes", reason=_UNKNOWN_NUMBER)]
    return _with_os_disks(size, ONE.times(instances), attributes)


def _machine(attributes: _Attributes) -> list[LineItem]:
    size = attributes.get("size")
    if not isinstance(size, str):
        return [LineItem("VM", reason="its size is not known")]
    return _with_os_disks(size, ONE, attributes)


def _with_os_disks(size: str, counts: Counts, attributes: _Attributes) -> list[LineItem]:
    nodes = vms(size, counts, spot=attributes.get("priority") == "Spot")
    disk = first_block(attributes.get("os_disk"))
    if disk.get("diff_disk_settings"):
        return [nodes]  # their disks are local to the nodes
    kind, gib = _kind_of_disk(disk), quantity(disk.get("disk_size_gb"))
    if kind is None:
        return [nodes, LineItem("system disk", reason="its kind is not known")]
    return [nodes, *disks(kind, gib, counts)]


def _kind_of_disk(attributes: _Attributes) -> str | None:
    sku = str(attributes.get("storage_account_type"))
    return HARD_DISK if sku == "Standard_LRS" else disk_skus().get(sku)


def _disk(attributes: _Attributes) -> list[LineItem]:
    kind, gib = _kind_of_disk(attributes), quantity(attributes.get("disk_size_gb"))
    if kind is None or not gib:
        return [LineItem("disk", reason="its kind or size is not known")]
    iops = quantity(attributes.get("disk_iops_read_write"))
    mbps = quantity(attributes.get("disk_mbps_read_write"))
    return disks(kind, gib, iops=iops, mbps=mbps)


def _pool(attributes: _Attributes) -> list[LineItem]:
    """Returns the nodes of a Batch pool: the number in the plan, or the limits at the start of a
    formula by Fairway. Batch writes their size in capitals."""
    named = str(attributes.get("vm_size"))
    known = known_size(named)
    size = known.name if known else named
    formula = first_block(attributes.get("auto_scale")).get("formula")
    if isinstance(formula, str):
        limits, kind = _LIMITS.match(formula), _ONE_KIND.search(formula)
        if limits is None or kind is None:
            reason = "the number of nodes that its formula asks for is not known"
            return [LineItem(f"nodes of {size}", reason=reason, formula=formula)]
        least, most = map(int, limits.groups())
        return [vms(size, Counts(least, most, least), spot=kind[1] == "LowPriority")]
    scale = first_block(attributes.get("fixed_scale"))
    if not scale:
        reason = "how many nodes it has is known after apply"
        return [LineItem(f"nodes of {size}", reason=reason)]
    kinds = (("target_dedicated_nodes", False), ("target_low_priority_nodes", True))
    counts = [(quantity(scale.get(key)), spot) for key, spot in kinds]
    return [vms(size, ONE.times(count), spot=spot) for count, spot in counts if count]


def _kubernetes(attributes: _Attributes) -> list[LineItem]:
    """Returns a cluster's API server and its first nodes."""
    nodes = _node_pool(first_block(attributes.get("default_node_pool")))
    return [*api_server(attributes.get("sku_tier") or "Free"), *nodes]


def _node_pool(attributes: _Attributes) -> list[LineItem]:
    """Returns nodes between the limits of the autoscaler, or the number in the plan."""
    size = attributes.get("vm_size")
    scaled = attributes.get("auto_scaling_enabled") is True
    limits = ("min_count", "max_count") if scaled else ("node_count", "node_count")
    least, most = (quantity(attributes.get(limit)) for limit in limits)
    if not isinstance(size, str) or least is None or most is None:
        return [LineItem("nodes", reason=_UNKNOWN_NUMBER)]
    counts = Counts(least, most, least)
    nodes = vms(size, counts, spot=attributes.get("priority") == "Spot")
    if attributes.get("os_disk_type") == "Ephemeral":
        return [nodes]
    return [nodes, *disks("premium", quantity(attributes.get("os_disk_size_gb")), counts)]


def _share(attributes: _Attributes) -> list[LineItem]:
    if attributes.get("enabled_protocol") != "NFS":
        reason = "charged per GB stored and per operation"
        return [LineItem("file share", reason=reason, by_use=True)]
    # Its replication is an attribute of its account.
    reason = "its price depends on the replication of its account"
    return [LineItem(f"{attributes.get('quota')} GiB", reason=reason)]


def _netapp(attributes: _Attributes) -> list[LineItem]:
    tib, level = quantity(attributes.get("size_in_tb")), attributes.get("service_level")
    if tib is None or not isinstance(level, str):
        return [LineItem("pool", reason="its size is not known")]
    return [netapp_pool(level, tib)]


def _lustre(attributes: _Attributes) -> list[LineItem]:
    # Size and level determine the price, which is unknown.
    tib, level = quantity(attributes.get("storage_capacity_in_tb")), attributes.get("sku_name")
    return without_meter(_LUSTRE, f"{tib} TiB, {level}" if tib and level else "file system")


def _public_ip(attributes: _Attributes) -> list[LineItem]:
    if attributes.get("sku") == "Standard":
        return [PUBLIC_IP]
    return [
        replace(PUBLIC_IP, meter=None, reason="only addresses of sku Standard have a known price")
    ]


def _of_sku(family: str, attributes: _Attributes) -> list[LineItem]:
    sku = attributes.get("sku")
    if not isinstance(sku, str):
        return [LineItem(family, reason="its sku is not known")]
    return [LineItem(f"{sku} {family}", f"{family}/{sku}")]


_MAKERS: dict[str, Callable[[_Attributes], list[LineItem]]] = {
    "azurerm_bastion_host": partial(_of_sku, "bastion"),
    "azurerm_batch_pool": _pool,
    "azurerm_container_registry": partial(_of_sku, "registry"),
    "azurerm_kubernetes_cluster": _kubernetes,
    "azurerm_kubernetes_cluster_node_pool": _node_pool,
    "azurerm_linux_virtual_machine": _machine,
    "azurerm_linux_virtual_machine_scale_set": _scale_set,
    "azurerm_managed_disk": _disk,
    _LUSTRE: _lustre,
    "azurerm_nat_gateway": lambda _: [NAT_GATEWAY],
    "azurerm_netapp_pool": _netapp,
    "azurerm_private_endpoint": lambda _: [PRIVATE_ENDPOINT],
    "azurerm_public_ip": _public_ip,
    "azurerm_storage_share": _share,
}
