"""Slurm's files: their content, and the effects of health check, prolog and epilog on a node."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished

from fairway_core.slurm import (
    Accounting,
    Cloud,
    Gpus,
    NodeFacts,
    Partition,
    Qos,
    SlurmCluster,
    accounting_commands,
    install,
    node_scripts,
    render,
)

NUMA = (0, 0, 0, 0, 1, 1, 1, 1)
ND = Partition(
    name="nd",
    count=16,
    kept=2,
    cpus=96,
    sockets=2,
    cores_per_socket=48,
    memory_mib=1_848_320,
    gpus=Gpus(type="h100", files=tuple(f"/dev/nvidia{n}" for n in range(8)), numa=NUMA),
    features=("nd96isr_h100_v5", "ib", "dedicated"),
    cloud=True,
    default=True,
)


RULES = Accounting(
    accounts=(("vision", 3), ("nlp", 1)),
    qos=(
        ("urgent", Qos(priority=100, preempts=("normal",), max_nodes_per_user=4)),
        ("normal", Qos(priority=10)),
    ),
    users=("azureuser",),
)


def _files(partitions: tuple[Partition, ...] = (ND,), **values: Any) -> dict[str, str]:
    return render(SlurmCluster(name="lab", host="h", partitions=partitions, **values))


def _conf(**values: Any) -> list[str]:
    cluster = SlurmCluster(
        name="lab", host="lab-slurm-scheduler", address="10.0.0.4", partitions=(ND,), **values
    )
    return render(replace(cluster, cloud=Cloud()))["slurm.conf"].splitlines()


class TestConfiguration:
    """slurm.conf and its companion files."""

    def test_slurm_conf_declares_cloud_nodes_with_hardware_and_features(self) -> None:
        lines = _conf()
        assert (
            "NodeName=nd-[0-15] CPUs=96 Sockets=2 CoresPerSocket=48 ThreadsPerCore=1 "
            "RealMemory=1848320 Gres=gpu:h100:8 Feature=nd96isr_h100_v5,ib,dedicated State=CLOUD"
        ) in lines
        assert (
            "PartitionName=nd Nodes=nd-[0-15] Default=YES MaxTime=INFINITE "
            "DefMemPerCPU=19253 State=UP"
        ) in lines
        assert "SuspendExcNodes=nd-[0-1]" in lines
        assert "SlurmctldHost=lab-slurm-scheduler(10.0.0.4)" in lines
        assert "SlurmctldParameters=enable_configless,idle_on_node_suspend" in lines

    def test_slurm_conf_sets_launch_parameters_timeouts_and_priority_weights(self) -> None:
        lines = _conf()
        assert "LaunchParameters=use_interactive_step" in lines, "salloc gives a shell on a node"
        times = {line.split("=")[0]: line.split("=")[1] for line in lines if "Timeout=" in line}
        assert int(times["UnkillableStepTimeout"]) >= 180, "processes of eight GPUs die slowly"
        # slurm.conf(5) of 23.11: at least five times as long.
        assert int(times["UnkillableStepTimeout"]) >= 5 * int(times["MessageTimeout"])
        assert int(times["BatchStartTimeout"]) >= 60, "a Prolog asks slurmctld three times"
        weights = {line.split("=")[0]: line.split("=")[1] for line in lines if "Weight" in line}
        assert int(weights["PriorityWeightPartition"]) > 2000, "more than any priority takes away"
        assert "PriorityWeightFairshare" not in weights, "there is no history to go by"
        assert "PriorityWeightFairshare=1000" in _conf(accounting=Accounting())

    def test_slurm_conf_enforces_accounts_and_qos(self) -> None:
        lines = _conf(accounting=RULES)
        assert "AccountingStorageEnforce=associations,limits,qos" in lines
        assert {"PreemptType=preempt/qos", "PreemptMode=REQUEUE"} <= set(lines)
        plain = _conf(accounting=Accounting())
        assert not [line for line in plain if line.startswith(("Preempt", "AccountingStorageEnf"))]

    def test_slurm_accounting_commands_create_accounts_qos_and_users(self) -> None:
        cluster = SlurmCluster(name="lab", host="h", partitions=(ND,), accounting=RULES)
        assert accounting_commands(cluster) == [
            "add cluster lab",
            "add qos urgent",
            "modify qos urgent set Priority=100 MaxTRESPerUser=node=4 Preempt=normal",
            "modify qos normal set Priority=10 MaxTRESPerUser=node=-1 Preempt=",
            "add account vision Cluster=lab",
            "modify account where Name=vision Cluster=lab set Fairshare=3 QOS=normal,urgent",
            "add account nlp Cluster=lab",
            "modify account where Name=nlp Cluster=lab set Fairshare=1 QOS=normal,urgent",
            "add user azureuser Account=vision Cluster=lab",
            "add user azureuser Account=nlp Cluster=lab",
            "modify user where Name=azureuser Cluster=lab set DefaultAccount=vision",
        ]
        for rules in (None, Accounting(), Accounting(users=("azureuser",))):
            assert accounting_commands(replace(cluster, accounting=rules)) == []

    def test_slurm_topology_has_a_switch_per_scale_set(self) -> None:
        files = _files((ND, replace(ND, name="spot", count=1, default=False)))
        lines = [line for line in files["topology.conf"].splitlines() if line[:1] != "#"]
        assert lines == ["SwitchName=nd Nodes=nd-[0-15]", "SwitchName=spot Nodes=spot-0"]
        assert "TopologyPlugin=topology/tree" in files["slurm.conf"].splitlines()
        assert "topology.conf" not in _files()
        assert "Topology" not in _files()["slurm.conf"]

    def test_slurm_conf_binds_gpus_to_near_cores_and_constrains_devices(self) -> None:
        files = _files()
        for number, cores in ((0, "0-47"), (7, "48-95")):
            line = f"Name=gpu Type=h100 File=/dev/nvidia{number} Cores={cores}\n"
            assert f"NodeName=nd-[0-15] {line}" in files["gres.conf"]
        assert "ConstrainDevices=yes" in files["cgroup.conf"]
        assert "ProctrackType=proctrack/cgroup" in files["slurm.conf"]

    def test_slurm_accounting_needs_no_password_and_uses_scheduler_address(self) -> None:
        files = _files(accounting=Accounting())
        assert "AccountingStorageType=accounting_storage/slurmdbd" in files["slurm.conf"]
        assert "StoragePass" not in files["slurmdbd.conf"]
        assert "slurmdbd.conf" not in _files()
        assert "AccountingStorageHost=10.0.0.4" in _conf(accounting=Accounting())


# Output of `nvidia-smi nvlink --status`.
UP = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
HALF = "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
DOWN = (
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)\n"
    "NVML: Unable to retrieve NVLink information as all links are inActive\n"
)


# Programs that the health check calls; {0} is the folder of their output.
PROGRAMS = {
    "nvidia-smi": "[ $1 != nvlink ] || exec cat {0}/links; cat {0}/gpus; ! grep -q failed {0}/gpus",
    "dmesg": "cat {0}/kernel",
    "df": "echo Avail; cat {0}/free",
    "scontrol": 'case "$*" in *show*) cat {0}/state ;; *) echo "$*" >>{0}/told ;; esac',
}


@dataclass
class Node:
    """A folder tree that stands for a node, with the exit code and output of its last check."""

    folder: Path
    said: tuple[int, str] = (0, "")

    FACTS = NodeFacts(
        gpus=2,
        nvlink=True,
        adapters=2,
        adapter_gbps=400,
        mounts=("/data",),
        folders=("/scratch", "/not-there"),
    )

    def __post_init__(self) -> None:
        for number, layer in enumerate(["InfiniBand", "InfiniBand", "Ethernet"]):
            port = self.root / "sys/class/infiniband" / f"mlx5_{number}" / "ports/1"
            port.mkdir(parents=True)
            (port / "link_layer").write_text(f"{layer}\n")
            (port / "state").write_text("4: ACTIVE\n")
            (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
        for name in ("proc", "scratch"):
            (self.root / name).mkdir()
        (self.root / "proc/mounts").write_text("10.0.0.4:/srv /data nfs4 rw 0 0\n")
        (self.folder / "commands").mkdir()
        for name, body in PROGRAMS.items():
            executable(self.folder / "commands" / name, body.replace("{0}", str(self.folder)))

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def check(
        self,
        gpus: str = "0, 0\n1, 0",
        kernel: str = "",
        state: str = "State=IDLE+CLOUD Partitions=nd",
        free: int = 100,
        links: str = "",
        *,
        before: bool = False,
        image_checks: str = "",
    ) -> list[str]:
        """Runs the health check and returns the commands that Slurm received."""
        printed = {"gpus": gpus, "kernel": kernel, "state": f"NodeName=nd-0 {state}"}
        for name, text in {**printed, "free": str(free), "links": links}.items():
            (self.folder / name).write_text(f"{text}\n")
        (told := self.folder / "told").write_text("")
        facts = replace(self.FACTS, image_checks=image_checks)
        script = install(self.folder, settings="", python=sys.executable, facts=facts)
        # The program sets its own PATH, as slurmd passes none.
        text = script["health-check"].read_text()
        own = f"export PATH={self.folder / 'commands'}:"
        (program := self.folder / "run").write_text(text.replace("export PATH=", own))
        done = finished(
            ["bash", str(program), *(["--before"] * before)],
            env={"FAIRWAY_SYSTEM_ROOT": str(self.root), "SLURMD_NODENAME": "nd-0"},
            check=not before,
        )
        self.said = done.returncode, done.stdout
        return told.read_text().splitlines()


class TestHealthCheck:
    """Problems that the program finds in a tree standing for a node."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Node:
        return Node(tmp_path)

    @pytest.mark.parametrize(
        ("state", "stays"),
        [("State=MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", True), ("State=IDLE+CLOUD", False)],
    )
    def test_health_check_keeps_first_boot_file_until_node_is_registered(
        self, node: Node, tmp_path: Path, state: str, stays: bool
    ) -> None:
        """slurmd also runs the check before it registers, and may die in between."""
        first = tmp_path / "root" / "run" / "fairway-slurm-first"
        first.parent.mkdir()
        first.touch()
        assert node.check(state=f"{state} Partitions=nd") == []
        assert first.exists() is stays

    PORT = "sys/class/infiniband/mlx5_0/ports/1"
    XID = "NVRM: Xid (PCI:0001:00:00): "

    @pytest.mark.parametrize(
        ("values", "file", "problem"),
        [
            ({}, "", ""),
            ({"gpus": "0, 0"}, "", "hardware: 1 of 2 GPUs"),
            ({"gpus": "failed\nat all"}, "", "hardware: nvidia-smi: failed"),
            ({"gpus": "0, 0\n1, 7"}, "", "hardware: uncorrected ECC errors: GPU 1: 7"),
            ({"kernel": f"[1.0] {XID}79, pid=1, GPU"}, "", "hardware: XID 79 on 0001:00:00"),
            # A fault of an application is not a fault of the node.
            ({"kernel": f"{XID}31, pid=7, name=python"}, "", ""),
            ({"links": f"{UP}{HALF}"}, "", "hardware: inactive NVLinks: GPU 1: 1"),
            ({"links": f"{UP}{DOWN}"}, "", "hardware: inactive NVLinks: GPU 1: all"),
            # Links are healthy if all are up, or none on any GPU.
            ({"links": UP}, "", ""),
            ({"links": DOWN}, "", ""),
            ({"free": 1}, "", "1 GiB free on /scratch"),
            ({"gpus": "0, 0", "free": 0}, "", "hardware: 1 of 2 GPUs; 0 GiB free on /scratch"),
            ({}, f"{PORT}/state 1: DOWN", "hardware: 1 of 2 InfiniBand adapters are up"),
            (
                *({}, f"{PORT}/rate 100 Gb/sec (4X EDR)"),
                "hardware: 1 InfiniBand adapters are slower than 400 Gb/s",
            ),
            ({}, "proc/mounts ", "/data is not mounted"),
            # A drained node is not drained again.
            ({"gpus": "0, 0", "state": "State=IDLE+DRAIN Reason=by hand [me@now]"}, "", ""),
        ],
    )
    def test_health_check_drains_faulty_node_with_reason(
        self, node: Node, values: dict[str, Any], file: str, problem: str
    ) -> None:
        if file:
            name, _, text = file.partition(" ")
            (node.root / name).write_text(f"{text}\n")
        drained = f"update nodename=nd-0 state=drain reason=fairway: {problem}"
        assert node.check(**values) == [drained] * bool(problem)

    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("fairway: hardware: 1 of 2 GPUs", ["update nodename=nd-0 state=resume"]),
            ("by hand", []),
            ("Azure: Preempt", []),
        ],
    )
    def test_health_check_resumes_only_nodes_it_drained(
        self, node: Node, reason: str, told: list[str]
    ) -> None:
        state = f"State=IDLE+CLOUD+DRAIN X=y Reason={reason} [root@2026-11-21T05:00:00]"
        assert node.check(state=state) == told

    def test_health_check_before_slurmd_prints_problems_without_scontrol(self, node: Node) -> None:
        assert node.check(before=True) == []
        assert node.said == (0, "")
        assert node.check(gpus="0, 0", free=0, before=True) == []
        assert node.said == (1, "hardware: 1 of 2 GPUs; 0 GiB free on /scratch; ")

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("exit 0", (0, "")),
            ("echo 'ERROR: nhc: check_nccl_allreduce: 310 GB/s' >$4; exit 1", (1, "310 GB/s; ")),
            ("exit 7", (1, "hardware: azurehpc: azurehpc-health-checks: exit code 7; ")),
            (None, (1, "the image has no {}/conf/nd96isr_h100_v5.conf; ")),
        ],
    )
    def test_health_check_before_slurmd_runs_checks_of_the_image(
        self, node: Node, body: str | None, said: tuple[int, str]
    ) -> None:
        folder = node.root / "opt/azurehpc/test/azurehpc-health-checks"
        (folder / "conf").mkdir(parents=True)
        if body is not None:
            (folder / "conf/nd96isr_h100_v5.conf").touch()
            executable(folder / "run-health-checks.sh", body)
        assert node.check(before=True, image_checks="nd96isr_h100_v5") == []
        code, text = node.said
        assert (code, text.endswith(said[1].format(folder))) == (said[0], True)


