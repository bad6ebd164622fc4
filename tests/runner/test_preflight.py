"""The preflight script, executed on nodes with folders in place of /sys and /proc, some faulty."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from rendered import cluster_of, contract, infiniband_port, rendered
from targets import target_of

from fairway_core.target import Target

pytestmark = pytest.mark.integration

H100 = "Standard_ND96isr_H100_v5"
HOSTS = ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"]

# Each "node" has a folder with its system files, and with programs that precede the machine's.
# The limit of locked memory comes from the builtin `ulimit`, which a function replaces.
EACH_NODE = """#!/usr/bin/env bash
status=0
for ((rank = 0; rank < FAIRWAY_NODES; rank++)); do
    [[ -e $NODES/$rank ]] || continue
    ulimit() { [[ $* != -l ]] || cat "$NODES/$FAIRWAY_NODE_RANK/memlock"; }
    export -f ulimit
    node=$NODES/$rank
    FAIRWAY_NODE_RANK=$rank FAIRWAY_SYSTEM_ROOT=$node FAIRWAY_SCRATCH_DIR=$node/scratch \\
        PATH=$node/bin:$PATH "$@" | sed "s/^/$rank: /" || status=$?
done
exit "$status"
"""

NVIDIA_SMI = """#!/usr/bin/env bash
here=$(dirname "$0")
case $1 in
    --query-gpu=index) cat "$here/gpus" ;;
    --query-gpu=fabric.state) cat "$here/fabric" ;;
