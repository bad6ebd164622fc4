"""Steps by which an instance becomes a node, with a real munge, and leaves before its eviction."""

import base64
import http.client
import json
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from programs import finished
from serving import in_thread
from waiting import until

from fairway_agent.fanout.launchers import free_port
from fairway_boot.imds import Event, Machine
from fairway_boot.slurm import eviction, munge, node
from fairway_boot.slurm.claim_service import ClaimServer, claim
from fairway_boot.slurm.node_registry import open_registry
from fairway_boot.slurm.settings import Settings, metadata_service

Lab = Any

pytestmark = pytest.mark.integration

ME = Machine("v_7", "aaaa-7", "/subscriptions/s/…/virtualMachines/7")


@pytest.fixture
def service(lab: Lab, munge: Path) -> Iterator[Settings]:
    """Runs the scheduler's service and yields the settings with which a node finds it."""
    port = free_port()
    lab.set(
        bin="",
        munge_socket=str(munge),
        claim_port=port,
        partition="nd",
        scheduler="127.0.0.1:6817",
        name_file=str(lab.folder / "name"),
        first_file=str(lab.folder / "first"),
        munge_key=str(lab.folder / "munge.key"),
        restart_munge=["touch", str(lab.folder / "munge-restarted")],
        # The name is appended, as to hostnamectl.
        set_host_name=["sh", "-c", 'echo "$1" >"$0"', str(lab.folder / "host")],
        start=["touch", str(lab.folder / "slurmd-started")],
    )
    with in_thread(ClaimServer(lab.settings)):
        yield lab.settings


def tell_host(lab: Lab, name: str) -> None:
    """Writes the host's name as Hyper-V does: records of a key and a value, padded with zeros."""
    pairs = {
        "HostName": "x",
        "PhysicalHostNameFullyQualified": f"{name}.net",
        "PhysicalHostName": name,
    }
    records = [
        k.encode().ljust(512, b"\0") + v.encode().ljust(2048, b"\0") for k, v in pairs.items()
    ]
    (lab.folder / "kvp").write_bytes(b"".join(records))
    lab.set(key_values=str(lab.folder / "kvp"))


def want(settings: Settings, *names: str, seen: tuple[str, ...] = ()) -> None:
    """Requests these nodes, as Slurm does, and notes the instances `seen` without a name."""
    with open_registry(settings, "nd") as registry:
        registry.want(list(names))
        if seen:
            registry.see(list(seen))


