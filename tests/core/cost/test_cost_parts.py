"""Cost of an environment: its parts, their sums, and unknown prices."""

import datetime
from dataclasses import astuple
from typing import Any

import pytest

from fairway_core.catalog import vm_sizes
from fairway_core.catalog.tables import table
from fairway_core.cost.environment import line_items_of
from fairway_core.cost.estimate import Estimate, estimate, offers
from fairway_core.cost.from_plan import line_items_of_resource
from fairway_core.cost.line_items import Counts, LineItem, disks, vms
from fairway_core.cost.meters import meter
from fairway_core.cost.prices import Price, PriceTable, node_price, snapshot
from fairway_core.environment import Environment

DAY = datetime.date(2026, 11, 21)
SERVER = {
    "kind": "nfs_server",
    "size": "Standard_D32s_v6",
    "disks": {"count": 4, "gib": 1024, "iops": 5000, "mbps": 500},
    "path": "/data",
}
PAIR = {"engine": "ssh", "size": "Standard_ND96isr_H100_v5", "nodes": 2, "mounts": ["data"]}
SCALES: dict[str, Any] = {**PAIR, "nodes": {"min": 1, "max": 4}}
BASE: dict[str, Any] = {
    "name": "lab",
    "location": "eastus",
    "access": {"ssh_keys": ["ssh-ed25519 AAAA lab"]},
    "filesystems": {"data": SERVER},
    "clusters": {"pair": PAIR},
}


def _parts(**changes: Any) -> list[LineItem]:
    return line_items_of(Environment.model_validate({**BASE, **changes}))


def _prices(**hourly: float) -> PriceTable:
    rows = {("eastus", name): Price(amount, "test", DAY) for name, amount in hourly.items()}
    return PriceTable("USD", rows)


def _hourly(parts: list[LineItem], prices: PriceTable) -> tuple[float | None, ...]:
    return astuple(estimate(parts, prices).hourly)


def _everything(parts: list[LineItem]) -> PriceTable:
    """Returns a price of 1 for every meter."""
    return _prices(**{part.meter: 1.0 for part in parts if part.meter})


def test_cost_at_rest_counts_no_scale_set_nodes_and_minimum_pool_nodes() -> None:
    pool = {"engine": "batch", "size": "Standard_ND96asr_v4", "nodes": {"min": 1, "max": 8}}
    parts = _parts(clusters={**BASE["clusters"], "pool": pool})
    prices = _prices(**{"vm/Standard_ND96isr_H100_v5": 100.0, "vm/Standard_ND96asr_v4": 10.0})
    assert _hourly(parts, prices) == (210.0, 280.0, 10.0)


def test_cost_of_slurm_includes_scheduler_login_and_minimum_nodes() -> None:
    partition = {**SCALES, "engine": "slurm", "os_disk": "managed"}
    parts = _parts(clusters={"nd": partition}, slurm={"disk_gib": 100, "login": {"count": 2}})
    counts = {part.meter: part.counts for part in parts if part.resource == "cluster nd"}
    assert counts["vm/Standard_ND96isr_H100_v5"] == Counts(1, 4, 1)
    assert list(counts.values())[1] == Counts(1, 4, 1), "deleted nodes keep no disk"
    scheduler = [part.meter for part in parts if part.resource == "Slurm scheduler"]
    machine = ["vm/Standard_D4s_v6", "premium/P6"]
    assert scheduler == [*machine, "premium/P10", None, "private_endpoint"]
    for number in range(2):
        name = f"Slurm login node {number}"
        assert [part.meter for part in parts if part.resource == name] == machine


