"""The programs of slurmctld against Azure on a loopback port: every answer that Azure may give."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.azure.http import Answer, Failure
from fairway_agent.slurm.autoscale.ledger import Claim, Ledger, opened
from fairway_agent.slurm.autoscale.scale_set import ScaleSetClient
from fairway_agent.slurm.autoscale.settings import load, metadata_service
from fairway_agent.slurm.autoscale.slurmctld import by_partition, expand

if TYPE_CHECKING:
    from collections.abc import Callable

    Azure = Any
    Lab = Any

GONE = "state=power_down_force reason=Azure: the instance is gone"


def _claimed(lab: Lab, *names: str) -> None:
    """Lets each instance that has no name yet be one of these nodes."""
    with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
        taken = {claim.instance for claim in ledger.claims.values()}
        free = [each for each in lab.azure.instances if each not in taken]
        for name, instance in zip(names, free, strict=True):
            ledger.wanted.pop(name, None)
            ledger.claims[name] = Claim(instance, f"vm-{instance}")


def _changes(azure: Azure) -> list[str]:
    return [line.split("?")[0].split()[0] for line in azure.requests if line[0] == "P"]


class TestHostLists:
    """Slurm's way of writing many nodes in one word."""

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("nd-0", ["nd-0"]),
            ("nd-[0-2,5]", ["nd-0", "nd-1", "nd-2", "nd-5"]),
            ("nd-[0-1],a-b-3,x-[9-10]", ["nd-0", "nd-1", "a-b-3", "x-9", "x-10"]),
            ("nd-[08-10]", ["nd-08", "nd-09", "nd-10"]),
        ],
    )
    def test_a_list_is_taken_apart(self, text: str, names: list[str]) -> None:
        assert expand(text) == names

    def test_nodes_belong_to_the_partition_that_they_are_called_after(self) -> None:
        assert by_partition(["nd-0", "a-b-3", "nd-7"]) == {"nd": ["nd-0", "nd-7"], "a-b": ["a-b-3"]}


class TestLedger:
    """Which instance is which node."""

    def test_names_are_given_in_the_order_in_which_they_were_asked_for(self) -> None:
        ledger = Ledger(wanted={"nd-10": 1.0, "nd-9": 1.0, "nd-0": 2.0})
        assert [ledger.claim(f"vm{i}", str(i), "10.0.0.9") for i in range(4)] == [
            "nd-9",
            "nd-10",
            "nd-0",
            None,
        ]

    def test_asking_again_gives_the_same_name(self) -> None:
        ledger = Ledger(wanted={"nd-0": 1.0, "nd-1": 1.0})
        assert ledger.claim("vm0", "0", "10.0.0.9") == "nd-0"
        assert ledger.claim("vm0", "0", "10.0.0.8") == "nd-0"
        assert ledger.claims["nd-0"].address == "10.0.0.8"

    def test_an_instance_that_is_to_go_gets_no_name(self) -> None:
        ledger = Ledger(wanted={"nd-0": 1.0}, leaving={"0": 1.0})
        assert ledger.claim("vm0", "0", "10.0.0.9") is None

    def test_a_node_that_has_an_instance_is_not_wanted_again(self) -> None:
        ledger = Ledger(claims={"nd-0": Claim("0", "vm0")})
        ledger.want(["nd-0", "nd-1"])
        assert list(ledger.wanted) == ["nd-1"]


