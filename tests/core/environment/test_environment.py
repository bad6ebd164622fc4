"""The environment file: what is accepted, what is refused, and the locations of errors."""

import re
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from environment_files import KEY, SMALLEST, fault, load
from programs import finished

from fairway_core.environment.addresses import subnet_plan
from fairway_core.findings import format_finding

RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7 me"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Returns a home folder with an SSH key."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_ed25519.pub").write_text(f"{KEY}\n")
    return folder


def test_environment_smallest_file_has_defaults(tmp_path: Path, home: Path) -> None:
    environment = load(tmp_path, SMALLEST, home=home)
    assert environment.protect
    assert environment.zone == 1
    assert environment.network.address_space == IPv4Network("10.40.0.0/16")
    assert environment.access.allowed == ()
    assert environment.access.ssh_keys == (KEY,)
    assert environment.zone_number == 1
    assert list(environment.storage.containers) == ["datasets", "outputs", "code"]
    assert environment.clusters["box"].chosen_image.alias == "ubuntu-hpc-2404"


def test_environment_without_clusters_or_their_shared_folder_is_refused(
    tmp_path: Path, home: Path
) -> None:
    finding = fault(tmp_path, SMALLEST.replace("nodes: 1", "nodes: 2"), home=home)
    assert finding.path == "clusters.box"
    assert "mounts" in finding.hint
    finding = fault(tmp_path, "name: lab\nlocation: westeurope\nclusters: {}\n", home=home)
    assert finding.path == "clusters"


@pytest.mark.parametrize("name", ["Box", "1box", "box-", "b" * 21, "my_box"])
def test_environment_refuses_cluster_name_that_azure_names_cannot_contain(
    tmp_path: Path, home: Path, name: str
) -> None:
    finding = fault(tmp_path, SMALLEST.replace("box:", f"{name}:"), home=home)
    assert finding.path == f"clusters.{name}"
    assert "part of an Azure name" in finding.message


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ("/data", "/data", False),
        ("/data", "/data/a", False),
        ("/a/b", "/a", False),
        ("/data", "/data2", True),
    ],
)
def test_environment_refuses_mount_paths_inside_each_other(
    tmp_path: Path, home: Path, one: str, two: str, apart: bool
) -> None:
    server = "{kind: nfs_server, path: "
    text = f"{SMALLEST}filesystems:\n  one: {server}{one}}}\n  two: {server}{two}}}\n"
    if apart:
        assert len(load(tmp_path, text, home=home).filesystems) == 2
        return
    finding = fault(tmp_path, text, home=home)
    assert finding.path == "filesystems.two.path"
    assert "are inside each other" in finding.message


@pytest.mark.parametrize("space", ["10.0.0.0/8", "10.40.0.0/16", "192.168.0.0/17", "10.1.8.0/21"])
def test_subnet_plan_is_within_address_space_without_overlaps(space: str) -> None:
    network = IPv4Network(space)
    subnets = list(subnet_plan(network).values())
    assert all(subnet.subnet_of(network) for subnet in subnets)
    assert not any(one.overlaps(two) for i, one in enumerate(subnets) for two in subnets[i + 1 :])
    assert min(subnet.num_addresses for subnet in subnets) >= 64


def test_subnet_plan_keeps_the_ranges_of_deployed_subnets() -> None:
    # Nodes and servers have addresses in these ranges: a change rebuilds everything.
    plan = {role: str(net) for role, net in subnet_plan(IPv4Network("10.40.0.0/16")).items()}
    kept = {"compute": "10.40.0.0/17", "storage": "10.40.128.0/21", "management": "10.40.136.0/21"}
    assert plan.items() >= {**kept, "bastion": "10.40.152.0/21"}.items()
    assert subnet_plan(IPv4Network("10.40.0.0/21"))["bastion"].prefixlen == 26