class TestClaims:
    """Instances that ask the scheduler which node they are."""

    def test_slurm_claim_gives_an_instance_a_wanted_name_that_it_keeps(
        self, service: Settings
    ) -> None:
        assert node.ask_for_name(service, ME) is None
        want(service, "nd-3", "nd-4")
        assert node.ask_for_name(service, ME) == "nd-3"
        assert node.ask_for_name(service, ME) == "nd-3"
        with open_registry(service, "nd") as registry:
            assert registry.claims["nd-3"].instance == "7"
            assert registry.claims["nd-3"].address == "127.0.0.1"
            assert list(registry.wanted) == ["nd-4"]

    def test_slurm_claim_without_the_key_or_replayed_is_refused(self, service: Settings) -> None:
        with pytest.raises(munge.UntrustedMessage, match="unmunge"):
            claim(service, "MUNGE:AwQFAAB0ZXN0:", "10.0.0.9")
        question = munge.encode(service, {"scale_set": "nd", "vm": "a", "id": "7"})
        claim(service, question, "10.0.0.9")
        with pytest.raises(munge.UntrustedMessage, match=r"[Rr]eplay"):
            claim(service, question, "10.0.0.9")

    @pytest.mark.parametrize(
        "question",
        [
            {"scale_set": "other", "vm": "a", "id": "7"},
            {"scale_set": "nd", "vm": "", "id": "7"},
            {"scale_set": "nd", "vm": "a", "id": "../7"},
            {"scale_set": "nd", "vm": "a", "id": "\u00b2"},
            {"scale_set": "nd", "vm": "a,host=other", "id": "7"},
            {"scale_set": "nd", "vm": "a\n\x1b[2J", "id": "7"},
            {},
        ],
    )
    def test_slurm_claim_for_an_unknown_instance_is_refused(
        self, service: Settings, question: dict[str, str]
    ) -> None:
        with pytest.raises(munge.UntrustedMessage, match="no instance"):
            claim(service, munge.encode(service, question), "10.0.0.9")

    def test_slurm_claim_of_an_instance_with_trouble_is_kept_without_control_codes(
        self, service: Settings
    ) -> None:
        question = {"scale_set": "nd", "vm": "a", "id": "7", "trouble": "no\x1b[2J\nGPU"}
        assert claim(service, munge.encode(service, question), "10.0.0.9") is None
        with open_registry(service, "nd") as registry:
            assert registry.troubles == {"7": "no?[2J GPU"}

    def test_slurm_claim_by_a_user_other_than_root_is_refused(self, service: Settings) -> None:
        question = json.dumps({"scale_set": "nd", "vm": "a", "id": "7"})
        done = finished(
            ["setpriv", "--reuid=65534", "--clear-groups", "munge", "-S", service.munge_socket],
            input=question,
            check=True,
        )
        with pytest.raises(munge.UntrustedMessage, match="not root"):
            claim(service, done.stdout.strip(), "10.0.0.9")

    def test_slurm_claim_answer_without_the_key_is_ignored(
        self, service: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        want(service, "nd-3")
        monkeypatch.setattr(
            "fairway_boot.slurm.claim_service.munge.encode", lambda _, message: json.dumps(message)
        )
        question = munge.encode(service, {"scale_set": "nd", "vm": "a", "id": "7"})
        assert json.loads(question)["vm"] == "a", "the stand-in is in place on both sides"
        assert node.ask_for_name(service, ME) is None

    @pytest.mark.parametrize("length", ["abc", "-1", "9" * 5000, ""])
    def test_slurm_claim_service_refuses_a_request_with_an_invalid_length(
        self, service: Settings, length: str
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.claim_port, timeout=10)
        connection.putrequest("POST", "/claim")
        connection.putheader("Content-Length", length)
        connection.endheaders()
        assert connection.getresponse().status == 404
        connection.close()

    def test_slurm_node_without_a_claim_service_gets_no_name(self, lab: Lab, munge: Path) -> None:
        lab.set(bin="", munge_socket=str(munge), claim_port=1, scheduler="127.0.0.1:6817")
        assert node.ask_for_name(lab.settings, ME) is None

    def test_slurm_node_starts_with_its_key_and_name(
        self, service: Settings, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node, "_ROUNDING", 0.0)
        lab.azure.secret = base64.b64encode(b"k" * 128).decode()
        want(service, "nd-0")
        assert lab.run("node") == 0
        assert (lab.folder / "munge.key").read_bytes() == b"k" * 128
        assert stat.S_IMODE((lab.folder / "munge.key").stat().st_mode) == 0o400
        options = (lab.folder / "name").read_text()
        assert options == 'SLURMD_OPTIONS="-N nd-0 --conf-server 127.0.0.1:6817"\n'
        assert (lab.folder / "first").read_text() == 'SLURMD_FIRST="-b"\n'
        assert (lab.folder / "host").read_text() == "nd-0\n"
        for happened in ("munge-restarted", "slurmd-started"):
            assert (lab.folder / happened).exists()
        (lab.folder / "munge-restarted").unlink()
        assert lab.run("node") == 0
        assert not (lab.folder / "munge-restarted").exists(), "the key is the same"

    def test_slurm_node_starts_slurmd_in_a_later_second_than_it_was_requested(
        self, service: Settings, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Slurm considers a node lost if it booted before it was requested."""
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            assert not (lab.folder / "slurmd-started").exists()
            slept.append(seconds)

        monkeypatch.setattr(node, "time", SimpleNamespace(sleep=sleep))
        node.start(service, "nd-0")
        assert (lab.folder / "slurmd-started").exists()
        assert sum(slept) >= 2

    def test_slurm_node_waits_for_its_name_and_updates_the_key_meanwhile(
        self, service: Settings, lab: Lab
    ) -> None:
        command = [sys.executable, "-B", "-m", "fairway_boot.slurm.node"]
        process, file = subprocess.Popen(command, env=lab.environment), lab.folder / "munge.key"
        try:
            until(lambda: "GET /secrets" in " ".join(lab.azure.requests))
            for key in (b"o" * 128, b"n" * 128):
                lab.azure.secret = base64.b64encode(key).decode()
                until(lambda key=key: file.exists() and file.read_bytes() == key)
            assert process.poll() is None
            assert not (lab.folder / "slurmd-started").exists()
            want(service, "nd-0")
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()
        assert (lab.folder / "slurmd-started").exists()

    def test_slurm_node_without_slurmd_gives_the_scheduler_the_reason_of_its_absence(
        self, service: Settings, lab: Lab
    ) -> None:
        lab.azure.secret = base64.b64encode(b"k" * 128).decode()
        commands = lab.folder / "commands"
        commands.mkdir()
        for name in ("munge", "munged", "unmunge"):
            (commands / name).symlink_to(shutil.which(name) or "")
        lab.set(bin=str(commands))
        lab.azure.change(1)
        want(service, "nd-0", seen=("7",))
        assert lab.run("node") == 1
        why = "slurmd not installed: see /var/log/cloud-init-output.log"
        assert why in lab.log
        lab.set(bin=str(lab.folder / "bin"))
        lab.run("resume-fail", "nd-0")
        assert f"reason=fairway: instances that never joined: 1 ({why}), round 1" in lab.told[0]

    @pytest.mark.parametrize("said", ["hardware: 7 of 8 GPUs;", "/data is not mounted;"])
    def test_slurm_host_is_refused_to_another_instance_only_after_a_hardware_fault(
        self, service: Settings, lab: Lab, said: str
    ) -> None:
        lab.azure.secret = base64.b64encode(b"k" * 128).decode()
        tell_host(lab, "DSM01XYZ")
        lab.set(check=["sh", "-c", f"echo '{said} '; exit 1"], settle=0)
        want(service, "nd-0", seen=("7",))
        assert lab.run("node") == 1
        assert not (lab.folder / "slurmd-started").exists(), "no job sees it"
        with open_registry(service, "nd") as registry:
            assert (registry.troubles["7"], registry.claims) == (said, {})
        # Another instance on the same host, which seems healthy itself.
        lab.set(check=["true"])
        settings = lab.settings
        other = Machine("v_8", "bbbb-8", "/subscriptions/s/virtualMachines/8")
        if said.startswith("hardware"):
            assert node.ask_for_name(settings, other) is None
            with open_registry(service, "nd") as registry:
                assert registry.troubles["8"].startswith("host DSM01XYZ failed on 20")
                assert registry.troubles["8"].endswith(": 7 of 8 GPUs;")
            tell_host(lab, "DSM02ABC")
        assert node.ask_for_name(settings, other) == "nd-0"

    def test_slurm_host_is_refused_for_some_days_but_never_to_a_working_node(
        self, service: Settings, lab: Lab
    ) -> None:
        tell_host(lab, "DSM01XYZ")
        settings = lab.settings
        want(service, "nd-0", "nd-1")
        assert node.ask_for_name(settings, ME) == "nd-0"
        with open_registry(service, "nd") as registry:
            assert registry.claims["nd-0"].host == "DSM01XYZ"
            registry.fail_host("DSM01XYZ", "fairway: hardware: 7 of 8 GPUs")
        assert node.ask_for_name(settings, ME) == "nd-0", "it is Slurm's to drain"
        other = replace(ME, vm="bbbb-8")
        assert node.ask_for_name(settings, other) is None
        with open_registry(service, "nd") as registry:
            registry.hosts["DSM01XYZ"] = (
                "fairway: hardware: 7 of 8 GPUs",
                time.time() - 8 * 86_400,
            )
        assert node.ask_for_name(settings, other) == "nd-1"

    def test_slurm_claim_notes_the_machine_in_the_comment_of_the_node(
        self, service: Settings, lab: Lab
    ) -> None:
        tell_host(lab, "DSM01XYZ")
        lab.set(bin=str(lab.folder / "bin"))
        for name in ("munge", "unmunge"):
            (lab.folder / "bin" / name).symlink_to(shutil.which(name) or "")
        settings = lab.settings
        want(service, "nd-0")
        me = replace(ME, id="/subscriptions/s/resourceGroups/g/virtualMachines/7")
        question = {"scale_set": "nd", "vm": me.vm, "id": "7", "host": "DSM01XYZ"}
        signed = munge.encode(settings, {**question, "resource": me.id})
        assert claim(settings, signed, "10.0.0.9") == "nd-0"
        comment = f"host=DSM01XYZ,vm=aaaa-7,resource={me.id}"
        assert f"scontrol update nodename=nd-0 comment={comment}" in lab.told

    def test_slurm_node_without_munge_reports_it(self, lab: Lab) -> None:
        assert lab.process("node").returncode == 1
        assert "munged, unmunge not installed: see /var/log/cloud-init-output.log" in lab.log


class TestKey:
    """The munge key is created once, on the scheduler, and is in the vault from then on."""

    @pytest.fixture
    def scheduler(self, lab: Lab) -> Lab:
        """Returns a scheduler with the key of the munge package."""
        (lab.folder / "etc").mkdir()
        (lab.folder / "etc" / "munge.key").write_bytes(b"p" * 32)
        restarted = str(lab.folder / "restarted")
        lab.set(munge_key=str(lab.folder / "etc" / "munge.key"), restart_munge=["touch", restarted])
        return lab

    def test_munge_key_is_taken_from_the_vault_and_awaited_by_a_login_node(
        self, scheduler: Lab
    ) -> None:
        assert scheduler.run("munge", "--read") == 1
        assert scheduler.azure.secret is None
        assert "no key into the vault yet" in scheduler.log
        scheduler.azure.secret = base64.b64encode(b"k" * 64).decode()
        for words in (("--read",), ()):
            (scheduler.folder / "etc" / "munge.key").write_bytes(b"p" * 32)
            assert scheduler.run("munge", *words) == 0
            assert (scheduler.folder / "etc" / "munge.key").read_bytes() == b"k" * 64
        (scheduler.folder / "restarted").unlink()
        assert scheduler.run("munge") == 0
        assert not (scheduler.folder / "restarted").exists()

    def test_munge_key_is_created_once_and_a_new_one_waits_in_the_vault(
        self, scheduler: Lab
    ) -> None:
        assert scheduler.process("munge").returncode == 0
        old = (scheduler.folder / "etc" / "munge.key").read_bytes()
        assert len(old) == 128
        assert base64.b64decode(scheduler.azure.secret or "") == old
        assert old.hex() not in scheduler.log
        (scheduler.folder / "restarted").unlink()
        assert scheduler.run("munge", "--new") == 0
        new = base64.b64decode(scheduler.azure.secret or "")
        assert len(new) == 128
        assert new != old
        assert (scheduler.folder / "etc" / "munge.key").read_bytes() == old, "nodes have it first"
        assert not (scheduler.folder / "restarted").exists()
        assert scheduler.run("munge", "--read") == 0
        assert (scheduler.folder / "etc" / "munge.key").read_bytes() == new
        assert (scheduler.folder / "restarted").exists()

    @pytest.mark.parametrize("secret", ["", "short", "!!!", base64.b64encode(b"a").decode()])
    def test_munge_key_that_is_invalid_is_never_used(self, scheduler: Lab, secret: str) -> None:
        scheduler.azure.secret = secret
        assert scheduler.run("munge") == 1
        assert "holds no munge key" in scheduler.log
        assert (scheduler.folder / "etc" / "munge.key").read_bytes() == b"p" * 32

    @pytest.mark.parametrize(("asked", "status"), [("GET /secrets", 403), ("GET /metadata", 404)])
    def test_munge_key_is_not_created_if_the_vault_or_a_token_is_refused(
        self, scheduler: Lab, asked: str, status: int
    ) -> None:
        """The metadata service's 404 says nothing of the vault."""
        settings = scheduler.settings
        assert munge.read_key(settings, metadata_service(settings)) is None
        scheduler.azure.faults += [(asked, status, {"Retry-After": "0"}) for _ in range(9)]
        assert scheduler.run("munge") == 1
        assert scheduler.azure.secret is None


ENDINGS = ("Terminate", "Reboot", "Redeploy")
OVER = (
    *("", "nonsense", "Mon, 19 Sep 2016 18:29:47 GMT"),
    *("Mon, 19 Sep 2016 18:29:47 -0000", "Mon, 01 Jan 0001 00:00:00 GMT"),
)
"""Times of a notice that is over, or that cannot be read."""


class TestEviction:
    """Azure evicts the VM `v_7`, which is the node nd-0."""

    @pytest.fixture
    def on_node(self, lab: Lab) -> Lab:
        """Returns a lab with the node and two jobs that end once they are requeued."""
        (lab.folder / "name").write_text('SLURMD_OPTIONS="-N nd-0 --conf-server 10.0.0.4:6817"\n')
        (lab.folder / "jobs").write_text("12\n13\n12\n")
        (lab.folder / "jobs.next").write_text("")
        lab.states(nd_0="ALLOCATED+CLOUD")
        lab.set(name_file=str(lab.folder / "name"))
        return lab

    def _watch(self, lab: Lab, known: dict[str, str]) -> None:
        eviction.watch(lab.settings, metadata_service(lab.settings), "v_7", known)

    def _event(self, seconds: float = 30, **values: Any) -> dict[str, Any]:
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
        event = {"EventId": "e1", "EventType": "Preempt", "Resources": ["v_7"], "NotBefore": soon}
        return {**event, "EventStatus": "Scheduled", **values}

    @pytest.mark.parametrize(
        ("values", "state", "refused", "told", "is_heard"),
        [
            ({}, "ALLOCATED", "", 3, True),
            *(({"EventType": kind}, "ALLOCATED", "", 3, True) for kind in ENDINGS),
            # Events of other VMs, of one whose name begins alike, and harmless ones.
            *(({"Resources": names}, "ALLOCATED", "", 0, False) for names in (["v_8"], [], "v_70")),
            ({"EventType": "Freeze"}, "ALLOCATED", "", 0, False),
            # Slurm itself deletes the node, which would stay out of use if it were drained.
            ({}, "IDLE+POWERING_DOWN", "", 0, True),
            # A job that cannot be requeued delays nothing.
            ({}, "ALLOCATED", "scontrol requeue", 3, True),
            # Without Slurm, the event is acknowledged once the notice is over.
            *(({"NotBefore": when}, "ALLOCATED", "scontrol -o", 0, True) for when in OVER),
        ],
    )
    def test_slurm_eviction_drains_the_node_and_requeues_its_jobs_first(
        self, on_node: Lab, values: Any, state: str, refused: str, told: int, is_heard: bool
    ) -> None:
        on_node.states(nd_0=f"{state}+CLOUD")
        (on_node.folder / "refuse").write_text(f"{refused}\n")
        event = self._event(**values)
        on_node.azure.events, known = [event], dict[str, str]()
        for _ in range(2):
            self._watch(on_node, known)
        drain = f"scontrol update nodename=nd-0 state=drain reason=Azure: {event['EventType']}"
        orders = [drain, "scontrol requeue 12", "scontrol requeue 13"]
        assert [line for line in on_node.told if line.startswith("scontrol")] == orders[:told]
        assert on_node.azure.acknowledged == ["e1"] * is_heard, "once"

    def test_slurm_eviction_waits_for_a_job_until_shortly_before_its_deadline(
        self, on_node: Lab
    ) -> None:
        (on_node.folder / "jobs.next").unlink()
        on_node.azure.events = [self._event(seconds=4)]
        self._watch(on_node, {})
        assert on_node.azure.acknowledged == ["e1"]

    @pytest.mark.parametrize("when", ["", "nonsense"])
    def test_slurm_eviction_notice_without_a_time_leaves_half_a_minute(self, when: str) -> None:
        left = eviction._deadline(Event("e1", "Preempt", when)) - datetime.now(UTC)
        assert timedelta(seconds=25) < left <= timedelta(seconds=30)

    def test_slurm_eviction_notice_is_kept_while_slurm_refuses_commands(
        self, on_node: Lab, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A scheduler that is being replaced is back in time for most notices."""
        (on_node.folder / "refuse").write_text("scontrol -o\n")
        on_node.azure.events = [self._event()]
        known: dict[str, str] = {}
        for _ in range(3):
            self._watch(on_node, known)
        assert (on_node.azure.acknowledged, list(known)) == ([], ["e1"])
        (on_node.folder / "refuse").unlink()
        for _ in range(2):
            self._watch(on_node, known)
        assert on_node.told.count("scontrol requeue 13") == 1
        assert (on_node.azure.acknowledged, known) == (["e1"], {"e1": ""})
        levels = [record.levelname for record in caplog.records if record.name.endswith("eviction")]
        assert levels.count("WARNING") == levels.count("ERROR") == 1, "said once, not each second"

    @pytest.mark.parametrize(
        ("events", "status"),
        [
            *((each, None) for each in (None, "none", [None])),
            ([{"EventType": "Preempt", "Resources": ["v_7"]}], None),
            ([], 403),
        ],
    )
    def test_slurm_eviction_watch_continues_after_no_answer_or_an_invalid_one(
        self, on_node: Lab, caplog: pytest.LogCaptureFixture, events: Any, status: int | None
    ) -> None:
        on_node.azure.events, known = events, dict[str, str]()
        if status is not None:
            on_node.azure.faults += [("GET /metadata/scheduledevents", status, {})] * 2
        for _ in range(2):
            self._watch(on_node, known)
        assert (on_node.told, on_node.azure.acknowledged) == ([], [])
        assert len(caplog.records) == 1, "said once, not each second"
        on_node.azure.events = [self._event()]
        self._watch(on_node, known)
        assert (on_node.azure.acknowledged, known) == (["e1"], {"e1": ""})
