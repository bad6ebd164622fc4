"""Clusters of engine `slurm` and their scheduler: accepted and refused settings."""

import os
from pathlib import Path

import pytest
from endings import refused
from environment_files import KEY, load

from fairway_core.checks import check_environment
from fairway_core.environment import Environment, Slurm, SlurmNodes
from fairway_core.findings import UserError

ND = "{engine: slurm, size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 4}, mounts: [data]}"


def _load(
    tmp_path: Path,
    cluster: str = ND,
    more: str = "",
    name: str = "nd",
    files: str = "nfs_server",
) -> Environment:
    return load(
        tmp_path,
        f'name: lab\nlocation: westeurope\naccess: {{ssh_keys: ["{KEY}"], bastion: true}}\n{more}'
        f"filesystems: {{data: {{kind: {files}, path: /data}}}}\n"
        f"clusters:\n  {name}: {cluster}\n",
    )


def _nodes(text: str) -> str:
    return ND.replace("nodes: {min: 0, max: 4}", text)


def test_slurm_partition_has_a_default_scheduler(tmp_path: Path) -> None:
    environment = _load(tmp_path)
    assert environment.scheduler == Slurm()
    nodes = environment.clusters["nd"]
    assert isinstance(nodes, SlurmNodes)
    assert (nodes.node_range.min, nodes.node_range.max, nodes.nodes_of_a_job) == (0, 4, 4)
    nodes = _load(tmp_path, _nodes("nodes: 3")).clusters["nd"]
    assert (nodes.node_range.min, nodes.node_range.max) == (3, 3)
    text = "slurm: {scheduler_size: Standard_D8s_v6, accounting: false, idle: 5m, disk_gib: 128}\n"
    spec = _load(tmp_path, more=text).scheduler
    assert spec is not None
    described = (spec.scheduler_size, spec.accounting, spec.idle, spec.disk_gib)
    assert described == ("Standard_D8s_v6", False, 300, 128)


CLOSED = (
    "network: {egress: none}\n"  # used with a share, as a file server would need the internet too
)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("default", "", "does not allow"),
        ("nd", CLOSED, "install Slurm from the internet"),
    ],
)
def test_slurm_refuses_reserved_names_and_closed_network(
    tmp_path: Path, name: str, more: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        _load(tmp_path, more=more, name=name, files="azure_files" if more else "nfs_server")


@pytest.mark.parametrize(
    ("image", "found"),
    [("ubuntu-hpc-2404", False), ("ubuntu-hpc-2204", True), ("almalinux-hpc-8", True)],
)
def test_slurm_image_without_matching_packages_is_refused_with_hint(
    tmp_path: Path, image: str, found: bool
) -> None:
    environment = _load(tmp_path, _nodes(f"nodes: 2, image: {image}"))
    findings = [each for each in check_environment(environment) if each.id == "slurm-image"]
    assert bool(findings) is found
    for finding in findings:
        assert finding.severity == "error"
        assert finding.hint == "use `image: ubuntu-hpc-2404`"
        assert finding.path == "clusters.nd.image"


PUBLIC = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEXBhA\n-----END PGP PUBLIC KEY BLOCK-----"
REPOSITORY = 'slurm: {packages: {url: "https://a.example/s", key: apt.asc, version: "25.05.4"}}\n'


def test_slurm_repository_key_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "apt.asc").write_text(f"{PUBLIC}\n")
    environment = _load(tmp_path, more=REPOSITORY)
    assert environment.slurm is not None
    assert not isinstance(environment.slurm.packages, str)
    assert environment.slurm.packages.key == PUBLIC


@pytest.mark.parametrize(
    ("key", "id_", "hint"),
    [
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "private-key", "gpg --export --armor"),
        (b"\x99\x01\xa2\x04", "no-repository-key", "gpg --export --armor"),
        (b"ssh-ed25519 AAAA me\n", "no-repository-key", "gpg --export --armor"),
        # Reading a pipe or a device would never end.
        ("pipe", "no-repository-key", ""),
        ("~nobody-has-this-name/apt.asc", "no-repository-key", ""),
    ],
)
def test_slurm_repository_key_of_wrong_kind_is_refused_at_its_line(
    tmp_path: Path, key: bytes | str, id_: str, hint: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "apt.asc").write_bytes(key if isinstance(key, bytes) else b"")
    more = REPOSITORY.replace("apt.asc", key) if isinstance(key, str) else REPOSITORY
    finding = refused(lambda: _load(tmp_path, more=more))
    assert (finding.id, finding.path) == (id_, "slurm.packages.key")
    assert finding.position[0] == 4
    assert hint in finding.hint


@pytest.mark.parametrize("port", ["0", "65536"])
def test_slurm_repository_url_with_invalid_port_is_refused(tmp_path: Path, port: str) -> None:
    with pytest.raises(UserError, match="is not the address of a repository by https"):
        _load(tmp_path, more=REPOSITORY.replace("a.example", f"a.example:{port}"))
