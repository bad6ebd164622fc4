"""Usage figures of a node, from the kernel's files and from GPU tools."""

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from programs import executable, finished
from waiting import PATIENCE, until

from fairway_agent.sampler import Machine, Sampling, node_name, sampler
from fairway_boot.files import try_lock
from fairway_boot.gpus import Gpus, dcgm_line, nvidia_line

# A node with two Ethernet adapters, one of which belongs to the other.
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 9000 9 0 0 0 0 0 0 9000 9 0 0 0 0 0 0
  eth0: {received} 7 0 0 0 0 0 0 {sent} 8 0 0 0 0 0 0
enP1s2: {received} 7 0 0 0 0 0 0 {sent} 8 0 0 0 0 0 0
"""
DISKS = """\
   8       0 sda 10 0 {read} 5 20 0 {written} 9 0 4 4
   8       1 sda1 10 0 {read} 5 20 0 {written} 9 0 4 4
   9       0 md0 10 0 {read} 5 20 0 {written} 9 0 4 4
"""


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def grow(node: Path, times: int) -> None:
    """Sets a node's counters to their values after that many intervals of ten seconds."""
    write(node / "proc/stat", f"cpu  {600 * times} 0 {200 * times} {1100 * times} {100 * times}\n")
    waited = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={3_800_000 * times}\n"
    write(node / "proc/pressure/io", waited + "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
    write(node / "proc/diskstats", DISKS.format(read=2000 * times, written=4000 * times))
    write(node / "proc/net/dev", NET.format(received=5000 * times, sent=70_000 * times))
    for adapter in ("mlx5_ib0", "mlx5_ib1"):
        port = node / "sys/class/infiniband" / adapter / "ports/1"
        write(port / "counters/port_xmit_data", f"{10_000_000_000 * times}\n")
        write(port / "counters/port_rcv_data", f"{5_000_000_000 * times}\n")


def belong(node: Path, adapter: str, master: str) -> None:
    """Writes the link by which the kernel names the master of an adapter."""
    (node / "sys/class/net" / master).mkdir(parents=True, exist_ok=True)
    link = node / "sys/class/net" / adapter / "master"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../{master}")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Returns a node with two InfiniBand ports at 400 Gb/s and an Ethernet adapter."""
    write(tmp_path / "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n")
    for name in ("sda", "eth0", "enP1s2"):
        kind = "block" if name == "sda" else "class/net"
        (tmp_path / "sys" / kind / name / "device").mkdir(parents=True)
    belong(tmp_path, "enP1s2", "eth0")
    for adapter in ("mlx5_ib0", "mlx5_ib1", "mlx5_an0"):
        port = tmp_path / "sys/class/infiniband" / adapter / "ports/1"
        write(port / "rate", "400 Gb/sec (4X NDR)\n")
        kind = "Ethernet" if adapter == "mlx5_an0" else "InfiniBand"
        write(port / "link_layer", f"{kind}\n")
    grow(tmp_path, 1)
    return tmp_path


def test_figures_rates_are_computed_between_samples_and_never_negative(node: Path) -> None:
    machine = Machine(node / "proc", node / "sys")
    first = machine.sample(100.0)
    assert first == {"memory": 614_400, "memory_total": 1_024_000, "fabric_limit": 100e9}
    grow(node, 2)
    found = machine.sample(110.0)
    assert found["cpu"] == pytest.approx(0.4)
    assert found["io_wait"] == pytest.approx(0.38)
    assert (found["disk_read"], found["disk_written"]) == (2000 * 51.2, 4000 * 51.2)
    assert (found["received"], found["sent"]) == (500, 7000)  # once, and without lo
    assert (found["fabric_sent"], found["fabric_received"]) == (8e9, 4e9)
    machine = Machine(node / "proc", node / "sys")
    grow(node, 9)
    machine.sample(100.0)
    grow(node, 1)
    assert all(value >= 0 for value in machine.sample(110.0).values())


def test_figures_unknown_to_the_kernel_are_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path)
    assert machine.sample(1.0) == machine.sample(2.0) == {}