class TestResume:
    """Nodes that Slurm asks for become instances."""

    def test_capacity_is_raised_by_what_is_missing(self, lab: Lab, azure: Azure) -> None:
        assert lab.run("resume", "nd-[0-2]").returncode == 0
        assert azure.capacity == 3
        assert sorted(lab.ledger()["wanted"]) == ["nd-0", "nd-1", "nd-2"]
        assert lab.told == []

    def test_asking_twice_asks_azure_once(self, lab: Lab, azure: Azure) -> None:
        for _ in range(2):
            assert lab.run("resume", "nd-[0-2]").returncode == 0
        assert azure.capacity == 3
        assert _changes(azure) == ["PATCH"]

    def test_nodes_that_are_there_stay(self, lab: Lab, azure: Azure) -> None:
        lab.run("resume", "nd-0")
        _claimed(lab, "nd-0")
        assert lab.run("resume", "nd-[0-1]").returncode == 0
        assert azure.capacity == 2
        assert list(lab.ledger()["claims"]) == ["nd-0"]

    @pytest.mark.parametrize("status", [409, 412, 429, 500, 502, 503])
    def test_what_is_broken_for_a_moment_is_asked_again(
        self, lab: Lab, azure: Azure, status: int
    ) -> None:
        azure.faults += [
            ("GET /metadata", status, {"Retry-After": "0"}),
            ("GET /subscriptions", status, {"Retry-After": "0"}),
            ("PATCH", status, {"Retry-After": "0.01"}),
            ("GET /operations", status, {"Retry-After": "0"}),
        ]
        assert lab.run("resume", "nd-[0-1]").returncode == 0
        assert azure.faults == []
        assert azure.capacity == 2
        assert lab.told == []

    def test_without_capacity_nodes_go_back_to_the_cloud(self, lab: Lab, azure: Azure) -> None:
        azure.room = 0
        assert lab.run("resume", "nd-[0-1]").returncode == 0
        (told,) = lab.told
        assert told.startswith("scontrol update nodename=nd-0,nd-1 state=power_down_force")
        assert "reason=Azure: nodes missing: 2, since " in told
        assert told.endswith(": AllocationFailed: no room for it")
        assert azure.capacity == 0, "what cannot be had is not asked for any longer"
        assert lab.ledger()["wanted"] == {}

    def test_a_part_of_the_nodes_is_kept(self, lab: Lab, azure: Azure) -> None:
        azure.room = 3
        lab.run("resume", "nd-[0-4]")
        assert [line.split()[2] for line in lab.told] == ["nodename=nd-3,nd-4"]
        assert (azure.capacity, len(azure.instances)) == (3, 3)
        assert sorted(lab.ledger()["wanted"]) == ["nd-0", "nd-1", "nd-2"]

    def test_instances_that_azure_could_not_finish_are_deleted(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.broken = 1
        lab.run("resume", "nd-[0-2]")
        assert (lab.told, len(azure.instances)) == ([], 3), "it may work all the same"
        lab.set(failed_after=0)
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            ledger.wanted = dict.fromkeys(ledger.wanted, time.time() - 1000)
        lab.run("reconcile")
        assert [line.split()[2] for line in lab.told] == ["nodename=nd-2"]
        assert azure.instances == {"1": "Succeeded", "2": "Succeeded"}
        assert azure.capacity == 2

    def test_a_node_whose_instance_azure_calls_failed_goes_on(self, lab: Lab, azure: Azure) -> None:
        """So an instance ends whose extension fails, and whose VM works."""
        lab.set(failed_after=0)
        lab.run("resume", "nd-[0-1]")
        _claimed(lab, "nd-0", "nd-1")
        azure.instances["0"] = "Failed"
        assert lab.run("resume", "nd-2").returncode == 0
        assert lab.run("reconcile").returncode == 0
        assert sorted(azure.instances) == ["0", "1", "2"]
        assert sorted(lab.ledger()["claims"]) == ["nd-0", "nd-1"]

    def test_a_quota_that_is_used_up_is_told_as_the_reason(self, lab: Lab, azure: Azure) -> None:
        azure.faults.append(("PATCH", 409, {"message": "exceeding approved quota"}))
        lab.run("resume", "nd-0")
        assert lab.told[0].endswith(": Fault: exceeding approved quota")
        assert "Fault: exceeding approved quota" in lab.log
        assert _changes(azure) == ["PATCH"], "asking again would not help"

    def test_an_evicted_instance_is_replaced_although_the_capacity_is_there(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.run("resume", "nd-[0-1]")
        _claimed(lab, "nd-0", "nd-1")
        azure.evict("0")
        assert lab.run("resume", "nd-0").returncode == 0
        assert sorted(azure.instances) == ["1", "2"]
        assert azure.capacity == 2
        assert list(lab.ledger()["wanted"]) == ["nd-0"]

    def test_two_calls_side_by_side_make_as_many_as_are_needed(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.hold.set()
        calls = [
            threading.Thread(target=lab.run, args=("resume", nodes))
            for nodes in ("nd-[0-1]", "nd-[2-4]")
        ]
        for call in calls:
            call.start()
        _until(lambda: azure.capacity == 5)
        azure.hold.clear()
        for call in calls:
            call.join()
        assert (azure.capacity, len(azure.instances)) == (5, 5)
        assert lab.told == []

    def test_an_identity_that_may_not_read_operations_looks_at_the_scale_set(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.readable = False
        assert lab.run("resume", "nd-0").returncode == 0
        assert azure.capacity == 1
        azure.room = 1
        lab.run("resume", "nd-1")
        assert [line.split()[2] for line in lab.told] == ["nodename=nd-1"]

    def test_a_change_that_another_has_overtaken_is_no_failure(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.ends_with = "OperationPreempted"
        assert lab.run("resume", "nd-[0-1]").returncode == 0
        assert (azure.capacity, lab.told) == (2, [])
        assert "OperationPreempted" not in lab.log

    def test_a_token_is_sent_to_azure_alone(self, lab: Lab, azure: Azure) -> None:
        settings = load(str(lab.folder / "settings.json"))
        client = ScaleSetClient(settings, metadata_service(settings), settings.scale_sets["nd"].id)
        elsewhere = azure.url.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(Failure, match="ForeignUrl"):
            client.wait(Answer(202, {"azure-asyncoperation": f"{elsewhere}/operations/op0"}, {}))

    def test_a_partition_that_is_not_there_is_an_error_and_others_are_served(
        self, lab: Lab, azure: Azure
    ) -> None:
        assert lab.run("resume", "other-0,nd-0").returncode == 1
        assert azure.capacity == 1
        assert "no scale set is called other" in lab.log

    def test_without_nodes_it_says_how_it_is_called(self, lab: Lab) -> None:
        done = lab.run("resume")
        assert done.returncode == 2
        assert "HOSTLIST" in done.stderr

    def test_a_setting_that_does_not_exist_is_named(self, lab: Lab) -> None:
        lab.set(pole=1)
        done = lab.run("resume", "nd-0")
        assert done.returncode == 1
        assert "no setting is called pole" in done.stderr


class TestSuspend:
    """Nodes that nobody needs are deleted, by name."""

    @pytest.fixture
    def three(self, lab: Lab) -> Lab:
        """Three nodes, which are there."""
        lab.run("resume", "nd-[0-2]")
        _claimed(lab, "nd-0", "nd-1", "nd-2")
        lab.states(nd_0="IDLE+CLOUD+POWERING_DOWN", nd_1="IDLE+CLOUD", nd_2="ALLOCATED+CLOUD")
        return lab

    def test_the_instances_of_these_nodes_go_and_no_others(self, three: Lab, azure: Azure) -> None:
        assert three.run("suspend", "nd-[0,2]").returncode == 0
        assert azure.instances == {"1": "Succeeded"}
        assert azure.capacity == 1
        assert three.ledger()["leaving"] == {}

    def test_a_node_that_is_wanted_again_stays(self, three: Lab, azure: Azure) -> None:
        three.states(nd_0="MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", nd_1="IDLE+CLOUD")
        assert three.run("suspend", "nd-[0-1]").returncode == 0
        assert sorted(azure.instances) == ["0", "2"]

    def test_an_eviction_that_was_faster_is_no_error(self, three: Lab, azure: Azure) -> None:
        azure.evict("0")
        assert three.run("suspend", "nd-[0-1]").returncode == 0
        assert azure.instances == {"2": "Succeeded"}
        assert three.ledger()["leaving"] == {}

    def test_what_could_not_be_deleted_is_deleted_with_the_next(
        self, three: Lab, azure: Azure
    ) -> None:
        azure.faults.append(("POST", 403, {}))
        three.run("suspend", "nd-0")
        assert "0" in azure.instances
        assert list(three.ledger()["leaving"]) == ["0"]
        three.run("suspend", "nd-1")
        assert azure.instances == {"2": "Succeeded"}

    def test_a_name_that_is_wanted_while_its_instance_goes_gets_a_new_one(
        self, three: Lab, azure: Azure
    ) -> None:
        azure.faults.append(("POST", 403, {}))
        three.run("suspend", "nd-0")
        three.run("resume", "nd-0")
        assert sorted(azure.instances) == ["0", "1", "2", "3"]
        assert list(three.ledger()["wanted"]) == ["nd-0"]

    def test_a_node_without_an_instance_is_only_not_wanted_any_more(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.hold.set()
        lab.set(patience=0.05)
        lab.run("resume", "nd-0")
        assert lab.run("suspend", "nd-0").returncode == 0
        assert lab.ledger()["wanted"] == {}
        assert "POST" not in _changes(azure)


class TestResumeFail:
    """Nodes that did not come up in time."""

    def test_their_instances_go_and_they_are_cloud_again_after_a_while(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.run("resume", "nd-[0-1]")
        _claimed(lab, "nd-0", "nd-1")
        assert lab.run("resume-fail", "nd-[0-1]").returncode == 0
        assert azure.instances == {}
        (told,) = lab.told
        assert told.startswith("scontrol update nodename=nd-0,nd-1 state=down reason=fairway: ")
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            ledger.hold.until = 0
        lab.states(nd_0="DOWN+CLOUD+POWERED_DOWN Reason=fairway: they never joined [root@now]")
        lab.run("reconcile")
        assert lab.told[1:] == ["scontrol update nodename=nd-0 state=resume"]

    def test_nodes_that_had_no_instance_are_cloud_again_at_once(self, lab: Lab) -> None:
        assert lab.run("resume-fail", "nd-0").returncode == 0
        assert lab.told == ["scontrol update nodename=nd-0 state=resume"]

    def test_slurm_is_told_even_if_azure_does_not_answer(self, lab: Lab, azure: Azure) -> None:
        lab.run("resume", "nd-0")
        _claimed(lab, "nd-0")
        azure.faults.append(("GET /subscriptions", 403, {}))
        assert lab.run("resume-fail", "nd-0").returncode == 1
        assert lab.told[0].startswith("scontrol update nodename=nd-0 state=down reason=fairway: ")


MINE = " Reason=keep out [ann@2026-01-01T10:00:00]"
OURS = " Reason=Azure: no room [slurm@2026-01-01T10:00:00]"
SLURMS = " Reason=Not responding [slurm@2026-01-01T10:00:00]"


class TestHold:
    """Nodes that cannot be had are not asked for every few minutes."""

    @pytest.fixture
    def short(self, lab: Lab, azure: Azure) -> Lab:
        """Azure had room for one of two nodes; nd-2 and nd-3 are not there either."""
        azure.room = 1
        lab.states(
            nd_0="MIXED+CLOUD+POWERING_UP",
            nd_1="MIXED+CLOUD+POWERING_UP",
            nd_2="IDLE+CLOUD+POWERED_DOWN",
            nd_3="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
        )
        lab.run("resume", "nd-[0-1]")
        return lab

    def test_nodes_that_sleep_are_down_until_it_is_over(self, short: Lab) -> None:
        refused, down = short.told
        assert refused.startswith("scontrol update nodename=nd-1 state=power_down_force reason=")
        assert down.startswith(
            "scontrol update nodename=nd-2 state=down reason=Azure: nodes missing: 1"
        )
        assert "next try " in down

    def test_the_node_that_could_not_be_had_is_down_as_soon_as_slurm_lets_it_go(
        self, short: Lab
    ) -> None:
        """slurmctld forgets that a node is down when it calls SuspendProgram for it."""
        short.states(nd_1="IDLE+CLOUD+POWERING_DOWN" + OURS, nd_2="DOWN+CLOUD+POWERED_DOWN" + OURS)
        short.run("suspend", "nd-1")
        assert short.told[2].startswith("scontrol update nodename=nd-1 state=down reason=Azure: ")

    def test_reconcile_ends_it_when_its_time_is_over_and_no_sooner(self, short: Lab) -> None:
        short.states(
            nd_1="DOWN+CLOUD+POWERED_DOWN" + OURS,
            nd_2="DOWN+CLOUD+POWERED_DOWN" + SLURMS,
            nd_3="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
        )
        assert short.run("reconcile").returncode == 0
        assert len(short.told) == 2
        with opened(load(str(short.folder / "settings.json")), "nd") as ledger:
            ledger.hold.until = 0
        short.run("reconcile")
        assert short.told[2:] == ["scontrol update nodename=nd-1,nd-2 state=resume"]

    def test_each_round_waits_for_twice_as_long_until_azure_has_room(
        self, lab: Lab, azure: Azure
    ) -> None:
        waits = []
        for room in (0, 0, 1, 0):
            azure.room = room
            started = time.time()
            lab.run("resume", f"nd-{len(waits)}")
            waits.append(lab.ledger()["hold"]["until"] - started)
        assert 0 < waits[0] < 0.75 * waits[1]
        assert lab.ledger()["hold"]["shortages"] == 1

    def test_instances_that_boot_do_not_end_the_row_of_shortages(
        self, short: Lab, azure: Azure
    ) -> None:
        self._age(short, wanted=True)
        assert short.run("reconcile").returncode == 0
        assert short.ledger()["hold"]["shortages"] == 1
        assert len(azure.instances) == 1

    @staticmethod
    def _age(lab: Lab, *, wanted: bool = False, unnamed: bool = False) -> None:
        """Lets half an hour pass for nodes that are wanted, or instances without a name."""
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            for times in (*((ledger.wanted,) * wanted), *((ledger.unnamed,) * unnamed)):
                times.update(dict.fromkeys(times, time.time() - 1800))

    def test_instances_that_never_say_a_word_go_before_slurm_gives_their_nodes_up(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.states(nd_0="MIXED+CLOUD+POWERING_UP", nd_1="IDLE+CLOUD+POWERED_DOWN")
        lab.run("resume", "nd-0")
        lab.run("reconcile")
        self._age(lab, unnamed=True)
        lab.run("reconcile")
        assert (len(azure.instances), lab.told) == (1, []), "it was hardly asked for"
        self._age(lab, wanted=True)
        assert lab.run("reconcile").returncode == 0
        gone, rest = lab.told
        assert gone.startswith(
            "scontrol update nodename=nd-0 state=power_down_force reason=fairway"
        )
        assert rest.startswith("scontrol update nodename=nd-1 state=down reason=fairway: instances")
        assert azure.instances == {}
        assert lab.ledger()["hold"]["misses"] == 1

    def test_an_instance_that_lacks_something_goes_at_once_and_others_stay(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.run("resume", "nd-[0-2]")
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            ledger.troubles["1"] = "slurmd not installed"
        assert lab.run("reconcile").returncode == 0
        assert sorted(azure.instances) == ["0", "2"]
        assert "nodename=nd-0 state=power_down_force" in lab.told[0]
        assert "never joined: 1 (slurmd not installed), round 1 of 3" in lab.told[0]
        assert sorted(lab.ledger()["wanted"]) == ["nd-1", "nd-2"]

    def test_after_three_rounds_of_nodes_that_never_join_the_partition_is_down(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.states(
            nd_0="DOWN+CLOUD+POWERED_DOWN Reason=ResumeTimeout reached [slurm@now]",
            nd_1="IDLE+CLOUD+POWERED_DOWN",
        )
        for _ in range(3):
            lab.run("resume", "nd-0")
            _claimed(lab, "nd-0")
            assert "partitionname=nd" not in " ".join(lab.told)
            assert lab.run("resume-fail", "nd-0").returncode == 0
        assert azure.instances == {}
        assert lab.told[0].startswith("scontrol update nodename=nd-0 state=down reason=fairway: ")
        assert lab.told[-1] == "scontrol update partitionname=nd state=down"
        assert "never joined: 1, round 3 of 3: the partition is down" in lab.told[-2]

    def test_a_partition_that_is_down_stays_so_until_somebody_opens_it(self, lab: Lab) -> None:
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            ledger.hold.misses, ledger.hold.closed = 3, True
        lab.states(nd_0="DOWN+CLOUD+POWERED_DOWN Reason=fairway: 1 instances [slurm@now]")
        lab.partition("DOWN")
        lab.run("reconcile")
        assert lab.told == []
        lab.partition("UP")
        lab.run("reconcile")
        assert lab.told == ["scontrol update nodename=nd-0 state=resume"]
        assert lab.ledger()["hold"]["misses"] == 0

    def test_a_node_that_joins_ends_the_row(self, lab: Lab) -> None:
        lab.run("resume", "nd-[0-1]")
        _claimed(lab, "nd-0", "nd-1")
        lab.run("resume-fail", "nd-1")
        assert lab.ledger()["hold"]["misses"] == 1
        lab.states(nd_0="MIXED+CLOUD+NOT_RESPONDING+POWERING_UP")
        lab.run("reconcile")
        assert lab.ledger()["hold"]["misses"] == 1
        lab.states(nd_0="ALLOCATED+CLOUD")
        lab.run("reconcile")
        assert lab.ledger()["hold"]["misses"] == 0


class TestDrain:
    """What a person takes out of use stays out of use."""

    def test_a_node_that_a_person_drained_while_it_slept_stays_drained(self, lab: Lab) -> None:
        lab.states(
            nd_0="IDLE+CLOUD+DRAIN+POWERED_DOWN" + MINE,
            nd_1="IDLE+CLOUD+DRAIN+POWERED_DOWN Reason=fairway: 7 of 8 GPUs [root@now]",
            nd_2="DOWN+CLOUD+POWERED_DOWN" + SLURMS,
            nd_3="DOWN+CLOUD+POWERED_DOWN Reason=new words [slurm@now]",
        )
        lab.set(user="slurm")
        lab.run("reconcile")
        assert lab.told == ["scontrol update nodename=nd-1,nd-2,nd-3 state=resume"]

    def test_a_node_that_a_person_drained_is_drained_when_it_was_deleted(self, lab: Lab) -> None:
        """slurmctld clears the flag when it lets a node go, and keeps the reason."""
        lab.states(
            nd_0="IDLE+CLOUD+POWERING_DOWN" + MINE,
            nd_1="IDLE+CLOUD+POWERING_DOWN" + OURS,
            nd_2="IDLE+CLOUD+POWERING_DOWN",
        )
        lab.run("suspend", "nd-[0-2]")
        assert lab.told == ["scontrol update nodename=nd-0 state=drain reason=keep out"]


class TestHosts:
    """Physical hosts whose hardware failed."""

    @pytest.mark.parametrize(
        ("reason", "remembered"),
        [
            ("fairway: XID 79 on 0001:00:00", True),
            ("fairway: 7 of 8 InfiniBand adapters are up", True),
            ("fairway: /data is not mounted", False),
            ("by hand", False),
        ],
    )
    def test_that_of_a_node_that_was_drained_for_its_hardware_is_remembered(
        self, lab: Lab, azure: Azure, reason: str, remembered: bool
    ) -> None:
        azure.change(1)
        _claimed(lab, "nd-0")
        settings = load(str(lab.folder / "settings.json"))
        with opened(settings, "nd") as ledger:
            ledger.claims["nd-0"].host = "DSM01XYZ"
        lab.states(nd_0=f"IDLE+CLOUD+DRAIN Reason={reason} [root@2026-11-21T05:00:00]")
        lab.run("reconcile")
        with opened(settings, "nd") as ledger:
            assert ("DSM01XYZ" in ledger.hosts) is remembered


class TestReconcile:
    """What was lost, left over, or is to stay."""

    def test_a_node_whose_instance_was_taken_away_is_cloud_again(
        self, lab: Lab, azure: Azure
    ) -> None:
        lab.run("resume", "nd-[0-1]")
        _claimed(lab, "nd-0", "nd-1")
        azure.evict("1")
        assert lab.run("reconcile").returncode == 0
        assert lab.told == [
            f"scontrol update nodename=nd-1 {GONE}",
        ]
        assert list(lab.ledger()["claims"]) == ["nd-0"]
        lab.run("reconcile")
        assert len(lab.told) == 1, "told once"

    def test_an_instance_that_nobody_needs_goes_after_a_while(self, lab: Lab, azure: Azure) -> None:
        azure.change(2)
        lab.run("reconcile")
        assert len(azure.instances) == 2
        lab.set(orphan_after=0)
        lab.run("reconcile")
        assert azure.instances == {}

    def test_an_instance_that_boots_for_a_wanted_node_stays(self, lab: Lab, azure: Azure) -> None:
        lab.set(orphan_after=0)
        lab.run("resume", "nd-0")
        azure.change(2)
        lab.run("reconcile")
        assert len(azure.instances) == 1

    def test_nodes_that_are_to_stay_are_started(self, lab: Lab) -> None:
        lab.set(scale_sets={"nd": {"id": _id(lab), "kept": 3}})
        lab.states(
            nd_0="IDLE+CLOUD+POWERED_DOWN",
            nd_1="IDLE+CLOUD",
            nd_2="MIXED+CLOUD+POWERING_UP+POWERED_DOWN",
            nd_3="IDLE+CLOUD+POWERED_DOWN",
        )
        lab.run("reconcile")
        assert lab.told == ["scontrol update nodename=nd-0 state=power_up"]

    def test_a_node_that_is_gone_is_neither_down_nor_drained(self, lab: Lab) -> None:
        lab.states(
            nd_0="DOWN+CLOUD+POWERED_DOWN",
            nd_1="IDLE+CLOUD+DRAIN+POWERED_DOWN",
            nd_2="IDLE+CLOUD+DRAIN",
            other_0="DOWN+CLOUD+POWERED_DOWN",
        )
        lab.run("reconcile")
        assert lab.told == ["scontrol update nodename=nd-0,nd-1 state=resume"]

    def test_what_a_program_left_undone_that_was_cut_off(self, lab: Lab, azure: Azure) -> None:
        lab.run("resume", "nd-0")
        _claimed(lab, "nd-0")
        with opened(load(str(lab.folder / "settings.json")), "nd") as ledger:
            ledger.release(["nd-0"])
            ledger.wanted["nd-1"] = time.time() - 1000
        assert lab.run("reconcile").returncode == 0
        assert azure.instances == {}
        assert lab.told[0].startswith("scontrol update nodename=nd-1 state=power_down_force")

    def test_without_azure_it_says_so_and_the_next_minute_tries_again(
        self, lab: Lab, azure: Azure
    ) -> None:
        azure.faults.append(("GET /subscriptions", 403, {}))
        assert lab.run("reconcile").returncode == 1
        assert "Fault: a fault" in lab.log
        assert lab.run("reconcile").returncode == 0


def _id(lab: Lab) -> str:
    import json

    settings = json.loads((lab.folder / "settings.json").read_text())
    return str(settings["scale_sets"]["nd"]["id"])


def _until(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
