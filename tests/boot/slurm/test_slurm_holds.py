"""Nodes that are held, drained, renamed and reconciled with Azure's instances."""

import json
import time
from typing import Any

import pytest

Lab = Any

pytestmark = pytest.mark.integration

GONE = "state=power_down_force reason=Azure: the instance is gone"


MINE = " Reason=keep out [ann@2026-01-01T10:00:00]"
OURS = " Reason=Azure: no room [slurm@2026-01-01T10:00:00]"
SLURMS = " Reason=Not responding [slurm@2026-01-01T10:00:00]"


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """Returns the programs as slurmctld's own user runs them."""
    lab.set(user="slurm")
    return lab


class TestHold:
    """Nodes without capacity, which are held instead of being requested every few minutes."""

    @pytest.fixture
    def short(self, lab: Lab) -> Lab:
        """Returns a lab where Azure had room for one of two nodes; nd-2 and nd-3 are powered
        down."""
        lab.azure.room = 1
        lab.states(
            nd_0="MIXED+CLOUD+POWERING_UP",
            nd_1="MIXED+CLOUD+POWERING_UP",
            nd_2="IDLE+CLOUD+POWERED_DOWN",
            nd_3="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
        )
        lab.run("resume", "nd-[0-1]")
        return lab

    def test_slurm_hold_keeps_powered_down_nodes_down_until_it_ends(self, short: Lab) -> None:
        """slurmctld forgets that a node is down when it calls SuspendProgram for it."""
        refused, down = short.told
        assert refused.startswith("scontrol update nodename=nd-1 state=power_down_force reason=")
        assert down.startswith(
            "scontrol update nodename=nd-2 state=down reason=Azure: nodes missing: 1"
        )
        assert "next try " in down
        short.states(nd_1="IDLE+CLOUD+POWERING_DOWN" + OURS, nd_2="DOWN+CLOUD+POWERED_DOWN" + OURS)
        short.run("suspend", "nd-1")
        assert short.told[2].startswith("scontrol update nodename=nd-1 state=down reason=Azure: ")
        short.states(
            nd_1="DOWN+CLOUD+POWERED_DOWN" + OURS,
            nd_2="DOWN+CLOUD+POWERED_DOWN" + SLURMS,
            nd_3="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
        )
        assert short.run("power", "reconcile") == 0
        assert len(short.told) == 3
        with short.open() as registry:
            registry.hold.until = 0
        short.run("power", "reconcile")
        assert short.told[3:] == ["scontrol update nodename=nd-1,nd-2 state=resume"]

    def test_slurm_hold_doubles_with_each_shortage_and_resets_with_capacity(self, lab: Lab) -> None:
        waits = []
        for room in (0, 0, 1, 0):
            lab.azure.room = room
            started = time.time()
            lab.run("resume", f"nd-{len(waits)}")
            waits.append(lab.registry()["hold"]["until"] - started)
        assert 0 < waits[0] < 0.75 * waits[1]
        assert lab.registry()["hold"]["shortages"] == 1

    def test_slurm_hold_shortages_are_not_reset_by_booting_instances(self, short: Lab) -> None:
        self._age(short, wanted=True)
        assert short.run("power", "reconcile") == 0
        assert short.registry()["hold"]["shortages"] == 1
        assert len(short.azure.instances) == 1

    @staticmethod
    def _age(lab: Lab, *, wanted: bool = False, unnamed: bool = False) -> None:
        """Lets half an hour pass for wanted nodes, or for instances without a name."""
        with lab.open() as registry:
            for times in (*((registry.wanted,) * wanted), *((registry.unnamed,) * unnamed)):
                times.update(dict.fromkeys(times, time.time() - 1800))

    def test_slurm_hold_deletes_silent_instances_before_slurm_gives_up_their_nodes(
        self, lab: Lab
    ) -> None:
        lab.states(nd_0="MIXED+CLOUD+POWERING_UP", nd_1="IDLE+CLOUD+POWERED_DOWN")
        lab.run("resume", "nd-0")
        lab.run("power", "reconcile")
        self._age(lab, unnamed=True)
        lab.run("power", "reconcile")
        assert (len(lab.azure.instances), lab.told) == (1, []), "it was hardly asked for"
        self._age(lab, wanted=True)
        assert lab.run("power", "reconcile") == 0
        gone, rest = lab.told
        assert gone.startswith(
            "scontrol update nodename=nd-0 state=power_down_force reason=fairway"
        )
        assert rest.startswith("scontrol update nodename=nd-1 state=down reason=fairway: instances")
        assert lab.azure.instances == {}
        assert lab.registry()["hold"]["misses"] == 1

    def test_slurm_hold_deletes_only_a_troubled_instance_at_once(self, lab: Lab) -> None:
        lab.run("resume", "nd-[0-2]")
        with lab.open() as registry:
            registry.troubles["1"] = "slurmd not installed"
        assert lab.run("power", "reconcile") == 0
        assert sorted(lab.azure.instances) == ["0", "2"]
        assert "nodename=nd-0 state=power_down_force" in lab.told[0]
        assert "never joined: 1 (slurmd not installed), round 1 of 3" in lab.told[0]
        assert sorted(lab.registry()["wanted"]) == ["nd-1", "nd-2"]

    def test_slurm_hold_sets_the_partition_down_after_three_rounds_of_failed_joins(
        self, lab: Lab
    ) -> None:
        lab.states(
            nd_0="DOWN+CLOUD+POWERED_DOWN Reason=ResumeTimeout reached [slurm@now]",
            nd_1="IDLE+CLOUD+POWERED_DOWN",
        )
        for _ in range(3):
            lab.run("resume", "nd-0")
            lab.claim("nd-0")
            assert "partitionname=nd" not in " ".join(lab.told)
            assert lab.run("resume-fail", "nd-0") == 0
        assert lab.azure.instances == {}
        assert lab.told[0].startswith("scontrol update nodename=nd-0 state=down reason=fairway: ")
        assert lab.told[-1] == "scontrol update partitionname=nd state=down"
        assert "never joined: 1, round 3 of 3: the partition is down" in lab.told[-2]
        before = len(lab.told)
        lab.states(nd_0="DOWN+CLOUD+POWERED_DOWN Reason=fairway: 1 instances [slurm@now]")
        for state, resumed in (
            ("DOWN", []),
            ("UP", ["scontrol update nodename=nd-0 state=resume"]),
        ):
            lab.partition(state)
            lab.run("power", "reconcile")
            assert lab.told[before:] == resumed
        assert lab.registry()["hold"]["misses"] == 0

    def test_slurm_hold_misses_are_reset_when_a_node_joins(self, lab: Lab) -> None:
        lab.run("resume", "nd-[0-1]")
        lab.claim("nd-0", "nd-1")
        lab.run("resume-fail", "nd-1")
        assert lab.registry()["hold"]["misses"] == 1
        lab.states(nd_0="MIXED+CLOUD+NOT_RESPONDING+POWERING_UP")
        lab.run("power", "reconcile")
        assert lab.registry()["hold"]["misses"] == 1
        lab.states(nd_0="ALLOCATED+CLOUD")
        lab.run("power", "reconcile")
        assert lab.registry()["hold"]["misses"] == 0


