"""The catalogue: every row is complete, sourced and consistent, and failed look-ups suggest
names."""

import datetime
import hashlib
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from fairway_core.catalog import (
    default_image,
    fabric_for,
    fabrics,
    image,
    images,
    limit,
    reserved_ranges,
    sizes,
    vm_size,
    vm_sizes,
)
from fairway_core.catalog.fabrics import topologies
from fairway_core.catalog.images import has_image
from fairway_core.catalog.limits import limits
from fairway_core.catalog.tables import table
from fairway_core.findings import UserError

SIZES = list(vm_sizes().values())
OFFERED = [size for size in SIZES if size.status not in ("retired", "unsupported")]


def test_catalog_rows_have_source_and_date() -> None:
    rows: list[Any] = [*SIZES, *images().values(), *fabrics().values(), *limits().values()]
    rows += topologies().values()
    for row in rows:
        assert row.source, row
        assert datetime.date(2020, 1, 1) < row.date < datetime.date(2100, 1, 1), row
    assert table("names")["names"]["source"]
    assert table("names")["names"]["date"]


def test_catalog_sizes_are_consistent() -> None:
    for size in SIZES:
        assert size.name.startswith("Standard_"), size
        assert 0 < size.cores <= size.vcpus, size
        assert size.memory_gib > 0, size
        assert size.processes_per_node >= 1, size
        assert not size.gpu or len(size.gpu_numa) in (0, size.gpu.count), size
        assert not size.numa_domains or size.cores % size.numa_domains == 0, size
        assert not size.ephemeral_os or size.temp_disk_gib > 0, size
        fabric_for(size)


def test_catalog_sizes_that_are_not_current_name_an_available_successor() -> None:
    for size in SIZES:
        if size.status == "current":
            assert size.retirement_date is None, size
            continue
        successor = vm_size(size.successor)
        assert successor.status in ("current", "no-new-capacity"), size
        assert successor.rdma or not size.infiniband, "who had InfiniBand must not lose it"


def test_catalog_rdma_variant_has_infiniband_and_the_same_gpu() -> None:
    for size in SIZES:
        if size.rdma_variant:
            variant = vm_size(size.rdma_variant)
            assert size.infiniband is None, size
            assert variant.infiniband is not None, size
            assert variant.gpu == size.gpu, size


def test_catalog_offered_sizes_have_an_image_or_name_the_required_driver() -> None:
    base = image("ubuntu-hpc-2404")
    for size in OFFERED:
        if has_image(size):
            assert default_image(size).fits(size), size
            continue
        with pytest.raises(UserError, match=r"GRID driver|driver for Radeon PRO") as raised:
            default_image(size)
        assert "image_id" in raised.value.findings[0].hint
        assert base.fits(size, own=True), size
        assert not base.fits(size), size


@pytest.mark.parametrize(
    ("name", "size", "own", "fits"),
    [
        ("ubuntu-hpc-2404", "ND96isr_H100_v5", False, True),
        ("ubuntu-hpc-2404", "ND96isr_MI300X_v5", False, False),
        # A custom image keeps its base's drivers; only a missing driver is added.
        ("ubuntu-hpc-2404", "ND96isr_MI300X_v5", True, False),
        ("ubuntu-hpc-2404", "ND40rs_v2", False, False),
        ("ubuntu-hpc-2404", "ND128isr_GB300_v6", False, False),
        ("ubuntu-2404", "ND96isr_H100_v5", False, False),
        ("ubuntu-hpc-2404-gb", "NC128ds_xl_RTXPRO6000BSE_v6", True, False),  # for Arm
    ],
)
def test_catalog_images_fit_by_device_and_architecture(
    name: str, size: str, own: bool, fits: bool
) -> None:
    assert image(name).fits(vm_size(f"Standard_{size}"), own=own) is fits


def test_catalog_retired_size_has_no_image() -> None:
    with pytest.raises(UserError, match="no image in the catalogue fits Standard_NC6"):
        default_image(vm_size("Standard_NC6"))


def test_catalog_unsupported_sizes_give_a_reason() -> None:
    refused = [size for size in SIZES if size.status == "unsupported"]
    assert [size.name for size in refused] == ["Standard_NCC40ads_H100_v5"]
    assert all(size.unsupported for size in refused)
    assert not [size for size in SIZES if size.unsupported and size not in refused]


def test_catalog_retiring_images_have_lasting_successor_for_same_sizes() -> None:
    for row in images().values():
        old_system = "22.04" in row.node_agent
        assert (row.retirement_date is not None) == old_system, row.alias
        if row.retirement_date:
            later = images()[row.successor]
            assert later.retirement_date is None
            assert set(row.families) <= set(later.families)


