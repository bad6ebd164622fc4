"""Fabric profiles: the settings of a VM size, and the InfiniBand that a node detects."""

import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from endings import refused
from programs import finished
from rendered import cluster_of, contract, infiniband_port, rendered
from targets import target_of

from fairway_core.catalog import vm_size, vm_sizes
from fairway_core.checks import check_job
from fairway_core.kubernetes.head import topologies
from fairway_core.target import Target
from fairway_runner.jobs.fabric import FabricProfile, fabric_profile
from fairway_runner.jobs.job import Job

pytestmark = pytest.mark.integration


H100, HB176 = "Standard_ND96isr_H100_v5", "Standard_HB176rs_v4"


def profile(size: str, *, processes_per_node: int = 8, sharp: bool = False) -> FabricProfile:
    """Returns the profile of a job with the given number of processes per node."""
    job = Job(name="train", command="true", processes_per_node=processes_per_node)
    found = fabric_profile(cluster_of(size), job, sharp=sharp)
    assert found is not None
    return found


def test_fabric_profile_is_none_locally_and_refused_for_an_unknown_size() -> None:
    assert fabric_profile(Target.local(), Job(name="train", command="true")) is None
    finding = refused(lambda: profile("Standard_ND96isr_H100_v4"))
    assert finding.message == "the target `cluster`: unknown VM size `Standard_ND96isr_H100_v4`"
    assert finding.hint == "did you mean `Standard_ND96isr_H100_v5`?"


def test_fabric_profile_places_ranks_near_gpus_and_keeps_the_topology() -> None:
    assert profile("Standard_ND96asr_v4").gpu_numa == (1, 1, 0, 0, 3, 3, 2, 2)
    assert profile("Standard_ND96asr_v4", processes_per_node=4).gpu_numa == ()
    assert profile(HB176).gpu_numa == ()
    mpirun = profile(H100).mpirun
    assert mpirun["hpcx"] == mpirun["openmpi"]
    assert mpirun["openmpi"][:2] == ("--map-by", "ppr:8:node")
    settings = profile("Standard_ND96is_H100_v5").environment  # without InfiniBand
    assert settings["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv5/topo.xml"
    assert settings["FI_PROVIDER"] == "tcp"


@pytest.mark.parametrize("size", sorted(vm_sizes()))
def test_fabric_profile_of_every_size_matches_its_network(size: str) -> None:
    found = profile(size)
    settings, rdma = found.environment, vm_size(size).rdma
    if rdma:
        assert "NCCL_IB_DISABLE" not in settings
    else:
        assert settings["NCCL_IB_DISABLE"] == "1"
        assert settings["UCX_NET_DEVICES"] == "eth0"
        assert not any("mlx5" in value for value in settings.values())
    assert set(found.interfaces.values()) == {"eth0"}
    assert set(found.interfaces) >= {
        *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "I_MPI_HYDRA_IFACE"),
        *("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"),
    }
    # A list would leave out shared memory, the GPUs, or DC in large jobs.
    assert "UCX_TLS" not in settings
    # Open MPI without UCX fails instead of running over TCP beside the fabric.
    assert settings.get("OMPI_MCA_pml") == ("ucx" if rdma else None)


@pytest.mark.parametrize(
    ("size", "has_it"),
    [(H100, True), ("Standard_ND96asr_v4", False), ("Standard_ND96is_H100_v5", False)],
)
def test_fabric_profile_enables_sharp_if_requested_and_supported(size: str, has_it: bool) -> None:
    asked = {"template": "torchrun", "options": {"sharp": True}}
    found = [each for each in check_job(asked, cluster_of(size)) if each.id == "no-sharp"]
    assert [each.message for each in found] == (
        [f"`sharp: true` has no effect on {size}: no settings for it are known"] * (not has_it)
    )
    assert "NCCL_COLLNET_ENABLE" not in profile(size).environment
    settings = profile(size, sharp=True).environment
    assert settings.get("NCCL_COLLNET_ENABLE") == ("1" if has_it else None)


@pytest.mark.parametrize("there", [True, False])
def test_fabric_script_disables_sharp_without_its_plugin_and_warns(
    tmp_path: Path, there: bool
) -> None:
    """NCCL itself continues without SHARP and reports nothing if it finds no plugin."""
    port(tmp_path, "mlx5_ib0")
    plugins = tmp_path / "plug ins"
    plugins.mkdir()
    if there:
        (plugins / "libnccl-net.so").touch()
    options = {"template": "torchrun", "options": {"sharp": True, "rendezvous": "static"}}
    search = {"LD_LIBRARY_PATH": f"/usr/local/lib:{plugins}"}
    script = script_for(tmp_path, H100, **options)
    functions = script[script.index("find_infiniband()") : script.index("# One process of a node")]
    done = in_shell(tmp_path, f"{functions}\nenvironment; env", nodes=2, **search)
    assert done.returncode == 0
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["NCCL_COLLNET_ENABLE"] == ("1" if there else "0")
    assert ("has no SHARP plugin" in done.stderr) is not there