class TestKeys:
    def _with(self, *entries: str) -> str:
        lines = "".join(f"    - {entry}\n" for entry in entries)
        return f"{SMALLEST}access:\n  ssh_keys:\n{lines}"

    def test_environment_ssh_key_path_is_relative_to_the_file(
        self, tmp_path: Path, home: Path
    ) -> None:
        (tmp_path / "team.pub").write_text(f"# the team\n{KEY}\n\n{RSA}\n")
        environment = load(tmp_path, self._with("team.pub", KEY), home=home)
        assert environment.access.ssh_keys == (KEY, RSA)

    def test_environment_without_ssh_key_suggests_ssh_keygen(self, tmp_path: Path) -> None:
        finding = fault(tmp_path, SMALLEST, home=tmp_path)
        assert finding.id == "no-ssh-key"
        assert finding.hint == "ssh-keygen -t ed25519"
        assert finding.path == "clusters.box"
        assert finding.position[0] == 4

    def test_environment_without_any_login_needs_no_ssh_key(self, tmp_path: Path) -> None:
        pools = SMALLEST.replace(
            "ssh, size: Standard_NC40ads_H100_v5", "batch, size: Standard_D16s_v6"
        )
        share = "filesystems:\n  data: {kind: azure_files, path: /data}\n"
        assert load(tmp_path, pools + share, home=tmp_path).access.ssh_keys == ()
        server = share.replace("azure_files", "nfs_server")
        assert fault(tmp_path, pools + server, home=tmp_path).path == "filesystems.data"

    def test_environment_finds_rsa_key_in_home(self, tmp_path: Path) -> None:
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh" / "id_rsa.pub").write_text(RSA)
        assert load(tmp_path, SMALLEST, home=tmp_path).access.ssh_keys == (RSA,)

    @pytest.mark.parametrize(
        ("entry", "content", "message", "hint"),
        [
            ("none.pub", None, "no such public key", "ssh-keygen -t ed25519 -f none"),
            ("id", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz", "is a private key", "id.pub"),
            ("empty.pub", "\n# nothing\n", "holds no public key", "ssh-keygen"),
            ("bad.pub", "hello world\n", "not an OpenSSH public key", "ssh-keygen"),
            ("ssh-ed25519 AAAA me", None, "not an OpenSSH public key", "ssh-keygen"),
            (f"ssh-rsa {KEY.split()[1]}", None, "not an OpenSSH public key", "ssh-keygen"),
            ("~nobody-has-this-name/key.pub", None, "no such public key", "ssh-keygen"),
            (
                "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=",
                None,
                "Azure does not accept",
                "ssh-rsa",
            ),
        ],
    )
    def test_environment_ssh_key_that_is_not_public_is_refused_at_its_line(
        self, tmp_path: Path, home: Path, entry: str, content: str | None, message: str, hint: str
    ) -> None:
        if content is not None:
            (tmp_path / entry).write_text(content)
        finding = fault(tmp_path, self._with(KEY, entry), home=home)
        assert finding.path == "access.ssh_keys.1"
        assert message in finding.message
        assert hint in finding.hint
        assert "b3BlbnNz" not in format_finding(finding)
        assert finding.position[0] == 8

    def test_environment_private_key_in_the_file_is_not_printed(
        self, tmp_path: Path, home: Path
    ) -> None:
        key = '"-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXk\\n"'
        finding = fault(tmp_path, self._with(KEY).replace(KEY, key), home=home)
        assert finding.id == "private-key"
        assert finding.location is not None
        assert "b3BlbnNz" not in format_finding(finding)


@pytest.mark.integration
def test_core_imports_neither_terraform_nor_azure(repository: Path) -> None:
    folder = repository / "constructs" / "fairway_core"
    modules = [
        "fairway_core." + ".".join(file.relative_to(folder).with_suffix("").parts)
        for file in folder.rglob("*.py")
        if file.name != "__init__.py"
    ]
    code = (
        f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = finished([sys.executable, "-c", code], check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"cdktf", "constructs", "azure", "jsii"}
    assert re.search(r"\bpydantic\b", done.stdout)


def test_environment_refuses_file_system_named_like_a_device_folder(
    tmp_path: Path, home: Path
) -> None:
    text = f"{SMALLEST}filesystems: {{shm: {{kind: nfs_server, path: /data}}}}\n"
    assert "`shm` is a folder of Linux's devices" in fault(tmp_path, text, home=home).message


def test_environment_that_is_a_job_file_suggests_submit(tmp_path: Path, home: Path) -> None:
    finding = fault(tmp_path, "name: t\nparams: {a: 1}\ncommand: ./a\n", home=home)
    assert (finding.id, finding.location and finding.location.line) == ("not-an-environment", 3)
    assert "fairway submit" in finding.hint


REGISTRY = "registry: {sku: Premium}\n"
BATCH = SMALLEST.replace("ssh,", "batch,")
AKS = """\
name: lab
location: westeurope
clusters:
  box: {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: train:1}
filesystems: {data: {kind: azure_files, gib: 1024, path: /data}}
kubernetes: {api_server: allowed}
"""
PUBLIC = "network: {private_endpoints: false}\n"


@pytest.mark.parametrize(
    ("text", "most", "length", "of"),
    [
        (SMALLEST, 400, 32, "a storage account"),
        (SMALLEST, 200, 31, "a storage account"),
        (SMALLEST + REGISTRY, 100, 31, "a container registry"),
        # The NAT gateway's address is one of the ranges.
        (SMALLEST + REGISTRY + PUBLIC, 99, 32, "a container registry"),
        (BATCH, 200, 32, "a Batch account"),
        (BATCH, 100, 31, "a Batch account"),
        (AKS, 199, 32, "the API server of AKS"),
    ],
)
def test_environment_refuses_more_allowed_ranges_than_azure_accepts(
    tmp_path: Path, home: Path, text: str, most: int, length: int, of: str
) -> None:
    """Private ranges are not counted, since they admit nobody from outside."""

    def with_ranges(count: int) -> str:
        public = [f"20.0.{n // 100}.{n % 100 * 2}/{length}" for n in range(count)]
        return f"{text}access: {{allowed: [10.0.0.0/16, {', '.join(public)}]}}\n"

    load(tmp_path, with_ranges(most), home=home)
    finding = fault(tmp_path, with_ranges(most + 1), home=home)
    assert "`access.allowed`" in finding.message
    assert of in finding.message
    assert "Azure documentation: " in finding.message
    assert "wider ones" in finding.hint
