"""The parts of resources in a Terraform plan, by their type and attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.disks import disk_kind, disk_skus
from fairway_core.cost import parts as make
from fairway_core.cost.meters import never_priced, paid_by_use
from fairway_core.cost.parts import Counts, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# How formulas of `fairway_core.autoscale` begin, and how they end where all nodes are alike.
_LIMITS = re.compile(r"minNodes = ([0-9]+);\nmaxNodes = ([0-9]+);")
_ONE_KIND = re.compile(
    r"^\$Target\w+Nodes = 0;\n\$Target(Dedicated|LowPriority)Nodes = total;", re.MULTILINE
)
# Sums of money with more than this are no numbers any more.
_MOST = 1e12
_READ = (
    "auto_scale",
    "auto_scaling_enabled",
    "default_node_pool",
    "disk_iops_read_write",
    "disk_mbps_read_write",
    "disk_size_gb",
    "enabled_protocol",
    "fixed_scale",
    "instances",
    "max_count",
    "min_count",
    "node_count",
    "os_disk",
    "os_disk_size_gb",
    "os_disk_type",
    "priority",
    "quota",
    "service_level",
    "size",
    "size_in_tb",
    "sku",
    "sku_tier",
    "storage_account_type",
    "vm_size",
)
_UNKNOWN_NUMBER = "its number is known after apply"


def what_costs(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that decide what a resource costs: of thousands few differ in these."""
    return {key: attributes[key] for key in _READ if attributes.get(key) is not None}


def parts_of_resource(
    address: str,
    type: str,  # noqa: A002
    attributes: Mapping[str, Any],
    region: str,
) -> list[Part]:
    """What a resource with these attributes costs; nothing for what costs nothing.

    `attributes` are those before or after the change, as `terraform show -json` writes them:
    what is known only after apply is missing there. `region` is where it stands. No other
    attributes are read than `what_costs` takes.
    """
    maker = _MAKERS.get(type)
    if maker is not None:
        return maker(address, attributes, region)
    reason = paid_by_use(type)
    if reason is not None:
        return [make.used(address, region, what=type, reason=reason)]
    reason = never_priced(type)
    return [make.unpriced(address, region, what=type, reason=reason)] if reason else []


def is_priced(type: str) -> bool:  # noqa: A002
    """Whether a resource of that type may have parts with a price, known or not."""
    return type in _MAKERS or never_priced(type) is not None