esac
"""

# Output of DCGM 3, then of DCGM 4.
DIAGNOSIS = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| NVML Library              | RESULT |
| Error                     | Failed to load it                              |
+---------------------------+------------------------------------------------+
"""
DIAGNOSIS_BY_GPU = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| software                  | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU3: Fail                                     |
+---------------------------+------------------------------------------------+
"""


class Nodes:
    """Four healthy nodes of the H100 size, with methods that damage one of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mount = root / "data"
        self.mount.mkdir()
        executable(root / "each-node", EACH_NODE)
        for rank in range(len(HOSTS)):
            self._make(rank)

    def _make(self, rank: int) -> None:
        node = self.root / str(rank)
        for number in range(8):
            self._port(node, f"mlx5_ib{number}", "InfiniBand", "400 Gb/sec (4X NDR)")
        self._port(node, "mlx5_an0", "Ethernet", "100 Gb/sec (2X HDR)")
        executable(node / "bin/nvidia-smi", NVIDIA_SMI)
        (node / "bin/gpus").write_text("".join(f"{number}\n" for number in range(8)))
        (node / "bin/fabric").write_text("Completed\n" * 8)
        (node / "sys/module/nvidia_peermem").mkdir(parents=True)
        (node / "proc/self").mkdir(parents=True)
        (node / "proc/self/mounts").write_text(f"10.0.0.9:/data {self.mount} nfs rw 0 0\n")
        topology = node / "opt/microsoft/ndv5/topo.xml"
        topology.parent.mkdir(parents=True)
        topology.write_text("<system/>")
        (node / "scratch").mkdir()
        (node / "memlock").write_text("unlimited\n")

    @staticmethod
    def _port(node: Path, device: str, link: str, rate: str) -> None:
        folder = infiniband_port(node, device, "0x8abc", "0x7fff", link=link)
        (folder / "state").write_text("4: ACTIVE\n")
        (folder / "rate").write_text(f"{rate}\n")

    def keys(self, rank: int, key: str) -> None:
        """Puts all ports of a node into another partition."""
        for file in self.root.glob(f"{rank}/sys/class/infiniband/mlx5_ib*/ports/1/pkeys/0"):
            file.write_text(f"{key}\n")

    def run(
        self, level: str = "fabric", size: str = H100, **job: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs a job with a preflight; the job's command prints "launched"."""
        place = cluster_of(size, mounts={"data": str(self.mount)})
        job = {"name": "train", "template": "plain", "command": "echo launched", **job}
        job = {"nodes": 4, "processes_per_node": 8, **job, "preflight": level}
        _, script = rendered(self.root, place, **job)
        own = {"NODES": str(self.root), "FAIRWAY_HOSTS": ",".join(HOSTS)}
        own |= {"FAIRWAY_EACH_NODE": str(self.root / "each-node")}
        own |= {"FAIRWAY_SYSTEM_ROOT": str(self.root / "0")}
        return finished(["bash", "-c", script], env=contract(self.root, 4, **own))


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    """Four healthy nodes."""
    return Nodes(tmp_path)


def faults(done: subprocess.CompletedProcess[str], failing: int) -> list[str]:
    """Returns the lines about the nodes of a run whose preflight failed."""
    assert done.returncode == 69
    assert done.stdout == ""
    *lines, last = done.stderr.splitlines()
    assert last == f"preflight failed on {failing} of 4 nodes; the launcher was not started"
    return lines


def test_preflight_passes_on_healthy_nodes_and_checks_nothing_at_level_none(nodes: Nodes) -> None:
    done = nodes.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "preflight passed on 4 nodes\nlaunched\n"
    (nodes.root / "1/bin/gpus").write_text("0\n")
    assert nodes.run("none").stdout == "launched\n"


KUBERNETES = target_of("kubernetes", vm_size=H100)
CPU = KUBERNETES.model_copy(update={"vm_size": "Standard_HB176rs_v4"})
AMD = KUBERNETES.model_copy(update={"vm_size": "Standard_ND96isr_MI300X_v5"})
BY_HAND = KUBERNETES.model_copy(update={"vm_size": ""})
# Pods of this size have no topology file, and NCCL needs none there.
NEAR = KUBERNETES.model_copy(update={"vm_size": "Standard_NC96ads_A100_v4"})


@pytest.mark.parametrize(
    ("place", "job", "passes"),
    [
        (KUBERNETES, {}, "gpus"),
        (NEAR, {}, "gpus"),
        (KUBERNETES, {"preflight": "fabric"}, "fabric"),
        (KUBERNETES, {"preflight": "none"}, "none"),
        (KUBERNETES, {"gpus": 1}, "none"),
        (CPU, {}, "none"),
        (AMD, {}, "none"),
        (BY_HAND, {}, "none"),
        (cluster_of(H100), {}, "none"),
    ],
    ids=["default", "near", "fabric", "none", "shares", "cpu", "amd", "no-size", "slurm"],
)
def test_preflight_on_kubernetes_checks_full_gpu_nodes_and_their_topology_by_default(
    tmp_path: Path, place: Target, job: dict[str, Any], passes: str
) -> None:
    _, script = rendered(
        tmp_path, place, name="train", template="plain", command="echo launched", **job
    )
    checks = ("gpus", "topology", "infiniband")
    checked = (passes != "none", passes != "none" and place is not NEAR, passes == "fabric")
    assert [f"check_{name}()" in script for name in checks] == [*checked]
    assert ("preflight || exit" in script) is (passes != "none")
    is_unasked = passes != "none" and "preflight" not in job
    assert ("-s preflight=none" in script) is is_unasked, "only where nobody asked for it"


def spoil(path: str, text: str | None) -> Callable[[Nodes], None]:
    """Returns a change that replaces a file of a node, or removes it."""

    def change(nodes: Nodes) -> None:
        file = nodes.root / path
        if text is not None:
            file.write_text(text)
        elif file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()

    return change


def hang(nodes: Nodes) -> None:
    """Makes the diagnosis of a node time out."""
    executable(nodes.root / "3/bin/timeout", 'shift\n[ $1 != dcgmi ] || exit 124\n"$@"')
    executable(nodes.root / "3/bin/dcgmi", "")


def fill(nodes: Nodes) -> None:
    """Leaves one KiB less than one GiB free on a node."""
    executable(nodes.root / "3/bin/df", "printf 'head\\nd 1 1 1048575 99%% /\\n'")


def drive_openly(nodes: Nodes) -> None:
    """Gives a node the open driver, which needs no module nvidia_peermem."""
    shutil.rmtree(nodes.root / "0/sys/module/nvidia_peermem")
    version = nodes.root / "0/proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86\n")


IB, PORT = (
    "sys/class/infiniband/mlx5_ib{}/ports/1/{}".format,
    "InfiniBand port mlx5_ib{}:1 {}".format,
)