def test_cost_of_kubernetes_includes_api_server_and_system_nodes() -> None:
    pool = {**SCALES, "engine": "kubernetes", "job_image": "train:1"}
    system = {"nodes": {"min": 2, "max": 3}}
    parts = _parts(clusters={"nd": pool}, kubernetes={"system": system})
    found = {part.meter: part for part in parts}
    assert found["kubernetes/Standard"].counts == Counts(1, 1, 1)
    assert found["vm/Standard_D4s_v6"].counts == Counts(2, 3, 2)
    assert not found["vm/Standard_D4s_v6"].cluster, "no job runs there"
    assert found["premium/P10"].counts == Counts(2, 3, 2)
    nodes = [part for part in parts if part.resource == "cluster nd"]
    assert [part.counts for part in nodes] == [Counts(1, 4, 1)], "their disks are on the nodes"
    assert nodes[0].cluster
    free = _parts(clusters={"nd": pool}, kubernetes={"tier": "Free"})
    assert "kubernetes/Free" not in {part.meter for part in free}


def test_cost_covers_every_section_of_the_environment() -> None:
    """A new section must be counted, or listed here as free."""
    free = "name location zone tags protect checks defaults state imports moved naming budget"
    free += " policies resource_group web"  # the page is on the login node
    counted = "access network storage registry vault monitoring filesystems batch slurm kubernetes"
    assert set(Environment.model_fields) == {*free.split(), *counted.split(), "clusters"}


def test_cost_estimate_without_prices_is_unknown_unless_there_are_no_nodes() -> None:
    found = estimate(_parts(), PriceTable())
    assert astuple(found.hourly) == (None, None, None)
    assert found.monthly.maximum is None
    assert found.month_of_days(8) is None
    known, parts = found.known
    assert known == 0
    assert parts > 5
    (line,) = estimate([vms("Standard_HB176rs_v4", Counts(0, 4, 0))], PriceTable()).lines
    assert astuple(line.hourly) == (0.0, None, 0.0)


def test_cost_month_of_days_mixes_maximum_hours_and_rest() -> None:
    found = Estimate("USD", estimate(_parts(), _everything(_parts())).lines)
    hourly = found.hourly
    assert hourly.maximum is not None
    assert hourly.idle is not None
    assert hourly.maximum - hourly.idle == 2.0  # the two nodes
    assert found.month_of_days(24) == pytest.approx(730 * hourly.maximum)
    assert found.month_of_days(0) == pytest.approx(730 * hourly.idle)
    assert found.month_of_days(6) == pytest.approx(730 * (hourly.idle + 2.0 / 4))


def test_cost_of_disk_excludes_included_iops_and_throughput() -> None:
    least = disks("premium_v2", 100, Counts(2, 2, 2), iops=3000, mbps=125)
    assert [(part.meter, part.counts.maximum) for part in least] == [("premium_v2/gib", 200)]
    more = disks("premium_v2", 100, Counts(2, 2, 2), iops=5000, mbps=225)
    assert [(part.meter, part.counts.maximum) for part in more] == [
        ("premium_v2/gib", 200),
        ("premium_v2/iops", 4000),
        ("premium_v2/mbps", 200),
    ]


@pytest.mark.parametrize(
    ("kind", "gib", "named"),
    [
        ("premium", 64, "premium/P6"),
        ("premium", 65, "premium/P10"),
        ("standard_ssd", 1024, "standard_ssd/E30"),
        ("standard_hdd", 8, "standard_hdd/S4"),
        ("premium", 40_000, None),
        ("premium", None, None),
    ],
)
def test_cost_of_disk_uses_the_smallest_tier_that_fits(
    kind: str, gib: int | None, named: str | None
) -> None:
    (part,) = disks(kind, gib)
    assert part.meter == named
    assert bool(part.reason) is (named is None)


def test_cost_excludes_existing_storage_account() -> None:
    account = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/g/providers"
    account += "/Microsoft.Storage/storageAccounts/lake"
    of = "storage account"
    assert [each.what for each in _parts() if each.resource == of] == [of, "private endpoint"]
    assert not [each for each in _parts(storage={"existing": account}) if each.resource == of]
    asked = _parts(storage={"existing": account, "private_endpoint": True})
    assert [each.what for each in asked if each.resource == of] == ["private endpoint"]


