"""File systems: their throughput limits, requirements, and private endpoints."""

import sys
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY, fault, load
from programs import finished
from pydantic import TypeAdapter

from fairway_core.catalog.disks import disk_kinds
from fairway_core.catalog.limits import lustre_addresses
from fairway_core.catalog.terraform_types import private_link, private_links
from fairway_core.environment import AnyFileSystem
from fairway_core.environment.filesystems.home_directories import (
    HomeDirectories,
    home_directories,
    home_filesystem,
)
from fairway_core.environment.filesystems.rules import (
    dedicated_subnets,
    scheduler_mounts,
    uses_nfs3,
)
from fairway_core.findings import Finding, UserError

PRINCIPAL = "11111111-2222-3333-4444-555555555555"
LUSTRE = f"kind: lustre, tib: 48, path: /lustre, import: datasets, service_principal: {PRINCIPAL}"
OTHER = "kind: netapp, path: /x"
PAIR = "{engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}"


def _text(filesystem: str, cluster: str = PAIR, more: str = "") -> str:
    return (
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n"
        f"filesystems:\n  data: {{{filesystem}}}\nclusters:\n  pair: {cluster}\n{more}"
    )


def _fault(folder: Path, text: str) -> Finding:
    finding = fault(folder, text)
    assert finding.location is not None
    return finding


def _filesystem(**values: Any) -> Any:
    return TypeAdapter(AnyFileSystem).validate_python({"path": "/data", **values})


SERVER: dict[str, Any] = {"kind": "nfs_server"}
ULTRA = {"kind": "ultra", "count": 1, "iops": 40000, "mbps": 10000}
WIDE = {"count": 8, "iops": 20000, "mbps": 1200}


@pytest.mark.parametrize(
    ("values", "mbps", "limit"),
    [
        ({**SERVER, "disks": {"kind": "premium", "count": 8, "gib": 1024}}, 848, "the disk limit"),
        ({**SERVER, "disks": {"kind": "standard_ssd", "count": 2, "gib": 4096}}, 120, "its disks"),
        ({**SERVER, "size": "Standard_D64s_v6", "disks": ULTRA}, 3750, "its network interface"),
        ({**SERVER, "size": "Standard_D64s_v6", "disks": {"count": 4}}, 500, "its disks"),
        ({**SERVER, "size": "Standard_D16s_v6", "disks": {**WIDE, "count": 9}}, 992, "the disk"),
        # Sizes of several generations.
        ({**SERVER, "size": "Standard_D32s_v7", "disks": WIDE}, 2160, "the disk limit"),
        ({**SERVER, "size": "Standard_D32as_v6", "disks": WIDE}, 1440, "the disk limit"),
        ({**SERVER, "size": "Standard_E32bs_v5", "disks": WIDE}, 2000, "its network interface"),
        ({**SERVER, "size": "Standard_L32s_v4", "disks": WIDE}, 1984, "the disk limit"),
        # 100 + 0.04 and 0.06 MiB/s per GiB, each rounded up: 203 and 10,340 MiB/s.
        ({"kind": "azure_files", "gib": 1024}, 212, "its size"),
        ({"kind": "azure_files", "gib": 102400}, 10842, "its size"),
        ({"kind": "netapp", "service_level": "Premium", "tib": 4}, 268, "its service level"),
        ({"kind": "netapp", "service_level": "Ultra", "tib": 100}, 4718, "one NetApp volume"),
        ({"kind": "netapp", "service_level": "Flexible", "mibps": 1000}, 1048, "its service"),
        ({"kind": "lustre", "tib": 48, "mbps_per_tib": 500}, 24000, "its size"),
        ({"kind": "lustre", "tib": 48, "mbps_per_tib": 40}, 1920, "its size"),
        ({"kind": "blobfuse", "container": "datasets"}, 6250, "its storage account"),
    ],
)
def test_file_system_throughput_is_the_lowest_limit(
    values: dict[str, Any], mbps: int, limit: str
) -> None:
    filesystem = _filesystem(**values)
    assert filesystem.throughput_mbps == mbps
    assert filesystem.limited_by.startswith(limit)


@pytest.mark.parametrize("gib", [4, 33, 1024, 1025, 4096, 32767])
@pytest.mark.parametrize("kind", ["premium", "standard_ssd"])
def test_disk_tiers_are_never_slower_when_larger(kind: str, gib: int) -> None:
    tiers = disk_kinds()[kind].tiers
    assert list(tiers) == sorted(tiers, key=lambda tier: (tier.gib, tier.iops, tier.mbps))
    assert disk_kinds()[kind].tier(gib).gib >= gib


