"""Machines that stop themselves when nobody uses them, with a fake clock and stand-in programs."""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from programs import executable

from fairway_agent.ssh.cluster_nodes import Queue
from fairway_boot import cluster, files, gpus, http, idle_stop
from fairway_boot.idle_stop import Settings, Watch
from fairway_boot.imds import Machine

VM = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/box"
SETS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets"
HOUR = 3600.0
SESSION = {"Name": "ada", "Class": "user", "State": "active"}


@dataclass
class World:
    """A machine with its sessions and GPUs; `broken` is the program that fails, and `asked` has the
    requests to Azure."""

    folder: Path
    now: float = 100.0
    sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    who: str = ""
    broken: str = ""
    gpus: dict[int, float | None] | None = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    others: bool = False
    mount: str = ""
    id: str = VM

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def look(self, later: float = 0.0) -> str:
        """Returns the program's answer some seconds later."""
        self.now += later
        settings = Settings(2 * HOUR, "box", str(self.shared), self.mount, others=self.others)
        metadata: Any = SimpleNamespace(
            machine=lambda: Machine("box", "", self.id),
            bearer=lambda resource: {"Authorization": f"Bearer for {resource}"},
        )
        return Watch(settings, self.folder, metadata, lambda: self.now).look()

    def run(self, words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        if words[0] == self.broken and how["check"]:
            raise subprocess.CalledProcessError(1, words)
        if words[0] == "who":
            text = self.who
        elif words[1] == "list-sessions":
            text = "".join(f"{each:>7} 1000 ada seat0\n" for each in self.sessions)
        else:
            facts = self.sessions.get(words[-1], {})
            text = "".join(f"{name}={value}\n" for name, value in facts.items())
        return subprocess.CompletedProcess(words, 0, text)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Returns a machine that nothing uses."""
    found = World(tmp_path)
    found.shared.mkdir()
    monkeypatch.setattr(idle_stop.subprocess, "run", found.run)
    monkeypatch.setattr(idle_stop.shutil, "which", lambda _: "/bin/loginctl")
    monkeypatch.setattr(gpus, "current_load", lambda: found.gpus)

    def send(method: str, url: str, *, headers: dict[str, str]) -> None:
        assert headers["Authorization"] == "Bearer for https://management.azure.com/"
        found.asked.append(f"{method} {url.removeprefix('https://management.azure.com')}")

    monkeypatch.setattr(http, "send", send)
    return found


def test_idle_stop_deallocates_after_the_idle_time_counted_from_boot(world: World) -> None:
    assert world.look() == "idle for 0 of 120 minutes"
    assert world.look(2 * HOUR - 1) == "idle for 120 of 120 minutes"
    assert world.asked == []
    assert world.look(1) == "idle for 120 of 120 minutes: it stops"
    assert world.asked == [f"POST {VM}/deallocate?api-version=2024-07-01"]


def test_idle_stop_does_not_stop_after_the_clock_was_set_back(world: World) -> None:
    world.look(3 * HOUR)
    assert world.look(-3 * HOUR) == "idle for 0 of 120 minutes"
    assert world.asked == []


@pytest.mark.parametrize(
    "damaged", [b"", b"x", b"\xff", b"null", b"[]", b"NaN", b"Infinity", b"9" * 400]
)
def test_idle_stop_restarts_its_count_if_its_record_is_damaged(
    world: World, damaged: bytes
) -> None:
    world.look()
    (world.folder / "used").write_bytes(damaged)
    assert world.look(3 * HOUR) == "idle for 0 of 120 minutes"
    assert world.look(2 * HOUR).endswith("it stops")


@pytest.mark.parametrize("machine", ["", "@evil.example/subscriptions/s", ".evil.example"])
def test_idle_stop_sends_no_token_to_an_address_of_a_broken_metadata_service(
    world: World, machine: str
) -> None:
    world.id = machine
    world.look()
    with pytest.raises(http.Failure, match="names no machine"):
        world.look(3 * HOUR)
    assert world.asked == []


def test_idle_stop_restarts_its_count_at_each_use(world: World) -> None:
    world.look()
    for use in ("run", "waits", "login", "gpu"):
        queue = Queue(world.shared, "box", "train")
        if use == "run":
            held = queue.take(1)
            queue.rest()
            said = "the run "
        elif use == "waits":
            other = Queue(world.shared, "box", "other")
            held = other.take(1)
            other.rest()
            assert queue.take(1) == []
            other.give_back(held)
            said = "the run train"
        elif use == "login":
            world.sessions["7"] = SESSION
            said = "ada is logged in"
        else:
            world.gpus = {0: 0.0, 1: 0.05}
            said = "GPU 1 is 5% busy"
        assert world.look(2 * HOUR).startswith(f"in use: {said}"), use
        if use == "run":
            queue.give_back(held)
        queue.rest()
        world.sessions.clear()
        world.gpus = {0: 0.0, 1: 0.04}
        assert world.look(HOUR) == "idle for 60 of 120 minutes"
    assert world.asked == []
    world.look(HOUR)
    assert len(world.asked) == 1


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({"State": "online"}, True),
        ({"Class": "user-early"}, True),
        ({"State": "closing"}, False),  # programs that a user has left behind
        ({"Class": "manager"}, False),
        ({"Class": "greeter"}, False),
        ({"Class": "background"}, False),  # cron
    ],
)
def test_idle_stop_counts_only_open_sessions_of_users_as_use(
    world: World, facts: dict[str, str], counts: bool
) -> None:
    world.sessions = {"1": {}, "c2": {**SESSION, **facts}}  # the first has just ended
    assert (world.look() == "in use: ada is logged in") is counts


def test_idle_stop_without_logind_uses_who(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_stop.shutil, "which", lambda _: None)
    assert world.look().startswith("idle")
    world.who = "bob      pts/0        2026-11-23 11:52 (10.40.0.9)\n"
    assert world.look() == "in use: bob is logged in"


def test_idle_stop_unknown_gpu_use_or_unmounted_folder_counts_as_use(world: World) -> None:
    world.gpus = None
    assert world.look(9 * HOUR) == "in use: nobody knows what its GPUs do, as nvidia-smi fails"
    world.gpus = {0: 0.0, 3: None}
    assert world.look(9 * HOUR) == "in use: GPU 3 does not tell how busy it is"
    world.gpus, world.mount = {}, str(world.shared)
    said = f"in use: {world.shared} is not mounted, so that nobody knows of runs"
    assert world.look(9 * HOUR) == said
    assert world.asked == []


@pytest.mark.parametrize("program", ["loginctl", "who"])
def test_idle_stop_counts_a_program_that_fails_as_use(
    world: World, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """loginctl prints nothing if it gets no answer, as if no user were logged in."""
    monkeypatch.setattr(idle_stop.shutil, "which", lambda _: program == "loginctl" or None)
    world.look()
    world.broken = program
    with pytest.raises(subprocess.CalledProcessError):
        world.look(9 * HOUR)
    world.broken = ""
    assert world.look(60) == "idle for 1 of 120 minutes"
    assert world.asked == []


def test_idle_stop_does_not_take_the_check_of_another_node_for_a_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node holds the locks of all nodes for a moment every minute."""
    queue = Queue(world.shared, "box", "train")
    queue.give_back(queue.take(1))
    queue.rest()
    looks, user_of = [], cluster.user_of

    def look(node: Path) -> str | None:
        looks.append(node)
        assert files.try_lock(queue.folder / "queue.lock") is None, "another could look as well"
        return user_of(node)

    monkeypatch.setattr(cluster, "user_of", look)
    assert world.look().startswith("idle")
    assert len(looks) == 1


def _announce(world: World, *names: str) -> Path:
    folder = world.shared / "clusters" / "box"
    (folder / "hosts").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "hosts" / name).write_text(f"{name}\n")
    return folder