@pytest.mark.parametrize("row", images().values(), ids=lambda row: row.alias)
def test_catalog_images_are_pinned_or_state_that_no_version_was_found(row: Any) -> None:
    assert row.pinned != (row.version_source == "no published version found")
    assert row.urn.count(":") == 3
    assert (row.plan is None) == (row.publisher != "almalinux")
    assert row.node_agent.startswith("batch.node.")


@pytest.mark.parametrize("name", ["ubuntu-hpc-2405", "a:b:c:d", "microsoft-dsvm:ubuntu-hpc:2404:"])
def test_catalog_unknown_image_suggests_known_images(name: str) -> None:
    with pytest.raises(UserError, match="unknown image") as caught:
        image(name)
    assert "ubuntu-hpc" in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Standard_ND96isr_H100_V5", "Standard_ND96isr_H100_v5"),
        ("ND96isr_H100_v5", "Standard_ND96isr_H100_v5"),
        ("Standard_HB176rs_v5", "Standard_HB176rs_v4"),
        ("Standard_H100", "Standard_ND96is_H100_v5"),
    ],
)
def test_catalog_unknown_size_suggests_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UserError) as caught:
        vm_size(wrong)
    assert caught.value.exit_code == 2
    assert caught.value.findings[0].hint == f"did you mean `{right}`?"


def test_catalog_size_retires_on_its_retirement_date() -> None:
    size = vm_size("Standard_HC44rs")
    assert not size.is_retired(datetime.date(2027, 5, 30))
    assert size.is_retired(datetime.date(2027, 5, 31))
    assert vm_size("Standard_H16r").is_retired(datetime.date(2020, 1, 1)), "no date, but retired"
    assert not vm_size("Standard_ND96isr_H100_v5").is_retired(datetime.date(2090, 1, 1))


def test_catalog_fabric_never_disables_infiniband_of_a_size_that_has_it() -> None:
    for size in SIZES:
        if size.rdma and size.status != "retired":
            assert "NCCL_IB_DISABLE" not in fabric_for(size).environment, size.name
    # InfiniBand without SR-IOV cannot be used by MPI.
    assert vm_size("Standard_NC24r").infiniband is not None
    assert not vm_size("Standard_NC24r").rdma
    assert vm_size("Standard_ND96asr_v4").rdma
    assert not vm_size("Standard_ND96is_H100_v5").rdma


def test_catalog_mpirun_arguments_fill_every_placeholder() -> None:
    size = vm_size("Standard_HB120rs_v3")
    for fabric in fabrics().values():
        for mpi in fabric.mpirun:
            arguments = fabric.mpirun_arguments(mpi, processes_per_node=4, size=size)
            assert arguments
            assert not any("{" in argument for argument in arguments)
    size = vm_size("Standard_ND96asr_v4")
    assert fabric_for(size).mpirun_arguments("mpich", processes_per_node=8, size=size) == ()


@pytest.mark.parametrize(
    ("name", "parent", "cores"),
    [
        ("Standard_HB368-48rs_v5", "Standard_HB368rs_v5", 48),
        ("Standard_HB176-96rs_v4", "Standard_HB176rs_v4", 96),
        ("Standard_HX176-24rs", "Standard_HX176rs", 24),
        ("Standard_HC44-16rs", "Standard_HC44rs", 16),
    ],
)
def test_catalog_constrained_size_shares_hardware_of_its_parent(
    name: str, parent: str, cores: int
) -> None:
    size, whole = vm_size(name), vm_size(parent)
    assert (size.vcpus, size.cores, size.constrained_from) == (cores, cores, parent)
    assert size.quota_vcpus == whole.vcpus
    assert (size.infiniband, size.numa_domains) == (whole.infiniband, whole.numa_domains)
    placed = fabric_for(size).mpirun_arguments("hpcx", processes_per_node=cores, size=size)
    assert f"ppr:{cores // (size.numa_domains or 1)}:numa:pe=1" in placed


def test_catalog_limits_and_ranges_are_known_and_rows_are_immutable() -> None:
    assert limit("placement_group_vms") == 100
    assert [str(network) for network in reserved_ranges("infiniband")] == ["172.16.0.0/16"]
    with pytest.raises(UserError, match="unknown limit"):
        limit("placement_group")
    with pytest.raises(TypeError):
        vm_sizes()["Standard_X"] = SIZES[0]  # type: ignore[index]
    with pytest.raises(AttributeError):
        SIZES[0].vcpus = 1  # type: ignore[misc]