# Adds a row of disks.toml before the first module reads the table.
NEW_KIND = """
from fairway_core.catalog import disks
table = disks.table
def with_another(name):
    rows = table(name)
    like = {**rows["disk"]["premium"], "sku": "Cold_LRS", "letter": "C", "zonal": True}
    return {"disk": {**rows["disk"], "cold": like}}
disks.table = with_another
from pathlib import Path
from fairway_core.checks import check_environment
from fairway_core.cost.environment import line_items_of
from fairway_core.environment import load_environment
environment = load_environment(Path("lab.yaml"))
disks = environment.filesystems["data"].disks
print(disks.disk_iops, *(each.id for each in check_environment(environment)))
print(*(part.meter for part in line_items_of(environment) if "cold" in (part.meter or "")))
"""


def test_disk_kind_is_added_by_a_table_row(tmp_path: Path) -> None:
    disks = "kind: nfs_server, path: /data, disks: {kind: cold, count: 2, gib: 1024}"
    (tmp_path / "lab.yaml").write_text("zone: none\n" + _text(disks))
    command = [sys.executable, "-c", NEW_KIND]
    done = finished(command, cwd=tmp_path, check=True)
    checked, meters = done.stdout.splitlines()
    assert checked.split()[0] == "5000"
    assert "disks-need-a-zone" in checked
    assert meters == "cold/C30"


def test_lustre_addresses_grow_with_size() -> None:
    assert [lustre_addresses(tib) for tib in (4, 16, 20, 96, 768)] == [32, 32, 64, 256, 1024]


KEYS = "storage: {account_keys: true}\n"
LOGS = "storage: {account_keys: true, containers: {datasets: {}, lustre-data-logs: {}}}\n"
SMALL = "kind: lustre, tib: 8, path: /d"
BOX = "{engine: ssh, size: Standard_D16s_v6, nodes: 1, image: ubuntu-2404, mounts: [data]}"
NEAR = "network: {address_space: 10.0.0.0/20}\n"


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        # Keys are turned on by the user alone, and only where something needs them.
        (_text(LUSTRE), "filesystems.data.import", "account_keys: true"),
        (_text(SMALL, more=KEYS), "storage.account_keys", ""),
        (_text(LUSTRE.replace("sets", "set"), more=KEYS), "filesystems.data.import", "`datasets`?"),
        (_text(LUSTRE, more=LOGS), "storage.containers.lustre-data-logs", "logs its imports"),
        (_text(SMALL, BOX), "clusters.pair.mounts.0", "no Lustre client"),
    ],
)
def test_file_system_with_impossible_settings_is_refused(
    tmp_path: Path, text: str, path: str, said: str
) -> None:
    finding = _fault(tmp_path, text)
    assert finding.path == path
    assert said in f"{finding.message} {finding.hint}"


def test_file_system_with_possible_settings_is_accepted(tmp_path: Path) -> None:
    assert load(tmp_path, _text(LUSTRE, more=KEYS)).filesystems["data"].import_ == "datasets"
    share = load(tmp_path, _text("kind: azure_files, path: /home"))
    assert share.filesystems["data"].path == "/home"
    load(tmp_path, _text("kind: lustre, tib: 48, path: /d", more=NEAR))


class TestNetwork:
    @pytest.mark.parametrize("kind", ["lustre", "netapp"])
    def test_file_system_in_existing_network_needs_its_subnet(
        self, tmp_path: Path, kind: str
    ) -> None:
        subnet = (
            "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/net/providers"
            "/Microsoft.Network/virtualNetworks/hub/subnets/"
        )
        subnets = f"compute: {{id: {subnet}compute, range: 10.1.0.0/20}}"
        more = "network: {private_endpoints: false, existing: {subnets: {%s}}}\n"
        text = f"kind: {kind}, tib: 8, path: /d"
        finding = _fault(tmp_path, _text(text, more=more % subnets))
        assert (finding.path, finding.hint) == ("network.existing.subnets", f"add `{kind}:`")
        subnets += f", {kind}: {{id: {subnet}{kind}, range: 10.1.16.0/24}}"
        assert load(tmp_path, _text(text, more=more % subnets)).network.existing

    def test_file_system_requires_subnet_or_nfs_3_ports_only_if_used(self, tmp_path: Path) -> None:
        server = load(tmp_path, _text("kind: nfs_server, path: /d")).filesystems
        assert dedicated_subnets(server) == frozenset()
        assert not uses_nfs3(server)
        assert uses_nfs3(
            load(tmp_path, _text("kind: nfs_server, path: /d, versions: [4.1, 3]")).filesystems
        )
        volume = load(tmp_path, _text("kind: netapp, path: /d")).filesystems
        assert dedicated_subnets(volume) == {"netapp"}