def _age(file: Path) -> None:
    old = time.time() - cluster.FRESH - 1
    os.utime(file, (old, old))


def test_idle_stop_of_several_nodes_waits_until_all_are_idle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.others, world.id = True, f"{SETS}/lab-vmss-pair/virtualMachines/1"
    folder = _announce(world, "node-2", "node-10")
    monkeypatch.setattr(cluster, "own_name", lambda: "node-2")
    world.look()
    assert world.look(2 * HOUR).endswith("; node-10 has not been idle for so long")
    (folder / "idle" / "node-10").write_text("7199")
    assert world.look(60).endswith("; node-10 has not been idle for so long")
    (folder / "idle" / "node-10").write_text("7200")
    _age(folder / "idle" / "node-10")
    assert world.look(60).endswith("; node-10 has not been idle for so long"), "nobody knows now"
    for junk in ("", "{", "null", "[" * 100_000, '"idle"'):
        (folder / "idle" / "node-10").write_text(junk)
        assert world.look().endswith("; node-10 has not been idle for so long")
    (folder / "idle" / "node-10").write_text("7200")
    monkeypatch.setattr(cluster, "own_name", lambda: "node-10")
    assert world.look().endswith("; node-2 stops all nodes")
    assert world.asked == []
    monkeypatch.setattr(cluster, "own_name", lambda: "node-2")
    assert world.look().endswith(": it stops")
    assert world.asked == [f"POST {SETS}/lab-vmss-pair/deallocate?api-version=2024-07-01"]
    (folder / "idle" / "node-10").write_text("0")
    _age(folder / "hosts" / "node-10")
    assert world.look().endswith(": it stops"), "one that is gone keeps none from it"