def test_figures_count_adapters_without_a_device_if_there_are_no_others(node: Path) -> None:
    """A network namespace has only such adapters."""
    for name in ("eth0", "enP1s2"):
        (node / "sys/class/net" / name / "device").rmdir()
    machine = Machine(node / "proc", node / "sys")
    machine.sample(100.0)
    grow(node, 2)
    assert machine.sample(110.0)["sent"] == 14_000


def test_figures_count_the_traffic_of_a_bond_once(node: Path) -> None:
    """The bond itself is not a device, and repeats the counters of its adapters."""
    for name in ("eth0", "enP1s2"):
        belong(node, name, "bond0")
    bond = " bond0: {twice} 7 0 0 0 0 0 0 {twice} 8 0 0 0 0 0 0\n"
    machine = Machine(node / "proc", node / "sys")
    for times in (1, 2):
        text = NET.format(received=5000 * times, sent=70_000 * times)
        write(node / "proc/net/dev", text + bond.format(twice=140_000 * times))
        found = machine.sample(100.0 + 10 * times)
    assert (found["received"], found["sent"]) == (1000, 14_000)


def test_figures_of_this_machine_and_its_gpus_omit_unknown_values() -> None:
    machine = Machine()
    machine.sample(time.monotonic())
    deadline = time.monotonic() + PATIENCE
    while "cpu" not in (found := machine.sample(time.monotonic())):  # counted in hundredths
        assert time.monotonic() < deadline
    assert 0 <= found["cpu"] <= 1
    assert 0 < found["memory"] < found["memory_total"]
    known = {"memory": 10 * 2**20, "memory_total": 20 * 2**20}
    assert nvidia_line("0, [N/A], 10, 20, [Not Supported]") == (0, known)
    assert dcgm_line("GPU 1    N/A    7") == (1, {"nvlink_received": 7.0})
    assert dcgm_line("#Entity   NVLTX   NVLRX") is None


@pytest.mark.parametrize(
    "line",
    ["", "0, 1", "Failed to initialize NVML: Driver/library version mismatch", "x, 1, 2, 3, 4"],
)
def test_figures_lines_that_describe_no_gpu_are_skipped(line: str) -> None:
    assert nvidia_line(line) is None
    assert dcgm_line(line) is None


def test_figures_of_nvidia_gpus_come_from_nvidia_smi_and_dcgmi(
    tmp_path: Path, programs: Path
) -> None:
    """Both programs keep running and print their lines at each interval."""
    printed = {
        "nvidia-smi": "0, 90, 70000, 80000, 600.5\n1, 10, 1, 80000, 99\n",
        "dcgmi": "#Entity  NVLTX  NVLRX\nID\nGPU 0   1000   2000\nGPU 1   0   0\n",
    }
    for name, text in printed.items():
        said = f'echo "$@" >{tmp_path}/{name}.words\nprintf "{text}"\nexec sleep 600'
        executable(programs / name, said)
    gpus = Gpus(10.0, tmp_path)
    gpus.start()
    try:
        deadline = time.monotonic() + PATIENCE
        both = {"use", "nvlink_sent"}
        while len(found := gpus.sample()) < 2 or any(both - each.keys() for each in found):
            assert time.monotonic() < deadline, found
    finally:
        gpus.stop()
    assert found[0] == {
        "index": 0,
        "use": 0.9,
        "memory": 70000 * 2**20,
        "memory_total": 80000 * 2**20,
        "power": 600.5,
        "nvlink_sent": 1000.0,
        "nvlink_received": 2000.0,
    }
    assert (found[1]["index"], found[1]["use"]) == (1, 0.1)
    asked = (tmp_path / "nvidia-smi.words").read_text()
    assert "--query-gpu=index,utilization.gpu,memory.used,memory.total,power.draw" in asked
    assert "-l 10" in asked
    assert (tmp_path / "dcgmi.words").read_text() == "dmon -e 1011,1012 -d 10000\n"
    assert gpus.sample() == []  # they have ended