# The changes to the nodes, made together, and the messages about each node.
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            [
                spoil("0/bin/gpus", "".join(f"{n}\n" for n in range(7))),
                spoil("1/bin/nvidia-smi", "#!/bin/sh\necho 'it has failed' >&2\nexit 9\n"),
                spoil("2/bin/fabric", "Completed\nIn Progress\n"),
                spoil("3/sys/module/nvidia_peermem", None),
                spoil(f"3/{IB(3, 'pkeys/0')}", "0x8123\n"),
            ],
            {
                0: ["GPU count 7, expected 8"],
                1: ["the GPU driver does not answer: it has failed"],
                2: ["the NVLink fabric is not up; look at the service nvidia-fabricmanager"],
                3: [
                    "InfiniBand cannot reach GPU memory: the module nvidia_peermem is not loaded",
                    "partition key 0x0abc 0x0123, while 4 of 4 nodes have 0x0abc",
                ],
            },
        ),
        (
            [
                spoil(f"0/{IB(3, 'link_layer')}", "Ethernet\n"),
                spoil("0/memlock", "64\n"),
                spoil(f"1/{IB(0, 'state')}", "1: DOWN\n"),
                spoil(f"1/{IB(1, 'state')}", "2: INIT\n"),
                spoil(f"1/{IB(2, 'state')}", None),
                spoil(f"1/{IB(3, 'rate')}", "100 Gb/sec (1X NDR)\n"),
                spoil(f"1/{IB(4, 'rate')}", None),
                spoil(f"1/{IB(5, 'pkeys/0')}", "0x0000\n"),
                *(spoil(f"1/{IB(6, f'pkeys/{n}')}", "0x0000\n") for n in range(2)),
                lambda nodes: nodes.keys(2, "0x8123"),
                spoil("2/bin/gpus", "0\n1\n"),
            ],
            {
                0: [
                    "InfiniBand port count 7, expected 8",
                    "locked memory is limited to 64 KiB, expected unlimited",
                ],
                1: [
                    PORT(0, "is 1: DOWN, expected ACTIVE"),
                    PORT(1, "is 2: INIT, expected ACTIVE"),
                    PORT(2, "is unreadable, expected ACTIVE"),
                    PORT(3, "runs at 100 Gb/s, expected 400"),
                    PORT(4, "runs at 0 Gb/s, expected 400"),
                    PORT(5, "has joined no partition"),
                    PORT(6, "has joined no partition"),
                ],
                2: [
                    "GPU count 2, expected 8",
                    "partition key 0x0123, while 3 of 4 nodes have 0x0abc",
                ],
            },
        ),
        (
            [
                drive_openly,
                spoil("1/proc/self/mounts", "/dev/sda / ext4 rw 0 0\n"),
                spoil("2/scratch", None),
                fill,
            ],
            {
                1: ["nothing is mounted at MOUNT"],
                2: ["the scratch directory ROOT/2/scratch does not exist"],
                3: ["less than 1 GiB is free in the scratch directory ROOT/3/scratch"],
            },
        ),
        (
            [lambda nodes: shutil.rmtree(nodes.root / "1"), hang],
            {
                1: ["it did not finish its checks"],
                3: ["the GPUs' quick diagnosis (dcgmi diag -r 1) does not end"],
            },
        ),
    ],
    ids=["GPUs", "fabric", "directories", "silence"],
)
def test_preflight_reports_each_fault_in_the_order_of_nodes_and_checks(
    nodes: Nodes, changes: list[Callable[[Nodes], None]], says: dict[int, list[str]]
) -> None:
    for change in changes:
        change(nodes)
    said = [f"node {HOSTS[rank]}: {each}" for rank, lines in says.items() for each in lines]
    found = "\n".join(faults(nodes.run(), len(says)))
    assert found.replace(str(nodes.mount), "MOUNT").replace(str(nodes.root), "ROOT") == (
        "\n".join(said)
    )


def test_preflight_warns_of_a_missing_topology_file_before_the_launcher_starts(
    nodes: Nodes,
) -> None:
    (nodes.root / "1/opt/microsoft/ndv5/topo.xml").unlink()
    done = nodes.run("gpus")
    assert done.stdout == "preflight passed on 4 nodes\nlaunched\n"
    why = "by which NCCL finds which adapter is near which GPU"
    said = f"warning: node 10.0.0.5: no topology file /opt/microsoft/ndv5/topo.xml, {why}\n"
    assert done.stderr == said
    assert nodes.run(env={"NCCL_TOPO_FILE": "/a b.xml"}).stderr.count("/a b.xml, by") == 4
    assert nodes.run(env={"NCCL_TOPO_FILE": ""}).stderr == ""


def test_preflight_reports_only_gpus_that_fail_their_diagnosis(nodes: Nodes) -> None:
    """A node on which the service of DCGM does not run is not reported either."""
    silent = "Error: unable to establish a connection to the specified host: localhost"
    answers = [
        (DIAGNOSIS.replace("RESULT", "Fail - GPU: 2"), 226),
        (DIAGNOSIS.replace("RESULT", "Warn"), 0),
        (DIAGNOSIS_BY_GPU, 226),
        (silent, 255),
    ]
    for rank, (text, status) in enumerate(answers):
        answer = f"[[ $* == 'diag -r 1' ]] || exit 3\ncat <<'EOF'\n{text}\nEOF\nexit {status}\n"
        executable(nodes.root / f"{rank}/bin/dcgmi", f"#!/usr/bin/env bash\n{answer}")
    says = "the GPUs fail a quick diagnosis: {}; see dcgmi diag -r 1".format
    assert faults(nodes.run(), 2) == [
        f"node 10.0.0.4: {says('NVML Library')}",
        f"node 10.0.0.6: {says('software')}",
    ]


