"""Clusters of engine `ssh`: Spot, images, disks and repair; accepted and refused settings."""

from pathlib import Path

import pytest
from environment_files import KEY, checked, fault, load

from fairway_core.environment import Cluster, Spot
from fairway_core.environment.clusters.node_rules import fits_local_disk
from fairway_core.findings import Finding

H100 = "Standard_ND96isr_H100_v5"
GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/images"
IMAGE = f"{GROUP}/providers/Microsoft.Compute/galleries/ours/images/trained/versions/1.0.0"
PLACED = f"{GROUP}/providers/Microsoft.Compute/proximityPlacementGroups/near"
RESERVED = f"{GROUP}/providers/Microsoft.Compute/capacityReservationGroups/ours"


def _text(more: str, nodes: str = "2", size: str = H100) -> str:
    return (
        f'name: lab\nlocation: westeurope\naccess: {{ssh_keys: ["{KEY}"]}}\n'
        "filesystems: {data: {kind: nfs_server, path: /data}}\n"
        f"clusters:\n  pair: {{engine: ssh, size: {size}, nodes: {nodes}, mounts: [data]{more}}}\n"
    )


def _cluster(tmp_path: Path, more: str, nodes: str = "2", size: str = H100) -> Cluster:
    cluster = load(tmp_path, _text(more, nodes, size)).clusters["pair"]
    assert isinstance(cluster, Cluster)
    return cluster


def test_cluster_settings_are_read_from_its_section(tmp_path: Path) -> None:
    usual = _cluster(tmp_path, "")
    assert (usual.spot, usual.spot_options, usual.repair) == (False, None, None)
    assert _cluster(tmp_path, ", spot: true").spot_options == Spot()
    more = ", spot: {eviction: deallocate, restore: 1h, max_price: 12.5}"
    spot = _cluster(tmp_path, more).spot_options
    assert spot is not None
    assert (spot.eviction, spot.restore, spot.max_price) == ("deallocate", 3600, 12.5)
    repair = _cluster(tmp_path, ", repair: {}").repair
    assert repair is not None
    assert (repair.action, repair.grace) == ("replace", 1800)
    own = _cluster(tmp_path, f", image: almalinux-hpc-8, image_id: {IMAGE}")
    assert (own.image_id, own.chosen_image.nfs_client_package) == (IMAGE, "nfs-utils")
    urn = _cluster(tmp_path, ", image: 'microsoft-dsvm:ubuntu-hpc:2404:24.4.1'")
    assert urn.chosen_image.version == "24.4.1"
    placed = _cluster(tmp_path, f", proximity_placement_group: {PLACED}")
    assert placed.proximity_placement_group == PLACED


def test_cluster_image_id_with_version_avoids_floating_image_warning(tmp_path: Path) -> None:
    def floating(more: str) -> bool:
        found = checked(tmp_path, _text(f", image: almalinux-hpc-9{more}"))
        return "floating-image" in {finding.id for finding in found}

    assert floating("")
    assert not floating(f", image_id: {IMAGE}")


def test_cluster_local_disk_must_fit_the_operating_system() -> None:
    assert fits_local_disk(H100, 128)
    assert not fits_local_disk(H100, 1024)
    assert not fits_local_disk("Standard_NC24ads_A100_v4", 128)
    assert not fits_local_disk("Standard_ND96is_H100_v5", 1)


def _fault(tmp_path: Path, more: str, nodes: str = "2", size: str = H100) -> Finding:
    return fault(tmp_path, _text(f", {more}" if more else "", nodes, size))


A100, BOX = "Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5"
TAKEN = f"capacity_reservation: {RESERVED}"
NO_CAPACITY = f"Azure reserves no capacity of {H100}"


@pytest.mark.parametrize(
    ("more", "nodes", "size", "path", "said"),
    [
        (TAKEN, "1", H100, "capacity_reservation", NO_CAPACITY),
        (f"{TAKEN}, spot: true", "1", A100, "capacity_reservation", "Spot capacity cannot be"),
        ("spot: {restore: 1h}", "1", BOX, "spot.restore", "single VM"),
        ("", "{min: 0, max: 4}", H100, "nodes", "nothing resizes"),
        ("os_disk: local", "1", A100, "os_disk", ""),
    ],
)
def test_cluster_settings_that_are_impossible_are_refused(
    tmp_path: Path, more: str, nodes: str, size: str, path: str, said: str
) -> None:
    finding = _fault(tmp_path, more, nodes, size)
    assert finding.path == f"clusters.pair.{path}"
    assert said in finding.message
    assert path != "nodes" or "engine: batch" in finding.hint