@pytest.mark.parametrize(
    ("processes", "placement"),
    [
        (8, "--map-by ppr:2:numa:pe=22 -report-bindings"),
        (176, "--map-by ppr:44:numa:pe=1 -report-bindings"),
        (1, "--map-by ppr:1:node -report-bindings --bind-to none"),
        (6, "--map-by ppr:6:node -report-bindings --bind-to none"),
    ],
)
def test_fabric_profile_places_any_number_of_ranks_per_node(processes: int, placement: str) -> None:
    assert " ".join(profile(HB176, processes_per_node=processes).mpirun["hpcx"]) == placement


@pytest.mark.parametrize(
    ("size", "placement"),
    [
        (HB176, "--map-by ppr:2:node --bind-to none -report-bindings"),
        (H100, "--map-by ppr:2:node --bind-to none -mca coll_hcoll_enable 0"),
        ("Standard_D2s_v6", "--map-by ppr:2:node --bind-to none"),
    ],
)
def test_fabric_profile_binds_no_ranks_of_tasks_that_share_a_node(
    size: str, placement: str
) -> None:
    """Open MPI would bind the ranks of every task to the node's first cores."""
    job = Job(name="train", command="true", processes_per_node=2, cores=2)
    found = fabric_profile(cluster_of(size), job)
    assert " ".join(found.mpirun["hpcx"]) == placement
    whole = Job(name="train", command="true", processes_per_node=8, gpus=8)
    four = fabric_profile(cluster_of("Standard_NC96ads_A100_v4"), whole)
    assert (four.gpu_numa, "NCCL_GRAPH_FILE" in four.environment) == ((), False)


# --- InfiniBand that a node detects, with a tree of files in place of /sys --------------------


def port(root: Path, device: str, *keys: str) -> None:
    """Makes a port of a device with the given partition keys, or the usual ones."""
    infiniband_port(root, device, *(keys or ("0x8abc", "0x7fff")))


def script_for(tmp_path: Path, size: str, *, nodes: int = 2, **job: Any) -> str:
    """Renders the script of a job that prints its environment, with the template `plain`."""
    defaults = {"name": "train", "template": "plain", "command": "env", "nodes": nodes}
    defaults["processes_per_node"] = 8
    return rendered(tmp_path, cluster_of(size), **{**defaults, **job})[1]


def in_shell(
    tmp_path: Path, script: str, *, nodes: int, has_topology: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs a script on a node with devices below the folder and the HPC image's files."""
    if has_topology:
        for family in ("ncv4", "ndv2", "ndv4", "ndv5"):
            folder = tmp_path / "opt/microsoft" / family
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "topo.xml").write_text("<system/>")
    return finished(
        ["bash", "-euo", "pipefail", "-c", script],
        env=contract(tmp_path, nodes, **{"LD_LIBRARY_PATH": "/usr/local/lib", **more}),
    )


def variables(tmp_path: Path, size: str, *, nodes: int = 2, **job: Any) -> dict[str, str]:
    """Runs a job and returns the environment variables that it printed."""
    done = in_shell(tmp_path, script_for(tmp_path, size, nodes=nodes, **job), nodes=nodes)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@pytest.mark.parametrize(
    ("size", "ports", "found"),
    [
        (
            H100,
            ["mlx5_ib0", "mlx5_ib1"],
            {
                "NCCL_IB_HCA": "=mlx5_ib0:1,mlx5_ib1:1",
                "UCX_IB_PKEY": "0x0abc",
                "MV2_DEFAULT_PKEY": "0x8abc",
                "UCX_NET_DEVICES": "mlx5_ib0:1,mlx5_ib1:1",
                "UCX_TLS": None,
                "NCCL_TOPO_FILE": "/opt/microsoft/ndv5/topo.xml",
            },
        ),
        (H100, ["mlx5_0"], {"UCX_NET_DEVICES": "mlx5_0:1"}),
        (
            "Standard_HB368rs_v5",
            ["mlx5_ib0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3"],
            {
                "UCX_NET_DEVICES": "mlx5_ib0:1,mlx5_ib1:1,mlx5_ib2:1,mlx5_ib3:1",
                "UCX_MAX_RNDV_RAILS": "1",
                "NCCL_IB_HCA": None,
            },
        ),
        (
            "Standard_ND96isr_MI300X_v5",
            ["mlx5_ib0"],
            {"LD_LIBRARY_PATH": "/opt/rccl/lib:/usr/local/lib"},  # the previous value follows
        ),
    ],
    ids=["two-ports", "another-name", "no-gpus", "search-path"],
)
def test_fabric_script_detects_infiniband_ports_and_partition(
    tmp_path: Path, size: str, ports: list[str], found: dict[str, str | None]
) -> None:
    for device in ports:
        port(tmp_path, device)
    infiniband_port(tmp_path, "mlx5_an0", "0xffff", "0x0000", link="Ethernet")
    given = variables(tmp_path, size)
    assert {name: given.get(name) for name in found} == found


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        (("0x7fff", "0x8abc"), "0x0abc"),
        (("0x8abc", "0x7fff"), "0x0abc"),
        (("0x8abc",), "0x0abc"),
        (("0x9a0b", "0x7fff"), "0x1a0b"),  # all bits but the membership bit
    ],
)
def test_fabric_script_uses_the_larger_partition_key_without_membership_bit(
    tmp_path: Path, keys: tuple[str, ...], key: str
) -> None:
    port(tmp_path, "mlx5_ib0", *keys)
    assert variables(tmp_path, HB176)["UCX_IB_PKEY"] == key


