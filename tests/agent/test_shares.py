"""Shares of a node: which GPUs and cores a task gets, as tasks start, end and are killed."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from programs import executable

from fairway_agent import machine, resources
from fairway_agent.fanout import remote_exec
from fairway_agent.fanout.launchers import free_port
from fairway_agent.machine import Host, Machine, allocate_share
from fairway_agent.records import InvalidRecord
from fairway_agent.resources import (
    Devices,
    Gpu,
    NeverFits,
    ResourceRequest,
    Share,
    numbers_of,
    ports_of,
)
from fairway_agent.ssh.cluster_nodes import NodeAllocator, Queue
from fairway_boot.cluster import users

# Two sockets, each with four GPUs and half of the cores.
_NEAR = (tuple(range(48)), tuple(range(48, 96)))
NODE = Devices(tuple(Gpu(n, _NEAR[n // 4]) for n in range(8)), tuple(range(96)), 96)
ONE = ResourceRequest(gpus=1)


def nvidia_smi(folder: Path, gpus: int) -> None:
    """Writes an nvidia-smi that lists that many GPUs."""
    lines = "\n".join(f"echo '{n}, 0000000{n}:00:00.0'" for n in range(gpus))
    executable(folder / "nvidia-smi", f'echo "$*" | grep -q index,pci.bus_id || exit 1\n{lines}')


def taken(node: Path, wanted: ResourceRequest, of: Devices = NODE) -> Share:
    share = allocate_share(node, of, wanted)
    assert share is not None
    return share


def test_ledger_gives_eight_tasks_separate_gpus_cores_and_ports(tmp_path: Path) -> None:
    """Each gets the cores beside its GPU; a ninth task waits until one has ended."""
    node = tmp_path / "n1"
    shares = [taken(node, ONE) for _ in range(8)]
    assert [share.gpus for share in shares] == [(n,) for n in range(8)]
    assert [share.cores for share in shares] == [tuple(range(n, n + 12)) for n in range(0, 96, 12)]
    assert {share.node_fraction for share in shares} == {1 / 8}
    ports = [range(first, last + 1) for first, last in (share.ports for share in shares)]
    assert len(set().union(*ports)) == sum(map(len, ports)) > 20_000
    assert allocate_share(node, NODE, ONE) is None
    machine.give_back(shares[3])
    again = taken(node, ONE)
    assert again == shares[3]
    for share in (*shares[:3], *shares[4:], again):
        machine.give_back(share)
    assert len(taken(node, ResourceRequest(gpus=8)).cores) == 96


def test_ledger_lends_gpus_that_lie_together_and_cores_that_are_free(tmp_path: Path) -> None:
    node = tmp_path / "n1"
    assert taken(node, ResourceRequest(gpus=3)).gpus == (0, 1, 2)
    both = taken(node, ResourceRequest(gpus=2))
    assert both.gpus == (4, 5), "3 is free, but the others of its socket are not"
    assert set(both.cores) <= set(_NEAR[1])
    assert taken(node, ResourceRequest(gpus=3)).gpus == (3, 6, 7)
    # No task has a core to itself there; everything else is its own.
    few = Devices(tuple(map(Gpu, range(8))), (0, 1), 2)
    shares = [taken(tmp_path / "n2", ONE, few) for _ in range(8)]
    assert [(share.gpus, share.cores) for share in shares] == [((n,), ()) for n in range(8)]
    assert len({share.numbers for share in shares}) == 8
    ports = [range(first, last + 1) for first, last in (share.ports for share in shares)]
    assert len(set().union(*ports)) == sum(map(len, ports)) > 8 * 2_000
    told = shares[3].environment()
    assert (told["FAIRWAY_GPUS"], told["FAIRWAY_CORES"]) == ("3", "")
    node = tmp_path / "n3"
    share = taken(node, ResourceRequest(cores=90))
    assert (share.gpus, len(share.cores)) == ((), 90)
    told = share.environment()
    assert (told["CUDA_VISIBLE_DEVICES"], told["ROCR_VISIBLE_DEVICES"]) == ("", "")
    assert told["FAIRWAY_CORES"] == "0-89"
    assert allocate_share(node, NODE, ResourceRequest(cores=7)) is None
    assert allocate_share(node, NODE, ONE) is None, "a GPU's part of the cores is not free"
    # Devices that a refused request considered are free for the next.
    assert taken(node, ResourceRequest(gpus=8, cores=6)).cores == tuple(range(90, 96))


@pytest.mark.parametrize(
    "wanted",
    [ResourceRequest(gpus=9), ResourceRequest(cores=97), ResourceRequest(gpus=1, cores=97)],
)
def test_ledger_take_of_more_than_any_node_has_is_refused(
    tmp_path: Path, wanted: ResourceRequest
) -> None:
    with pytest.raises(NeverFits, match=f"needs {wanted}, and the node has 8 GPUs and 96 cores"):
        allocate_share(tmp_path / "n1", NODE, wanted)


HOLDER = """
import signal, subprocess, sys
from pathlib import Path
sys.path[:0] = {path!r}
from fairway_agent.machine import allocate_share
from fairway_agent.resources import Devices, Gpu, ResourceRequest
node = Devices(tuple(map(Gpu, range(8))), tuple(range(96)), 96)
share = allocate_share(Path({file!r}), node, ResourceRequest(gpus=8))
words = ["sh", "-c", "echo $$; exec sleep 1000"]
child = subprocess.Popen(words, pass_fds=[share.lock] * {keeps}, start_new_session=True)
signal.pause()
"""


@pytest.mark.parametrize("keeps", [False, True])
def test_ledger_share_of_a_killed_process_is_free_again(tmp_path: Path, keeps: bool) -> None:
    """No message is needed; if the task inherited the lock, the task must be gone too."""
    program = HOLDER.format(path=sys.path, file=str(tmp_path / "n1"), keeps=int(keeps))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        task = int(process.stdout.readline())
        node = tmp_path / "n1"
        assert allocate_share(node, NODE, ONE) is None
        end = os.pidfd_open(task)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (allocate_share(node, NODE, ONE) is None) is keeps
        os.kill(task, signal.SIGKILL)
        assert select.select([end], [], [], 300)[0]
        os.close(end)
    assert len(taken(node, ResourceRequest(cores=50)).cores) == 50
    assert keeps is False or len(taken(node, ResourceRequest(gpus=7, cores=1)).gpus) == 7


def test_ledger_share_given_back_is_free_while_a_daemon_keeps_the_file_open(tmp_path: Path) -> None:
    node = tmp_path / "n1"
    share = taken(node, ResourceRequest(gpus=8))
    copy = os.dup(share.lock)
    machine.give_back(share)
    again = taken(node, ResourceRequest(gpus=8))
    assert len(again.gpus) == 8
    machine.give_back(again)
    os.close(copy)


class TestDevices:
    @pytest.fixture
    def path(self, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Returns the folder that is first on PATH."""
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return programs

    def test_devices_are_those_visible_to_this_process(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nvidia_smi(path, 2)
        near = tmp_path / "sys/bus/pci/devices/0001:00:00.0/local_cpulist"
        near.parent.mkdir(parents=True)
        near.write_text("0-3,8\n")
        found = resources.look(tmp_path)
        assert found.gpus == (Gpu(0), Gpu(1, (0, 1, 2, 3, 8)))
        assert found.cores == tuple(sorted(os.sched_getaffinity(0)))
        assert Devices.from_json(json.loads(json.dumps(found.to_json()))) == found
        nvidia_smi(path, 8)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        assert [gpu.index for gpu in resources.look(tmp_path).gpus] == [3, 5]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert resources.look(tmp_path).gpus == ()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f3a")
        assert len(resources.look(tmp_path).gpus) == 8
        executable(path / "nvidia-smi", "echo 0, 00000000:00:00.0; exit 9")
        assert resources.look(tmp_path).gpus == ()

    def test_devices_come_from_device_files_without_nvidia_smi(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        (tmp_path / "dev").mkdir()
        for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
            (tmp_path / "dev" / name).touch()
        assert [gpu.index for gpu in resources.look(tmp_path).gpus] == [0, 2, 10]

    def test_devices_of_amd_are_in_driver_order(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        for node, (gpu, place) in {"0": (0, 0), "10": (77, 0x0300), "2": (5, 0x8108)}.items():
            folder = tmp_path / "sys/class/kfd/kfd/topology/nodes" / node
            folder.mkdir(parents=True)
            (folder / "gpu_id").write_text(f"{gpu}\n")
            (folder / "properties").write_text(f"simd_count 304\nlocation_id {place}\ndomain 2\n")
        near = tmp_path / "sys/bus/pci/devices/0002:81:01.0/local_cpulist"
        near.parent.mkdir(parents=True)
        near.write_text("4-5\n")
        assert resources.look(tmp_path).gpus == (Gpu(0, (4, 5)), Gpu(1))

    @pytest.mark.parametrize(
        "facts",
        [
            {"gpus": [], "cores": [], "processors": 4},
            {"gpus": [], "cores": [-1], "processors": 4},
            {"gpus": [], "cores": [10**9], "processors": 4},
            {"gpus": [], "cores": [4], "processors": 4},
            {"gpus": [{"index": 0, "near": "0-3"}], "cores": [0], "processors": 4},
        ],
    )
    def test_devices_from_invalid_facts_are_refused(self, facts: object) -> None:
        with pytest.raises(InvalidRecord):
            Devices.from_json(facts)


class TestNodes:
    @pytest.fixture
    def shared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Returns a folder in which two nodes have announced themselves, each with eight GPUs."""
        folder = tmp_path / "clusters" / "pair" / "hosts"
        folder.mkdir(parents=True)
        for name in ("node-1", "node-2"):
            (folder / name).write_text(f"{name}\n")
        said = json.dumps(NODE.to_json())

        def printed(host: str, argv: Sequence[str]) -> str:
            assert argv[-1] == "fairway_agent.resources"
            return f"welcome\n{said}\n"

        monkeypatch.setattr(remote_exec, "output_of", printed)
        monkeypatch.setattr(remote_exec, "unreachable", lambda _: [])
        return tmp_path

    def of(self, shared: Path, run: str) -> NodeAllocator:
        return NodeAllocator(Queue(shared, "pair", run))

    def one(self, nodes: NodeAllocator, wanted: ResourceRequest = ONE) -> Host:
        found = nodes.take(1, 1, wanted)
        return found[0]

    def places(self, hosts: Sequence[Host]) -> list[tuple[str, int]]:
        return [(host.name, host.share.gpus[0]) for host in hosts if host.share is not None]

    def test_nodes_are_filled_one_after_the_other(self, shared: Path) -> None:
        run = self.of(shared, "a")
        found = [self.one(run) for _ in range(12)]
        places = [("node-1", n) for n in range(8)] + [("node-2", n) for n in range(4)]
        assert self.places(found) == places
        run.give_back([found[2]], 1)
        assert self.places([self.one(run), self.one(run)]) == [("node-1", 2), ("node-2", 4)]
        assert run.take(1, 1, ResourceRequest(gpus=4)) is None
        assert run.reason == "waits for 4 GPUs of a node: 0 free of 2 that are up"
        assert users(shared, "pair") == {"node-1": "a", "node-2": "a"}

    def test_nodes_are_never_shared_by_two_runs(self, shared: Path) -> None:
        run, whole, other = (self.of(shared, name) for name in "acb")
        first = [self.one(run), self.one(run)]
        run.rest()
        assert self.places([self.one(other)]) == [("node-2", 0)]
        other.rest()
        assert whole.take(1, 1) is None
        assert whole.reason == "waits for 1 node: 0 free of 2 that are up; a uses 1, b uses 1"
        assert other.take(1, 1, ONE) is None, "though its node has room: another is before it"
        assert other.reason == "waits behind c"
        run.give_back(first[:1], 1)
        assert whole.take(1, 1) is None
        run.give_back(first[1:], 1)
        assert [host.name for host in whole.take(1, 1) or []] == ["node-1"]
        assert users(shared, "pair") == {"node-1": "c", "node-2": "b"}

    def test_nodes_unused_by_a_later_run_go_to_the_first_run_in_the_queue(
        self, shared: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A resting run wants nodes again while the other queries the devices of its new node."""
        first, second = self.of(shared, "a"), self.of(shared, "b")
        said = remote_exec.output_of

        def printed(host: str, argv: Sequence[str]) -> str:
            assert first.take(2, 2) is None
            return said(host, argv)

        monkeypatch.setattr(remote_exec, "output_of", printed)
        host = self.one(second)
        assert second.take(1, 1, ONE) is None
        second.give_back([host], 1)
        assert [each.name for each in first.take(2, 2) or []] == ["node-1", "node-2"]

    def test_nodes_that_are_too_small_are_skipped(
        self, shared: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first node has no GPUs; the second has enough for the task."""
        small, large = json.dumps({**NODE.to_json(), "gpus": []}), json.dumps(NODE.to_json())
        monkeypatch.setattr(
            remote_exec, "output_of", lambda host, _: small if host == "node-1" else large
        )
        run = self.of(shared, "a")
        assert self.places([self.one(run, ResourceRequest(gpus=4))]) == [("node-2", 0)]
        assert users(shared, "pair") == {"node-2": "a"}

    def test_nodes_are_free_again_after_a_start_on_a_full_disk(
        self, shared: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> str:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        run = self.of(shared, "a")
        with monkeypatch.context() as patch:
            patch.setattr(remote_exec, "output_of", full)
            with pytest.raises(OSError, match="No space"):
                run.take(1, 1, ONE)
        assert self.places([self.one(run)]) == [("node-1", 0)]

    def test_nodes_take_of_more_than_any_node_has_is_refused(self, shared: Path) -> None:
        with pytest.raises(NeverFits, match="needs 9 GPUs, and the node has 8 GPUs"):
            self.of(shared, "a").take(1, 1, ResourceRequest(gpus=9))
        assert users(shared, "pair") == {}

    def test_nodes_that_report_invalid_devices_are_skipped(
        self, shared: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = {"node-1": '{"gpus": "\x1b[2J"}', "node-2": "[" * 100_000}
        monkeypatch.setattr(remote_exec, "output_of", lambda host, _: said[host])
        nodes = self.of(shared, "a")
        assert nodes.take(1, 1, ONE) is None
        assert nodes.reason.startswith("waits for 1 GPU of a node: 0 free of 0 that are up")
        assert nodes.take(1, 1) is None, "until they announce themselves again"
        assert users(shared, "pair") == {}


class TestMachine:
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
        monkeypatch.setattr(resources, "look", lambda: NODE)

    def test_machine_is_shared_by_two_runs_of_a_user(self) -> None:
        first, second = Machine(), Machine()
        mine = first.take(1, 1, ResourceRequest(gpus=7))
        other = second.take(1, 1, ONE)
        assert mine
        assert other
        assert other[0].share.gpus == (7,)
        assert second.take(1, 1, ONE) is None
        assert (second.pause, second.reason) == (0.5, "waits for 1 GPU of this machine")
        first.give_back(mine, 1)
        assert second.take(1, 1, ONE)
        assert second.pause is None

    def test_machine_take_without_devices_waits_while_its_cores_are_taken(self) -> None:
        run = Machine()
        assert run.take(1, 10_000) == []
        assert run.take(1, 1) is None
        assert run.pause is None
        run.give_back([], 10_000)
        assert run.take(1, 1) == []

    def test_machine_ledger_folder_of_another_user_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / f"fairway-devices-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PermissionError, match="not a folder of this user's alone"):
            Machine().take(1, 1, ONE)


def test_free_port_prefers_the_ports_of_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share((0,), (12, 13, 40), 0.125, (12_844, 13_317))
    own = ports_of(share.environment())
    assert own == (12_844, 13_317)
    assert 12_844 <= free_port(4, own) <= 13_314
    assert ports_of({}) is None
    monkeypatch.setattr(
        "fairway_agent.fanout.launchers._is_free", lambda port: not 12_844 <= port <= 13_317
    )
    assert free_port(1, own) not in range(12_844, 13_318), "where all of them are taken"


def test_share_pins_the_process_to_its_cores() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    with Share((), (core,), 0.5, (0, 0)).pinned():
        said = subprocess.check_output(["taskset", "-cp", str(os.getpid())], text=True)
        assert said.rpartition(" ")[2].strip() == str(core)
    assert os.sched_getaffinity(0) == before
    with Share((), (4000,), 0.5, (0, 0)).pinned():  # taken from the node meanwhile
        assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("text", ["a", "1-", "-", "0--1"])
def test_numbers_of_refuses_text_that_is_no_list_of_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of numbers"):
        numbers_of(text)
