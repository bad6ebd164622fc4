"""Clusters of engine `ssh`: Spot, images, disks and repair; what fits and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.checks import check_environment
from fairway_core.environment import Cluster, Environment, Spot, load_environment, read_environment
from fairway_core.environment.node_rules import fits_local_disk
from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
H100 = "Standard_ND96isr_H100_v5"
GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/images"
IMAGE = f"{GROUP}/providers/Microsoft.Compute/galleries/ours/images/trained/versions/1.0.0"
PLACED = f"{GROUP}/providers/Microsoft.Compute/proximityPlacementGroups/near"
RESERVED = f"{GROUP}/providers/Microsoft.Compute/capacityReservationGroups/ours"


def _load(tmp_path: Path, more: str, nodes: str = "2", size: str = H100) -> Environment:
    file = tmp_path / "lab.yaml"
    file.write_text(
        f'name: lab\nlocation: westeurope\naccess: {{ssh_keys: ["{KEY}"]}}\n'
        "filesystems: {data: {kind: nfs_server, path: /data}}\n"
        f"clusters:\n  pair: {{engine: ssh, size: {size}, nodes: {nodes}, mounts: [data]{more}}}\n"
    )
    return load_environment(file)


def _cluster(tmp_path: Path, more: str, nodes: str = "2", size: str = H100) -> Cluster:
    cluster = _load(tmp_path, more, nodes, size).clusters["pair"]
    assert isinstance(cluster, Cluster)
    return cluster


def test_nodes_are_dedicated_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, "")
    assert cluster.spot is False
    assert cluster.spot_options is None
    assert cluster.repair is None


def test_spot_is_said_in_one_word_or_in_detail(tmp_path: Path) -> None:
    assert _cluster(tmp_path, ", spot: true").spot_options == Spot()
    more = ", spot: {eviction: deallocate, restore: 1h, max_price: 12.5}"
    spot = _cluster(tmp_path, more).spot_options
    assert spot is not None
    assert (spot.eviction, spot.restore, spot.max_price) == ("deallocate", 3600, 12.5)


def test_repair_waits_half_an_hour(tmp_path: Path) -> None:
    repair = _cluster(tmp_path, ", repair: {}").repair
    assert repair is not None
    assert (repair.action, repair.grace) == ("replace", 1800)


def test_an_image_of_ones_own_has_the_properties_of_what_it_was_made_from(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, f", image: almalinux-hpc-8, image_id: {IMAGE}")
    assert cluster.image_id == IMAGE
    assert cluster.chosen_image.nfs_client_package == "nfs-utils"


def test_the_version_of_ones_own_image_is_the_one_that_counts(tmp_path: Path) -> None:
    def floating(more: str) -> bool:
        _load(tmp_path, f", image: almalinux-hpc-9{more}")
        loaded = read_environment(tmp_path / "lab.yaml")
        found = check_environment(loaded.environment, loaded.document)
        return "floating-image" in {finding.id for finding in found}

    assert floating("")
    assert not floating(f", image_id: {IMAGE}")


def test_an_image_known_by_its_urn_may_have_another_version(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, ", image: 'microsoft-dsvm:ubuntu-hpc:2404:24.4.1'")
    assert cluster.chosen_image.version == "24.4.1"


def test_a_placement_group_is_named_by_its_id(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, f", proximity_placement_group: {PLACED}")
    assert cluster.proximity_placement_group == PLACED


def test_the_local_disk_must_hold_the_system() -> None:
    assert fits_local_disk(H100, 128)
    assert not fits_local_disk(H100, 1024)
    assert not fits_local_disk("Standard_NC24ads_A100_v4", 128)
    assert not fits_local_disk("Standard_ND96is_H100_v5", 1)


def _fault(tmp_path: Path, more: str, nodes: str = "2", size: str = H100) -> Finding:
    with pytest.raises(UserError) as caught:
        _load(tmp_path, f", {more}" if more else "", nodes, size)
    (finding,) = caught.value.findings
    return finding


@pytest.mark.parametrize(
    ("more", "size", "said"),
    [
        ("", "Standard_ND96isr_H100_v5", "Azure reserves no capacity of Standard_ND96isr_H100_v5"),
        (", spot: true", "Standard_NC24ads_A100_v4", "Spot capacity cannot be reserved"),
    ],
)
def test_capacity_that_cannot_be_reserved_is_refused(
    tmp_path: Path, more: str, size: str, said: str
) -> None:
    finding = _fault(tmp_path, f"capacity_reservation: {RESERVED}{more}", "1", size)
    assert finding.path == "clusters.pair.capacity_reservation"
    assert said in finding.message


@pytest.mark.parametrize(
    ("more", "path"), [("repair: {}", "repair"), ("spot: {restore: 1h}", "spot.restore")]
)
def test_cluster_settings_of_scale_sets_are_refused_for_a_single_vm(
    tmp_path: Path, more: str, path: str
) -> None:
    finding = _fault(tmp_path, more, "1", "Standard_NC40ads_H100_v5")
    assert finding.path == f"clusters.pair.{path}"
    assert "single VM" in finding.message


def test_a_range_is_refused_where_nothing_resizes(tmp_path: Path) -> None:
    finding = _fault(tmp_path, "", "{min: 0, max: 4}")
    assert finding.path == "clusters.pair.nodes"
    assert "nothing resizes" in finding.message
    assert "engine: batch" in finding.hint


def test_a_vm_without_a_local_disk_cannot_have_its_system_there(tmp_path: Path) -> None:
    finding = _fault(tmp_path, "os_disk: local", "1", "Standard_NC24ads_A100_v4")
    assert finding.path == "clusters.pair.os_disk"