def test_cost_includes_network_and_services() -> None:
    parts = _parts(
        access={**BASE["access"], "bastion": True},
        registry={"sku": "Premium"},
        vault={},
        monitoring={"emails": ["a@example.com"]},
    )
    meters = [part.meter for part in parts if part.resource not in ("cluster pair",)]
    assert meters.count("private_endpoint") == 3  # storage, registry, vault
    assert meters.count("public_ip") == 2  # the NAT gateway's and the bastion's
    assert {"nat_gateway", "bastion/Standard", "registry/Premium"} <= set(meters)
    by_use = {part.resource for part in parts if part.by_use}
    assert by_use == {"NAT gateway", "storage account", "vault", "logs", "alerts"}
    assert all(part.reason for part in parts if part.by_use)


NETAPP = {"kind": "netapp", "tib": 4}


def test_cost_parts_count_each_kind_of_file_system() -> None:
    filesystems = {
        **BASE["filesystems"],
        "home": {"kind": "azure_files", "gib": 1024, "path": "/home"},
        "fast": {**NETAPP, "service_level": "Ultra", "path": "/fast"},
        "flex": {**NETAPP, "service_level": "Flexible", "mibps": 200, "path": "/flex"},
        "wide": {"kind": "lustre", "tib": 8, "path": "/wide"},
    }
    found = {part.resource: part for part in _parts(filesystems=filesystems) if part.meter is None}
    assert found["file system wide"].reason
    assert found["file system flex"].reason
    units = {part.meter: part.counts.maximum for part in _parts(filesystems=filesystems)}
    assert units["files/ZRS"] == 1024
    assert units["netapp/Ultra"] == 4096


def test_cost_at_rest_includes_managed_os_disk_of_stopped_node() -> None:
    box = {"engine": "ssh", "size": "Standard_NC24ads_A100_v4", "nodes": 1}
    disks = [
        part
        for part in _parts(clusters={"box": box}, filesystems={})
        if part.resource == "cluster box" and part.meter and part.meter.startswith("premium/")
    ]
    assert [part.counts.idle for part in disks] == [1]
    assert not [
        part for part in _parts() if part.resource == "cluster pair" and "disk" in part.what
    ]


def test_cost_offers_compare_dedicated_with_spot() -> None:
    prices = _prices(**{"vm/Standard_ND96isr_H100_v5": 98.0, "spot/Standard_ND96isr_H100_v5": 30.0})
    (offer,) = offers(_parts(), prices)
    assert (offer.spot, offer.dedicated, offer.spare) == (False, 196.0, 60.0)
    spot = {"pair": {**BASE["clusters"]["pair"], "spot": True}}
    (offer,) = offers(_parts(clusters=spot), prices)
    assert (offer.spot, offer.dedicated, offer.spare) == (True, 196.0, 60.0)
    part = next(part for part in _parts(clusters=spot) if part.cluster)
    assert part.meter == "spot/Standard_ND96isr_H100_v5"


def test_cost_snapshot_prices_have_known_meter_source_and_date() -> None:
    for (region, name), price in snapshot().rows.items():
        assert region
        assert meter(name).fields
        assert price.hourly > 0
        assert "snapshot" in price.source
        assert price.date.year >= 2026
    assert snapshot().price("vm/Standard_ND96isr_H100_v5", "eastus") is not None
    assert snapshot().price("vm/Standard_ND96isr_H100_v5", "westeurope") is None
    assert snapshot().price("nat_gateway", "westeurope") is not None


def test_cost_meters_use_azure_names_and_refuse_others() -> None:
    for size in vm_sizes():
        assert dict(meter(f"vm/{size}").fields)["armSkuName"] == size
    for name in ("gold", "vm", "vm/", "nat_gateway/x"):
        with pytest.raises(KeyError):
            meter(name)
    assert table("meters")["meters"]["date"]