class TestDrain:
    """Nodes that a user takes out of use stay out of use."""

    def test_slurm_drain_by_a_user_stays_and_other_nodes_resume(self, lab: Lab) -> None:
        lab.states(
            nd_0="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
            nd_1="IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=fairway: 7 of 8 GPUs [root@now]",
            nd_2="DOWN+CLOUD+POWERED_DOWN" + SLURMS,
            nd_3="DOWN+CLOUD+POWERED_DOWN Reason=new words [slurm@now]",
            nd_4="IDLE+CLOUD+DRAIN+POWERED_DOWN",
            nd_5="IDLE+CLOUD+DRAIN",
            nd_6="IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=drained by ann: keep out [slurm@now]",
            nd_7="IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=Prolog error, I look at it [ann@now]",
            nd_8="IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=reboot it later, by sudo [root@now]",
            nd_9="DOWN+CLOUD+POWERED_DOWN Reason=Low RealMemory [slurm@now]",
            nd_10="DOWN+CLOUD+POWERED_DOWN Reason=rebooted by ann [ann@now]",
            other_0="DOWN+CLOUD+POWERED_DOWN",
        )
        lab.run("power", "reconcile")
        names = "nd-1,nd-2,nd-3,nd-4,nd-9,nd-10"
        assert lab.told == [f"scontrol update nodename={names} state=resume"]

    def test_slurm_drain_by_a_user_is_restored_after_the_node_was_deleted(self, lab: Lab) -> None:
        """slurmctld clears the flag when it lets a node go, and keeps the reason."""
        kept = "drained by ann: keep out"
        lab.states(
            nd_0="IDLE+CLOUD+POWERING_DOWN" + MINE,
            nd_1="IDLE+CLOUD+POWERING_DOWN" + OURS,
            nd_2="IDLE+CLOUD+POWERING_DOWN",
            nd_3=f"IDLE+CLOUD+POWERING_DOWN Reason={kept} [slurm@now]",
        )
        lab.run("suspend", "nd-[0-3]")
        assert lab.told == [
            f"scontrol update nodename={name} state=drain reason={kept}"
            for name in ("nd-0", "nd-3")
        ]