class TestProlog:
    """Programs that run on a node before and after a job."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Callable[[str, str], None]:
        """Runs one of the two programs for a job, with a hosts file and scontrol of the test."""
        commands, scratch = tmp_path / "commands", tmp_path / "scratch"
        commands.mkdir()
        scratch.mkdir()
        (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
        executable(commands / "scontrol", f"cat {tmp_path}/nodes")
        scripts = node_scripts(NodeFacts(), scratch=str(scratch))
        job = {"SLURM_JOB_ID": "12", "SLURM_NODELIST": "nd-[0-1]"}
        job |= {"SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GID": str(os.getgid())}
        for name in ("hosts", "first"):
            job[f"FAIRWAY_{name.upper()}_FILE"] = str(tmp_path / name)

        def run(name: str, nodes: str) -> None:
            (tmp_path / "nodes").write_text(nodes)
            (tmp_path / name).write_text(scripts[name].replace("PATH=/", f"PATH={commands}:/"))
            script = ["bash", str(tmp_path / name)]
            subprocess.run(script, env=job, check=True, capture_output=True)

        return run

    NODES = (
        "NodeName=nd-0 Arch=x86_64 NodeAddr=10.0.0.7 NodeHostName=nd-0 State=ALLOCATED\n"
        "NodeName=nd-1 Arch=x86_64 NodeAddr=10.0.0.8 NodeHostName=nd-1 State=ALLOCATED\n"
    )

    def test_prolog_writes_addresses_of_job_nodes_to_hosts(
        self, run: Callable[[str, str], None], tmp_path: Path
    ) -> None:
        hosts = tmp_path / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.0.0.3 nd-0 # fairway\n10.0.0.2 nd-5 # fairway\n")
        for _ in range(2):
            run("prolog", self.NODES)
            assert hosts.read_text().splitlines() == [
                "127.0.0.1 localhost",
                "10.0.0.2 nd-5 # fairway",
                "10.0.0.7 nd-0 # fairway",
                "10.0.0.8 nd-1 # fairway",
            ]

    @pytest.mark.parametrize(
        "plant",
        [
            "touch job-12",
            "ln -s ../other job-12",
            "mkdir job-12; touch job-12/planted; chown -R 30002 job-12",
        ],
    )
    def test_prolog_replaces_what_another_user_left_as_job_scratch(
        self, run: Callable[[str, str], None], tmp_path: Path, plant: str
    ) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        (tmp_path / "other").mkdir(mode=0o755)
        scratch = tmp_path / "scratch"
        subprocess.run(["sh", "-euc", plant], cwd=scratch, check=True)
        run("prolog", self.NODES)
        assert (scratch / "job-12").lstat().st_mode == stat.S_IFDIR | 0o700
        assert list((scratch / "job-12").iterdir()) == []
        assert (tmp_path / "other").stat().st_mode & 0o777 == 0o755
        (scratch / "job-12" / "data").touch()
        run("prolog", self.NODES)
        assert (scratch / "job-12" / "data").exists(), "the job's own"

    def test_prolog_creates_job_scratch_and_epilog_removes_it(
        self, run: Callable[[str, str], None], tmp_path: Path
    ) -> None:
        # A restarted slurmd must not report that the node booted.
        (tmp_path / "first").write_text('SLURMD_FIRST="-b"\n')
        run("prolog", "")
        assert (tmp_path / "hosts").read_text() == "127.0.0.1 localhost\n", "no addresses"
        assert not (tmp_path / "first").exists()
        folder = tmp_path / "scratch" / "job-12"
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "data").write_text("1")
        run("epilog", "")
        assert list((tmp_path / "scratch").iterdir()) == []