@pytest.mark.parametrize(("size", "level"), [(H100, ["SYS"]), ("Standard_NC24ads_A100_v4", [])])
def test_fabric_script_warns_of_a_missing_topology_file_and_keeps_gpudirect(
    tmp_path: Path, size: str, level: list[str]
) -> None:
    """Few job images have the file, and NCCL itself does not report that it is missing."""
    port(tmp_path, "mlx5_ib0")
    done = in_shell(tmp_path, script_for(tmp_path, size), nodes=2, has_topology=False)
    assert done.returncode == 0
    assert "has no topology file /opt/microsoft/n" in done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith("NCCL_NET_GDR_LEVEL=")]
    assert found == [f"NCCL_NET_GDR_LEVEL={each}" for each in level]
    own = script_for(tmp_path, size, env={"NCCL_TOPO_FILE": ""})
    assert in_shell(tmp_path, own, nodes=2, has_topology=False).stderr == ""


@pytest.mark.parametrize(("size", "level"), [(H100, "SYS"), ("Standard_ND40rs_v2", "5")])
def test_fabric_profile_of_pods_uses_gpudirect_at_any_distance(size: str, level: str) -> None:
    """Azure's tests on AKS do so; 5 is NCCL's number for SYS. Other engines use NCCL's default."""
    found = fabric_profile(pods_on(size), Job(name="train", command="true"))
    assert found is not None
    assert found.environment["NCCL_NET_GDR_LEVEL"] == level
    assert "NCCL_NET_GDR_LEVEL" not in profile(H100).environment


@pytest.mark.parametrize("size", sorted(vm_sizes()))
def test_fabric_profile_of_pods_names_only_the_mounted_topology_file(size: str) -> None:
    found = fabric_profile(pods_on(size), Job(name="train", command="true"))
    assert found is not None
    named = {text for text in found.environment.values() if text.startswith("/opt/microsoft/")}
    [folder] = [str(PurePosixPath(path).parent) for path in named] or [""]
    mounted = [each["metadata"]["name"] for each in topologies([pods_on(size)])]
    assert mounted == [f"fairway-topology-{PurePosixPath(folder).name}"] * bool(folder)


def pods_on(size: str) -> Target:
    """Returns a Kubernetes target with nodes of the given size."""
    return target_of("kubernetes", vm_size=size, nodes={"min": 0, "max": 16})


def test_fabric_script_prefers_job_settings_and_drops_a_missing_graph_file(tmp_path: Path) -> None:
    """Pods have no graph file, and NCCL fails if it cannot open the one it is given."""
    script = script_for(tmp_path, "Standard_NC96ads_A100_v4", nodes=1)
    lacking = in_shell(tmp_path, script, nodes=1)
    assert "has no graph file /opt/microsoft/ncv4/graph.xml" in lacking.stderr
    assert "NCCL_GRAPH_FILE" not in lacking.stdout
    (tmp_path / "opt/microsoft/ncv4/graph.xml").write_text("<graphs/>")
    there = in_shell(tmp_path, script, nodes=1)
    assert (there.returncode, there.stderr) == (0, "")
    assert "NCCL_GRAPH_FILE=/opt/microsoft/ncv4/graph.xml" in there.stdout
    port(tmp_path, "mlx5_ib0")
    env = {"UCX_TLS": "ud", "NCCL_IB_HCA": "mlx5_ib7", "NCCL_MIN_NCHANNELS": "8"}
    env["GLOO_SOCKET_IFNAME"] = "eth1"
    found = variables(tmp_path, H100, env=env)
    assert env.items() <= found.items()
    assert found["NCCL_SOCKET_IFNAME"] == "eth0"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (None, "ports none, partition key 0x0000"),
        (("0x7fff", "0x0000"), "ports mlx5_ib0:1, partition key 0x7fff"),
        (("0x0000", "0x0000"), "ports mlx5_ib0:1, partition key 0x0000"),
        ((), "ports mlx5_ib0:1, partition key 0x0000"),
    ],
)
def test_fabric_script_fails_on_a_node_without_ports_or_a_shared_partition(
    tmp_path: Path, keys: tuple[str, ...] | None, says: str
) -> None:
    if keys is not None:
        infiniband_port(tmp_path, "mlx5_ib0", *keys)
    done = in_shell(tmp_path, script_for(tmp_path, HB176), nodes=2)
    assert (done.returncode, done.stdout) == (69, "")
    assert "cannot reach the other nodes" in done.stderr
    assert f"InfiniBand {says}" in done.stderr
    assert "UCX_IB_PKEY" not in variables(tmp_path, HB176, nodes=1)