class TestHosts:
    """Physical hosts whose hardware failed."""

    @pytest.mark.parametrize(
        ("reason", "remembered"),
        [
            ("fairway: hardware: XID 79 on 0001:00:00", True),
            ("fairway: hardware: 7 of 8 InfiniBand adapters are up", True),
            ("fairway: /data/GPU is not mounted", False),
            ("by hand", False),
        ],
    )
    def test_slurm_host_of_a_node_drained_for_hardware_is_remembered(
        self, lab: Lab, reason: str, remembered: bool
    ) -> None:
        lab.azure.change(1)
        lab.claim("nd-0")
        with lab.open() as registry:
            registry.claims["nd-0"].host = "DSM01XYZ"
        lab.states(nd_0=f"IDLE+CLOUD+DRAIN Reason={reason} [root@2026-11-21T05:00:00]")
        lab.run("power", "reconcile")
        with lab.open() as registry:
            assert ("DSM01XYZ" in registry.hosts) is remembered


class TestReconcile:
    """Nodes and instances that were lost, are left over, or have to stay."""

    def test_slurm_reconcile_powers_down_a_node_whose_instance_was_evicted(self, lab: Lab) -> None:
        lab.run("resume", "nd-[0-1]")
        lab.claim("nd-0", "nd-1")
        lab.azure.evict("1")
        assert lab.run("power", "reconcile") == 0
        assert lab.told == [f"scontrol update nodename=nd-1 {GONE}"]
        assert list(lab.registry()["claims"]) == ["nd-0"]
        lab.run("power", "reconcile")
        assert len(lab.told) == 1, "told once"

    def test_slurm_reconcile_deletes_an_orphaned_instance_after_a_while(self, lab: Lab) -> None:
        lab.azure.change(2)
        lab.run("power", "reconcile")
        assert len(lab.azure.instances) == 2
        lab.set(orphan_after=0)
        lab.run("power", "reconcile")
        assert lab.azure.instances == {}
        lab.run("resume", "nd-0")
        lab.azure.change(2)
        lab.run("power", "reconcile")
        assert len(lab.azure.instances) == 1, "one boots for a node that is wanted"

    def test_slurm_reconcile_powers_up_the_nodes_that_are_kept(self, lab: Lab) -> None:
        known = json.loads((lab.folder / "settings.json").read_text())["scale_sets"]
        lab.set(scale_sets={"nd": {**known["nd"], "kept": 3}})
        lab.states(
            nd_0="IDLE+CLOUD+POWERED_DOWN",
            nd_1="IDLE+CLOUD",
            nd_2="MIXED+CLOUD+POWERING_UP+POWERED_DOWN",
            nd_3="IDLE+CLOUD+POWERED_DOWN",
        )
        lab.run("power", "reconcile")
        assert lab.told == ["scontrol update nodename=nd-0 state=power_up"]

    def test_slurm_reconcile_finishes_the_work_of_an_interrupted_program(self, lab: Lab) -> None:
        lab.run("resume", "nd-0")
        lab.claim("nd-0")
        with lab.open() as registry:
            registry.release(["nd-0"])
            registry.wanted["nd-1"] = time.time() - 1000
        assert lab.run("power", "reconcile") == 0
        assert lab.azure.instances == {}
        assert lab.told[0].startswith("scontrol update nodename=nd-1 state=power_down_force")

    def test_slurm_reconcile_reports_an_azure_failure_and_succeeds_the_next_time(
        self, lab: Lab
    ) -> None:
        lab.azure.faults.append(("GET /subscriptions", 403, {}))
        assert lab.process("power", "reconcile").returncode == 1
        assert "Fault: a fault" in lab.log
        assert lab.run("power", "reconcile") == 0