class TestPlanned:
    def test_planned_scale_set_costs_nodes_and_managed_disks(self) -> None:
        attributes = {
            "sku": "Standard_HB176rs_v4",
            "instances": 3,
            "priority": "Spot",
            "os_disk": [{"storage_account_type": "Premium_LRS", "disk_size_gb": 64}],
        }
        found = line_items_of_resource(
            "azurerm_linux_virtual_machine_scale_set", attributes, "eastus"
        )
        assert [(part.meter, part.counts.maximum) for part in found] == [
            ("spot/Standard_HB176rs_v4", 3),
            ("premium/P6", 3),
        ]
        local = {**attributes, "os_disk": [{"diff_disk_settings": [{"option": "Local"}]}]}
        found = line_items_of_resource("azurerm_linux_virtual_machine_scale_set", local, "eastus")
        assert len(found) == 1

    def test_planned_pool_size_is_case_insensitive(self) -> None:
        attributes = {
            "vm_size": "STANDARD_ND96ISR_H100_V5",
            "fixed_scale": [{"target_dedicated_nodes": 4, "target_low_priority_nodes": 0}],
        }
        (part,) = line_items_of_resource("azurerm_batch_pool", attributes, "eastus")
        assert (part.meter, part.counts.maximum) == ("vm/Standard_ND96isr_H100_v5", 4)
        (part,) = line_items_of_resource("azurerm_batch_pool", {"vm_size": "x"}, "eastus")
        assert part.meter is None

    @pytest.mark.parametrize(
        ("type_", "attributes", "named"),
        [
            ("azurerm_nat_gateway", {}, "nat_gateway"),
            ("azurerm_private_endpoint", {}, "private_endpoint"),
            ("azurerm_public_ip", {"sku": "Standard"}, "public_ip"),
            ("azurerm_public_ip", {"sku": "Basic"}, None),
            ("azurerm_bastion_host", {"sku": "Standard"}, "bastion/Standard"),
            ("azurerm_container_registry", {"sku": "Premium"}, "registry/Premium"),
            ("azurerm_netapp_pool", {"size_in_tb": 4, "service_level": "Ultra"}, "netapp/Ultra"),
            ("azurerm_managed_lustre_file_system", {}, None),
            ("azurerm_managed_disk", {}, None),
            ("azurerm_linux_virtual_machine", {"size": None}, None),
            ("azurerm_linux_virtual_machine_scale_set", {"sku": "x"}, None),
        ],
    )
    def test_planned_resource_names_its_meter_or_a_reason(
        self, type_: str, attributes: dict[str, Any], named: str | None
    ) -> None:
        part = line_items_of_resource(type_, attributes, "eastus")[0]
        assert part.meter == named
        assert bool(part.reason) is (named is None)

    def test_planned_lustre_of_another_size_is_a_different_part(self) -> None:
        """An unchanged part is no change of costs, so a review would omit it."""
        type_ = "azurerm_managed_lustre_file_system"
        sizes = ((48, "AMLFS-Durable-Premium-125"), (48, "AMLFS-Durable-Premium-250"), (96, "a"))
        of = [{"storage_capacity_in_tb": tib, "sku_name": level} for tib, level in sizes]
        assert len({line_items_of_resource(type_, each, "eastus")[0].what for each in of}) == len(
            sizes
        )

    def test_planned_free_resource_has_no_part_and_metered_is_by_use(self) -> None:
        assert line_items_of_resource("azurerm_subnet", {}, "eastus") == []
        (part,) = line_items_of_resource("azurerm_storage_account", {}, "eastus")
        assert part.by_use


def test_cost_of_described_size_uses_price_of_its_own_name() -> None:
    rows = {("eastus", "vm/Standard_X_v9"): Price(5.0, "ours", DAY)}
    size = "Standard_X_v9 like Standard_D4s_v6 with vcpus=8"
    assert node_price(PriceTable("USD", rows), size=size, region="eastus") == 5.0
    assert vms(size).what == "1 × Standard_X_v9"