def test_figures_of_amd_gpus_come_from_the_driver_files(tmp_path: Path) -> None:
    device = tmp_path / "class/drm/card1/device"
    write(device / "gpu_busy_percent", "87\n")
    write(device / "mem_info_vram_used", "1024\n")
    write(device / "mem_info_vram_total", "2048\n")
    write(device / "hwmon/hwmon3/power1_average", "450000000\n")
    assert Gpus(10.0, tmp_path).sample() == [
        {"index": 0, "use": 0.87, "memory": 1024, "memory_total": 2048, "power": 450}
    ]


def lines_of(folder: Path, count: int) -> list[str]:
    """Waits for that many samples in the folder's only file and returns them."""

    def look() -> list[str]:
        found = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
        return found if len(found) >= count else []

    return until(look)


def test_sampler_waits_while_another_sampler_of_the_run_has_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "figures" / f"{node_name()}.jsonl"
    file.parent.mkdir()
    lock = try_lock(file)
    assert lock is not None
    process = subprocess.Popen(sampler(tmp_path, 0.02), start_new_session=True)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        assert file.read_text() == ""
        os.close(lock)
        lines_of(file.parent, 1)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_sampler_uses_slurm_node_name_and_ends_when_its_parent_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "nd-7")
    words = sampler(tmp_path, 0.05)
    script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    parent = subprocess.Popen(["python3", "-c", script, *words], start_new_session=True)
    for line in lines_of(tmp_path / "figures", 2):
        assert json.loads(line)["memory"] > 0
    assert [file.name for file in (tmp_path / "figures").iterdir()] == ["nd-7.jsonl"]
    [child] = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    end = os.pidfd_open(int(child))
    parent.kill()
    parent.wait()
    assert select.select([end], [], [], PATIENCE)[0]
    os.close(end)


def test_sampler_stopped_at_startup_ends_and_leaves_no_gpu_program(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    process = subprocess.Popen(sampler(tmp_path, 0.05, ended.pid))
    try:
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    assert list((tmp_path / "figures").iterdir()) == []
    executable(tmp_path / "nvidia-smi", "exec sleep 60")
    script = """
import os, signal
from fairway_agent import sampler
from fairway_boot import gpus

def start(self, start=gpus.Gpus.start):
    start(self)
    print(self.streams[0]._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

gpus.Gpus.start = start
sampler.main()
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [sys.executable, "-c", script, str(tmp_path), "60"]
    ended = finished(words, env=environment, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stdout), 0)


def test_sampler_continues_after_gpus_that_cannot_be_read(tmp_path: Path) -> None:
    script = """
from fairway_agent import sampler
from fairway_boot import gpus

def sample(self):
    gpus.Gpus.sample = lambda self: []
    raise OSError

gpus.Gpus.sample = sample
sampler.main()
"""
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), "0.05"])
    try:
        assert '"gpus":[]' in lines_of(tmp_path / "figures", 1)[0]
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_sampling_does_not_start_for_a_short_task() -> None:
    asked: list[float] = []
    sampling = Sampling(3600.0, lambda seconds: asked.append(seconds) or ["true"])
    sampling.keep()
    assert sampling.due() is not None
    assert sampling.wait_for(subprocess.Popen(["sh", "-c", "exit 7"])) == 7
    assert (asked, sampling.pid, sampling.due()) == ([], 0, None)


@pytest.mark.parametrize("off", [None, 0.0])
def test_sampling_that_is_off_or_cannot_start_does_not_affect_the_task(off: float | None) -> None:
    sampling = Sampling(off, lambda _: ["/nowhere/sampler"])
    sampling.keep()
    assert (sampling.pid, sampling.due()) == (0, None)
    assert sampling.wait_for(subprocess.Popen(["true"])) == 0