def _scale_set(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    size, instances = attributes.get("sku"), _number(attributes.get("instances"))
    if not isinstance(size, str) or instances is None:
        return [make.unpriced(address, region, what="nodes", reason=_UNKNOWN_NUMBER)]
    counts = Counts(instances, instances, instances)
    spot = attributes.get("priority") == "Spot"
    return [
        make.nodes(address, region, size=size, counts=counts, spot=spot),
        *_os_disk(address, attributes, region, counts),
    ]


def _machine(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    size = attributes.get("size")
    if not isinstance(size, str):
        return [make.unpriced(address, region, what="VM", reason="its size is not known")]
    spot = attributes.get("priority") == "Spot"
    return [
        make.nodes(address, region, size=size, counts=make.ONE, spot=spot),
        *_os_disk(address, attributes, region, make.ONE),
    ]


def _os_disk(
    address: str, attributes: Mapping[str, Any], region: str, counts: Counts
) -> list[Part]:
    disk = _block(attributes.get("os_disk"))
    if disk.get("diff_disk_settings"):
        return []  # on the node itself
    kind = _kind_of_disk(disk)
    if kind is None or _is_provisioned(kind):
        reason = "its kind is not known"
        return [make.unpriced(address, region, what="system disk", reason=reason)]
    gib = _number(disk.get("disk_size_gb")) or None
    return [make.tiered_disks(address, region, kind=kind, gib=gib, counts=counts)]


def _kind_of_disk(attributes: Mapping[str, Any]) -> str | None:
    sku = str(attributes.get("storage_account_type"))
    return make.HARD_DISK if sku == "Standard_LRS" else disk_skus().get(sku)


def _is_provisioned(kind: str) -> bool:
    return kind != make.HARD_DISK and disk_kind(kind).provisioned is not None


def _disk(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    kind = _kind_of_disk(attributes)
    gib = _number(attributes.get("disk_size_gb"))
    if kind is None or not gib:
        reason = "its kind or size is not known"
        return [make.unpriced(address, region, what="disk", reason=reason)]
    if not _is_provisioned(kind):
        return [make.tiered_disks(address, region, kind=kind, gib=gib)]
    iops = _number(attributes.get("disk_iops_read_write"))
    mbps = _number(attributes.get("disk_mbps_read_write"))
    if iops is None or mbps is None:
        reason = "its IOPS or MB/s are known after apply"
        return [make.unpriced(address, region, what=f"disk of {gib} GiB", reason=reason)]
    return make.provisioned_disks(address, region, kind=kind, gib=gib, iops=iops, mbps=mbps)


def _pool(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    size = _size(str(attributes.get("vm_size")))
    formula = _block(attributes.get("auto_scale")).get("formula")
    if isinstance(formula, str):
        return [_scaled(address, size, formula, region)]
    scale = _block(attributes.get("fixed_scale"))
    if not scale:
        reason = "how many nodes it has is known after apply"
        return [make.unpriced(address, region, what=f"nodes of {size}", reason=reason)]
    found = []
    for key, spot in (("target_dedicated_nodes", False), ("target_low_priority_nodes", True)):
        count = _number(scale.get(key)) or 0
        if count:
            counts = Counts(count, count, count)
            found.append(make.nodes(address, region, size=size, counts=counts, spot=spot))
    return found


def _scaled(address: str, size: str, formula: str, region: str) -> Part:
    """Nodes between the limits that a formula of Fairway's own begins with."""
    limits, kind = _LIMITS.match(formula), _ONE_KIND.search(formula)
    if limits is None or kind is None:
        reason = "the number of nodes that its formula asks for is not known"
        return make.unpriced(address, region, what=f"nodes of {size}", reason=reason)
    least, most = (int(limit) for limit in limits.groups())
    counts, spot = Counts(least, most, least), kind[1] == "LowPriority"
    return make.nodes(address, region, size=size, counts=counts, spot=spot)


def _size(name: str) -> str:
    """The size as the catalogue spells it: Batch writes it in capitals."""
    from fairway_core.catalog.sizes import known_size

    known = known_size(name)
    return known.name if known else name


def _kubernetes(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    """A cluster: its API server, which costs nothing with the tier Free, and its first nodes."""
    tier = attributes.get("sku_tier") or "Free"
    server = make.flat(address, region, meter=f"kubernetes/{tier}", what=f"{tier} API server")
    system = _node_pool(address, _block(attributes.get("default_node_pool")), region)
    return system if tier == "Free" else [server, *system]


def _node_pool(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    """Nodes between the limits of the autoscaler, or as many as the plan says."""
    size = attributes.get("vm_size")
    scaled = attributes.get("auto_scaling_enabled") is True
    limits = ("min_count", "max_count") if scaled else ("node_count", "node_count")
    least, most = (_number(attributes.get(limit)) for limit in limits)
    if not isinstance(size, str) or least is None or most is None:
        return [make.unpriced(address, region, what="nodes", reason=_UNKNOWN_NUMBER)]
    counts, spot = Counts(least, most, least), attributes.get("priority") == "Spot"
    found = [make.nodes(address, region, size=size, counts=counts, spot=spot)]
    if attributes.get("os_disk_type") != "Ephemeral":
        gib = _number(attributes.get("os_disk_size_gb")) or None
        found.append(make.tiered_disks(address, region, kind="premium", gib=gib, counts=counts))
    return found


def _share(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    if attributes.get("enabled_protocol") != "NFS":
        reason = "charged per GB stored and per operation"
        return [make.used(address, region, what="file share", reason=reason)]
    # How often it is kept is a matter of its account, and not among its attributes.
    reason = "its price depends on the replication of its account"
    what = f"{attributes.get('quota')} GiB"
    return [make.unpriced(address, region, what=what, reason=reason)]


def _netapp(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    tib, level = _number(attributes.get("size_in_tb")), attributes.get("service_level")
    if tib is None or not isinstance(level, str):
        return [make.unpriced(address, region, what="pool", reason="its size is not known")]
    return [make.netapp_pool(address, region, level=level, tib=tib)]


def _public_ip(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
    if attributes.get("sku") == "Standard":
        return [make.flat(address, region, meter="public_ip", what="public address")]
    reason = "only addresses of sku Standard have a known price"
    return [make.unpriced(address, region, what="public address", reason=reason)]


def _sku_meter(family: str) -> Callable[[str, Mapping[str, Any], str], list[Part]]:
    def make_part(address: str, attributes: Mapping[str, Any], region: str) -> list[Part]:
        sku = attributes.get("sku")
        if not isinstance(sku, str):
            return [make.unpriced(address, region, what=family, reason="its sku is not known")]
        return [make.flat(address, region, meter=f"{family}/{sku}", what=f"{sku} {family}")]

    return make_part


def _flat(meter: str, what: str) -> Callable[[str, Mapping[str, Any], str], list[Part]]:
    def make_part(address: str, _: Mapping[str, Any], region: str) -> list[Part]:
        return [make.flat(address, region, meter=meter, what=what)]

    return make_part


def _block(value: Any) -> Mapping[str, Any]:
    """The one block of a list, or nothing."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _number(value: Any) -> int | None:
    """A whole number; None for what is none, or for more than Azure has of anything."""
    known = isinstance(value, int | float) and abs(value) < _MOST
    return int(value) if known else None


_MAKERS: dict[str, Callable[[str, Mapping[str, Any], str], list[Part]]] = {
    "azurerm_bastion_host": _sku_meter("bastion"),
    "azurerm_batch_pool": _pool,
    "azurerm_container_registry": _sku_meter("registry"),
    "azurerm_kubernetes_cluster": _kubernetes,
    "azurerm_kubernetes_cluster_node_pool": _node_pool,
    "azurerm_linux_virtual_machine": _machine,
    "azurerm_linux_virtual_machine_scale_set": _scale_set,
    "azurerm_managed_disk": _disk,
    "azurerm_nat_gateway": _flat("nat_gateway", "gateway"),
    "azurerm_netapp_pool": _netapp,
    "azurerm_private_endpoint": _flat("private_endpoint", "private endpoint"),
    "azurerm_public_ip": _public_ip,
    "azurerm_storage_share": _share,
}