def test_file_system_newest_nfs_version_is_used() -> None:
    assert _filesystem(kind="nfs_server", versions=(3, 4.1)).newest_version == 4.1
    assert _filesystem(kind="nfs_server", versions=(3,)).newest_version == 3


class TestBlobs:
    SETS = "kind: blobfuse, container: datasets, path: /datasets"
    HOME = "  home: {kind: azure_files, path: /shared}\n"

    def _text(self, blobs: str = SETS, *, engine: str = "ssh", more: str = "", **given: str) -> str:
        """Returns an environment with `home`, blobs as `data`, and a cluster that mounts both."""
        settings = {
            "engine": engine,
            "size": "Standard_ND96isr_H100_v5",
            "nodes": "2" if engine == "ssh" else "{min: 0, max: 2}",
            "mounts": "[home, data]",
            **given,
        }
        cluster = ", ".join(f"{key}: {value}" for key, value in settings.items())
        text = _text(blobs, f"{{{cluster}}}", more)
        return text.replace("filesystems:\n", f"filesystems:\n{self.HOME}")

    @pytest.mark.parametrize("engine", ["ssh", "slurm", "batch"])
    def test_blobfuse_container_is_mounted_beside_a_file_system(
        self, tmp_path: Path, engine: str
    ) -> None:
        blobs = load(tmp_path, self._text(engine=engine)).filesystems["data"]
        assert (blobs.container, blobs.read_only) == ("datasets", True)

    def test_blobfuse_on_a_single_machine_needs_no_other_file_system(self, tmp_path: Path) -> None:
        environment = load(tmp_path, self._text(nodes="1", mounts="[data]"))
        assert (
            home_directories(environment.filesystems, environment.clusters, ["data"])
            == HomeDirectories()
        )

    def test_blobfuse_is_not_mounted_by_the_slurm_scheduler(self, tmp_path: Path) -> None:
        environment = load(tmp_path, self._text(engine="slurm"))
        assert list(scheduler_mounts(environment.filesystems, environment.clusters)) == ["home"]

    @pytest.mark.parametrize(
        ("given", "path", "message"),
        [
            ({"blobs": SETS.replace("datasets,", "dataset,")}, "filesystems.data.container", "no "),
            (
                {"more": "network: {egress: none}\n"},
                "filesystems.data",
                "nodes install blobfuse2 from the internet",
            ),
            ({"mounts": "[data, home]"}, "clusters.pair.mounts.0", "blobs have no locks"),
            (
                {"engine": "kubernetes", "job_image": "python:3.12"},
                "clusters.pair.mounts.1",
                "nodes of Kubernetes cannot mount a container",
            ),
            (
                {"image": "almalinux-hpc-8", "size": "Standard_ND96amsr_A100_v4"},
                "clusters.pair.mounts.1",
                "blobfuse2 is installed on Ubuntu alone",
            ),
        ],
    )
    def test_blobfuse_refuses_clusters_that_cannot_mount_it(
        self, tmp_path: Path, given: dict[str, str], path: str, message: str
    ) -> None:
        finding = _fault(tmp_path, self._text(**given))
        assert finding.path == path
        assert message in finding.message
        assert finding.hint

    def test_blobfuse_is_refused_as_home(self, tmp_path: Path) -> None:
        text = _text(self.SETS.replace("/datasets", "/home"))
        assert "cannot be the home directories" in _fault(tmp_path, text).message

    def test_blobfuse_is_no_home_even_as_only_common_file_system(self, tmp_path: Path) -> None:
        part = "{engine: slurm, size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 2}"
        text = self._text(engine="slurm").replace(self.HOME, f"{self.HOME}  x: {{{OTHER}}}\n")
        environment = load(tmp_path, f"{text}  other: {part}, mounts: [x, data]}}\n")
        assert home_filesystem(environment.filesystems, environment.clusters) is None


def test_private_links_of_every_service_have_an_azure_zone() -> None:
    for name, link in private_links().items():
        assert link.zone.startswith("privatelink."), name
        assert link.subresource.isalpha(), name
    assert private_link("batch").zone == private_link("batch_node_management").zone
    assert private_link("batch") != private_link("batch_node_management")
    with pytest.raises(UserError, match="unknown private link service `registri`") as caught:
        private_link("registri")
    assert "registry" in caught.value.findings[0].hint