def test_catalog_size_is_equal_when_loaded_without_other_series() -> None:
    alone = {size.name: sizes._rows_beside(size.name) for size in SIZES}
    own = {name for name, rows in alone.items() if rows}
    assert own >= {size.name for size in OFFERED if not size.constrained_from}
    assert all(alone[name][name] == sizes._rows()[name] for name in own)


class TestTopology:
    """Files that describe the devices of a node to NCCL."""

    # NVIDIA/nccl 5067397, src/graph/xml.cc: one space or the end of the element follows each value;
    # no XML declaration, and no longer values.
    ELEMENT = re.compile(r' *<[a-z]+( [a-z_]+="[^"<>]{0,253}")+/?>| *</[a-z]+>')
    # Digests of Azure's own files, in azhpc-images at 8e9d055f: all elements and attributes except
    # ids of 0x0000.
    AZURE = (
        ("ndv2", "6a2a8084e6b228f5f7bbd342e4b99190d1e1c0525b36373015ffd2c243c0e725"),
        ("ndv4", "65f961ff39ac7d9e1a9b8d558984ef455f6222e8b9f20e8f3253115cd03ad52a"),
        ("ndv5", "a28be16a9f5f5aba4bfc831990964316e73e33a7e94f9bd57ccc7a576534951d"),
    )

    @classmethod
    def said(cls, element: ET.Element) -> list[Any]:
        """Returns an element's name, its sorted attributes and its child elements."""
        known = sorted(each for each in element.items() if each[1] != "0x0000")
        return [element.tag, known, [cls.said(each) for each in element]]

    @pytest.mark.parametrize(("name", "digest"), AZURE)
    def test_topology_file_equals_azure_file_in_content(self, name: str, digest: str) -> None:
        root = ET.fromstring(topologies()[f"/opt/microsoft/{name}/topo.xml"].xml())
        found = hashlib.sha256(repr(self.said(root)).encode()).hexdigest()
        assert found == digest

    @pytest.mark.parametrize("path", topologies())
    def test_topology_file_is_readable_by_nccl(self, path: str) -> None:
        text = topologies()[path].xml()
        for line in text.splitlines():
            assert self.ELEMENT.fullmatch(line), line
        root = ET.fromstring(text)
        assert (root.tag, root.get("version")) == ("system", "1")
        assert {each.tag for each in root} == {"cpu"}
        for cpu in root:
            assert {"numaid", "affinity", "arch", "vendor", "familyid", "modelid"} <= {*cpu.keys()}
        for device in root.iter("pci"):
            assert {"busid", "class", "link_speed", "link_width"} <= {*device.keys()}
            bus = device.get("busid", "")
            assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", bus)
        buses = [each.get("busid") for each in root.iter("pci")]
        assert len({*buses}) == len(buses)

    def test_topology_devices_match_numa_domains_of_each_size(self) -> None:
        told = 0
        for size in SIZES:
            topology = fabric_for(size).topology
            if topology is None:
                continue
            told += 1
            root = ET.fromstring(topology.xml())
            assert size.gpu
            assert len(root) == (size.numa_domains or len(root)), size.name
            assert topology.cores * len(root) == size.vcpus, size.name
            # In order of bus ids, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
            gpus = {
                device.get("busid", ""): int(cpu.get("numaid", ""))
                for cpu in root
                for device in cpu.iter("pci")
                if device.get("class") == "0x030200"
            }
            nodes = tuple(gpus[bus] for bus in sorted(gpus))
            assert nodes == (size.gpu_numa or nodes), size.name
            assert len(nodes) == size.gpu.count
            adapters = [each for each in root.iter("pci") if each.get("class") == "0x020700"]
            assert size.infiniband is None or len(adapters) == size.infiniband.adapters
        assert told >= 6

    def test_topology_exists_for_each_fabric_with_a_topology_file(self) -> None:
        """Except NC A100 v4, whose file is of another kind and whose sizes have no InfiniBand."""
        lacking = {
            name
            for name, fabric in fabrics().items()
            if "NCCL_TOPO_FILE" in fabric.environment and fabric.topology is None
        }
        assert lacking == {"nc-a100-v4", "nc-a100-v4-four"}
        assert not [size.name for size in SIZES if size.fabric in lacking and size.rdma]
        named = {fabric.environment.get("NCCL_TOPO_FILE") for fabric in fabrics().values()}
        assert {*topologies()} <= named