def test_preflight_at_level_gpus_does_not_check_the_fabric(nodes: Nodes) -> None:
    nodes.keys(1, "0x8123")
    (nodes.root / "2/memlock").write_text("64\n")
    shutil.rmtree(nodes.root / "3/sys/module/nvidia_peermem")
    assert nodes.run("gpus").stdout.endswith("launched\n")
    (nodes.root / "2/bin/gpus").write_text("")
    assert faults(nodes.run("gpus"), 1) == ["node 10.0.0.6: GPU count 0, expected 8"]


def test_preflight_checks_nodes_with_amd_gpus_or_without_gpus(nodes: Nodes) -> None:
    for rank in range(4):
        (nodes.root / f"{rank}/bin/nvidia-smi").unlink()
    size = "Standard_HB176rs_v4"
    lines = faults(nodes.run(size=size), 4)
    assert lines == [f"node {host}: InfiniBand port count 8, expected 1" for host in HOSTS]
    assert nodes.run("gpus", size).stdout.endswith("launched\n")
    cards = "".join(f"card{number},0x74b5\n" for number in range(8))
    for rank in range(4):
        executable(nodes.root / f"{rank}/bin/rocm-smi", f"printf 'device,id\\n{cards}'")
    assert nodes.run(size="Standard_ND96isr_MI300X_v5").stdout.endswith("launched\n")
    executable(nodes.root / "1/bin/rocm-smi", "printf 'device,id\\ncard0,0x74b5\\n'")
    lines = faults(nodes.run(size="Standard_ND96isr_MI300X_v5"), 1)
    assert lines == ["node 10.0.0.5: GPU count 1, expected 8"]


def test_preflight_of_a_task_that_shares_its_node_checks_only_its_gpus(nodes: Nodes) -> None:
    """A diagnosis of other GPUs would disturb the tasks that have them. For a task without GPUs,
    no GPU is checked."""
    for rank in range(4):
        executable(nodes.root / f"{rank}/bin/dcgmi", "echo '| X | Fail |'; exit 1")
    assert "X" in "".join(faults(nodes.run("gpus"), 4))
    own: dict[str, Any] = {"nodes": 1, "processes_per_node": 2, "gpus": 2}
    for count in (8, 2):
        (nodes.root / "2/bin/gpus").write_text("".join(f"{n}\n" for n in range(count)))
        assert nodes.run("gpus", **own).stdout.endswith("launched\n")
    (nodes.root / "2/bin/gpus").write_text("0\n")
    assert faults(nodes.run("gpus", **own), 1) == ["node 10.0.0.6: GPU count 1, expected 2"]
    for rank in range(4):
        (nodes.root / f"{rank}/bin/nvidia-smi").unlink()
    alone: dict[str, Any] = {"nodes": 1, "processes_per_node": 1, "cores": 2}
    assert nodes.run("gpus", **alone).stdout.endswith("launched\n")


def test_preflight_runs_before_a_custom_template(nodes: Nodes) -> None:
    (nodes.root / "own.sh.j2").write_text(
        "{# description: Mine. #}\n#!/bin/bash\n#SBATCH --exclusive\nset -e\n{{ command | raw }}\n"
    )
    done = nodes.run(template="own.sh.j2")
    assert done.stdout == "preflight passed on 4 nodes\nlaunched\n"
    (nodes.root / "1/bin/gpus").write_text("")
    faults(nodes.run(template="own.sh.j2"), 1)


def test_preflight_on_this_machine_checks_directories(tmp_path: Path, repository: Path) -> None:
    job = {"name": "x", "template": "plain", "command": "echo launched", "preflight": "fabric"}
    _, script = rendered(tmp_path, cluster_of("local"), **job)
    each_node = repository / "runner/fairway_agent/fanout/local/fairway-each-node"
    own = {"FAIRWAY_EACH_NODE": str(each_node), "FAIRWAY_HOSTS": "localhost"}
    own["FAIRWAY_SCRATCH_DIR"] = str(tmp_path / "nowhere")
    done = finished(["bash", "-c", script], env=contract(tmp_path, **own))
    assert done.returncode == 69
    assert f"node localhost: the scratch directory {tmp_path}/nowhere does not exist" in done.stderr


def test_preflight_reports_a_mount_that_is_not_writable(nodes: Nodes) -> None:
    nodes.mount.rmdir()  # even root cannot write to a missing mount
    assert faults(nodes.run("gpus"), 4) == [
        f"node {host}: the mount {nodes.mount} is not writable" for host in HOSTS
    ]