def test_idle_stop_of_nodes_that_do_not_announce_themselves_stops_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.others = True
    monkeypatch.setattr(cluster, "own_name", lambda: "node-1")
    world.look()
    said = "; it does not announce itself, so that nobody knows of the other nodes"
    assert world.look(2 * HOUR).endswith(said)
    folder = _announce(world, "node-1", "node-2")
    for name in ("node-1", "node-2"):
        _age(folder / "hosts" / name)
    assert world.look(60).endswith(said)
    assert world.asked == []


def test_idle_stop_counts_a_run_on_another_node_as_use(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.others = True
    _announce(world, "node-1", "node-2")
    queue = Queue(world.shared, "box", "train")
    assert len(queue.take(2)) == 2
    monkeypatch.setattr(cluster, "own_name", lambda: "node-2")
    assert world.look(9 * HOUR).startswith("in use: the run")


def test_idle_stop_program_prints_its_result_or_a_failure_in_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.folder / "idle.json"
    file.write_text(json.dumps({"after": 7200.0, "cluster": "box", "folder": str(world.shared)}))
    monkeypatch.setattr(idle_stop.sys, "argv", ["idle_stop", str(file), str(world.folder)])
    idle_stop.main()
    assert capsys.readouterr().out == "fairway-idle: idle for 0 of 120 minutes\n"
    for error, said in (
        (subprocess.TimeoutExpired("loginctl", 30), "nobody knows whether .*loginctl"),
        (http.Failure(403, "Denied", "no role"), "Azure does not stop this machine: Denied"),
    ):
        monkeypatch.setattr(Watch, "look", Mock(side_effect=error))
        with pytest.raises(SystemExit, match=said):
            idle_stop.main()


class TestGpus:
    """Current use of GPUs, with a stand-in for nvidia-smi."""

    def test_gpu_use_is_read_for_each_gpu_and_unknown_if_the_program_fails(
        self, programs: Path
    ) -> None:
        lines = "echo '0, 97, 70123, 81559, 643.21'; echo '1, [N/A], 10, 81559, 60.1'; echo junk"
        executable(programs / "nvidia-smi", lines)
        assert gpus.current_load() == {0: 0.97, 1: None}
        executable(programs / "nvidia-smi", f"{lines}; exit 9")
        assert gpus.current_load() is None
        executable(programs / "nvidia-smi", "echo 'Unable to determine the device handle for GPU0'")
        assert gpus.current_load() is None, "its GPUs may work"
        executable(programs / "nvidia-smi", "echo No devices were found")
        assert gpus.current_load() == {}

    def test_gpu_use_without_nvidia_smi_is_read_from_the_amd_driver(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shutil, "which", lambda _: None)
        assert gpus.current_load(tmp_path) == {}
        device = tmp_path / "class" / "drm" / "card0" / "device"
        device.mkdir(parents=True)
        (device / "gpu_busy_percent").write_text("42\n")
        assert gpus.current_load(tmp_path) == {0: 0.42}
