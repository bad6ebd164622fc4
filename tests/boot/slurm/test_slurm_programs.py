"""The programs of slurmctld against Azure on a loopback port: every answer that Azure may give."""

import threading
import time
from typing import Any

import pytest
from waiting import until

from fairway_boot.http import Answer, Failure
from fairway_boot.slurm.capacity import ScaleSetClient
from fairway_boot.slurm.commands import expand, partition_of
from fairway_boot.slurm.node_registry import NodeRegistry
from fairway_boot.slurm.settings import metadata_service

Azure = Any
Lab = Any

pytestmark = pytest.mark.integration


def _changes(azure: Azure) -> list[str]:
    return [line.split("?")[0].split()[0] for line in azure.requests if line[0] == "P"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nd-0", ["nd-0"]),
        ("nd-[0-2,5]", ["nd-0", "nd-1", "nd-2", "nd-5"]),
        ("nd-[0-1],a-b-3,x-[9-10]", ["nd-0", "nd-1", "a-b-3", "x-9", "x-10"]),
        ("nd-[08-10]", ["nd-08", "nd-09", "nd-10"]),
    ],
)
def test_host_list_expands_ranges_and_groups_nodes_by_partition(
    text: str, names: list[str]
) -> None:
    """Slurm writes many nodes in one word; each is named after its partition."""
    assert expand(text) == names
    assert (partition_of("nd-7"), partition_of("a-b-3")) == ("nd", "a-b")


def test_node_registry_gives_names_in_order_and_the_same_name_again() -> None:
    registry = NodeRegistry(wanted={"nd-10": 1.0, "nd-9": 1.0, "nd-0": 2.0}, leaving={"7": 1.0})
    names = [registry.claim(f"vm{i}", str(i), "10.0.0.9") for i in range(4)]
    assert names == ["nd-9", "nd-10", "nd-0", None]
    assert registry.claim("vm0", "0", "10.0.0.8") == "nd-9"
    assert registry.claims["nd-9"].address == "10.0.0.8"
    # An instance to be deleted gets no name, and a node with an instance is not wanted again.
    registry.want(["nd-0", "nd-1"])
    assert list(registry.wanted) == ["nd-1"]
    assert registry.claim("vm7", "7", "10.0.0.9") is None


class TestResume:
    """Nodes that Slurm asks for become instances."""

    def test_slurm_resume_raises_the_capacity_once_by_the_missing_nodes(self, lab: Lab) -> None:
        for _ in range(2):
            assert lab.run("resume", "nd-[0-2]") == 0
            assert lab.azure.capacity == 3
            assert sorted(lab.registry()["wanted"]) == ["nd-0", "nd-1", "nd-2"]
        assert lab.told == []
        assert _changes(lab.azure) == ["PATCH"]
        # Existing nodes stay.
        lab.claim("nd-0", "nd-1", "nd-2")
        assert lab.run("resume", "nd-[0-3]") == 0
        assert lab.azure.capacity == 4
        assert sorted(lab.registry()["claims"]) == ["nd-0", "nd-1", "nd-2"]

    @pytest.mark.parametrize("status", [409, 412, 429, 500, 502, 503])
    def test_slurm_resume_retries_transient_azure_errors(self, lab: Lab, status: int) -> None:
        lab.azure.faults += [
            ("GET /metadata", status, {"Retry-After": "0"}),
            ("GET /subscriptions", status, {"Retry-After": "0"}),
            ("PATCH", status, {"Retry-After": "0.01"}),
            ("GET /operations", status, {"Retry-After": "0"}),
        ]
        assert lab.run("resume", "nd-[0-1]") == 0
        assert lab.azure.faults == []
        assert lab.azure.capacity == 2
        assert lab.told == []

    @pytest.mark.parametrize(("room", "back"), [(0, "nd-0,nd-1"), (1, "nd-1"), (2, "")])
    def test_slurm_resume_powers_down_nodes_without_capacity(
        self, lab: Lab, room: int, back: str
    ) -> None:
        lab.azure.room = room
        assert lab.run("resume", "nd-[0-1]") == 0
        assert len(lab.told) == bool(back)
        for told in lab.told:
            assert told.startswith(f"scontrol update nodename={back} state=power_down_force")
            assert f"reason=Azure: nodes missing: {2 - room}, since " in told
            assert told.endswith(": AllocationFailed: no room for it")
        # Unavailable capacity is no longer requested.
        assert (lab.azure.capacity, len(lab.azure.instances)) == (room, room)
        assert sorted(lab.registry()["wanted"]) == ["nd-0", "nd-1"][:room]

    def test_slurm_resume_instances_that_azure_failed_to_create_are_deleted(self, lab: Lab) -> None:
        lab.azure.broken = 1
        lab.run("resume", "nd-[0-2]")
        assert (lab.told, len(lab.azure.instances)) == ([], 3), "it may work all the same"
        lab.set(failed_after=0)
        with lab.open() as registry:
            registry.wanted = dict.fromkeys(registry.wanted, time.time() - 1000)
        lab.run("power", "reconcile")
        assert [line.split()[2] for line in lab.told] == ["nodename=nd-2"]
        assert lab.azure.instances == {"1": "Succeeded", "2": "Succeeded"}
        assert lab.azure.capacity == 2

    def test_slurm_resume_keeps_a_claimed_node_whose_instance_is_marked_failed(
        self, lab: Lab
    ) -> None:
        """An instance is marked failed if its extension fails, although its VM works."""
        lab.set(failed_after=0)
        lab.run("resume", "nd-[0-1]")
        lab.claim("nd-0", "nd-1")
        lab.azure.instances["0"] = "Failed"
        assert lab.run("resume", "nd-2") == 0
        assert lab.run("power", "reconcile") == 0
        assert sorted(lab.azure.instances) == ["0", "1", "2"]
        assert sorted(lab.registry()["claims"]) == ["nd-0", "nd-1"]

    def test_slurm_resume_reports_an_exhausted_quota_as_the_reason(self, lab: Lab) -> None:
        lab.azure.faults.append(("PATCH", 409, {"message": "exceeding approved quota"}))
        lab.run("resume", "nd-0")
        assert lab.told[0].endswith(": Fault: exceeding approved quota")
        assert "Fault: exceeding approved quota" in lab.log
        assert _changes(lab.azure) == ["PATCH"], "asking again would not help"

    def test_slurm_resume_replaces_an_evicted_instance_at_unchanged_capacity(
        self, lab: Lab
    ) -> None:
        lab.run("resume", "nd-[0-1]")
        lab.claim("nd-0", "nd-1")
        lab.azure.evict("0")
        assert lab.run("resume", "nd-0") == 0
        assert sorted(lab.azure.instances) == ["1", "2"]
        assert lab.azure.capacity == 2
        assert list(lab.registry()["wanted"]) == ["nd-0"]

    def test_slurm_resume_concurrent_calls_add_up_to_the_needed_capacity(self, lab: Lab) -> None:
        lab.azure.hold.set()
        calls = [
            threading.Thread(target=lab.process, args=("resume", nodes))
            for nodes in ("nd-[0-1]", "nd-[2-4]")
        ]
        for call in calls:
            call.start()
        until(lambda: lab.azure.capacity == 5)
        lab.azure.hold.clear()
        for call in calls:
            call.join()
        assert (lab.azure.capacity, len(lab.azure.instances)) == (5, 5)
        assert lab.told == []

    def test_slurm_resume_without_read_access_to_operations_checks_the_scale_set(
        self, lab: Lab
    ) -> None:
        lab.azure.readable = False
        assert lab.run("resume", "nd-0") == 0
        assert lab.azure.capacity == 1
        lab.azure.room = 1
        lab.run("resume", "nd-1")
        assert [line.split()[2] for line in lab.told] == ["nodename=nd-1"]

    def test_slurm_resume_operation_that_was_preempted_is_no_failure(self, lab: Lab) -> None:
        lab.azure.ends_with = "OperationPreempted"
        assert lab.run("resume", "nd-[0-1]") == 0
        assert (lab.azure.capacity, lab.told) == (2, [])
        assert "OperationPreempted" not in lab.log

    def test_slurm_resume_sends_its_token_only_to_azure(self, lab: Lab) -> None:
        settings = lab.settings
        client = ScaleSetClient(settings, metadata_service(settings), settings.scale_sets["nd"].id)
        elsewhere = lab.azure.url.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(Failure, match="ForeignUrl"):
            client.wait(Answer({"azure-asyncoperation": f"{elsewhere}/operations/op0"}, {}))

    def test_slurm_resume_of_an_unknown_partition_fails_and_others_are_served(
        self, lab: Lab
    ) -> None:
        assert lab.run("resume", "other-0,nd-0") == 1
        assert lab.azure.capacity == 1
        assert "no scale set is called other" in lab.log

    def test_slurm_resume_reports_missing_nodes_and_unknown_settings(self, lab: Lab) -> None:
        done = lab.process("resume")
        assert done.returncode == 2
        assert "HOSTLIST" in done.stderr
        lab.set(pole=1)
        done = lab.process("resume", "nd-0")
        assert done.returncode == 1
        assert "no setting is called pole" in done.stderr


class TestSuspend:
    """Nodes that nobody needs are deleted, by name."""

    @pytest.fixture
    def three(self, lab: Lab) -> Lab:
        """Returns a lab with three nodes that have instances."""
        lab.run("resume", "nd-[0-2]")
        lab.claim("nd-0", "nd-1", "nd-2")
        lab.states(nd_0="IDLE+CLOUD+POWERING_DOWN", nd_1="IDLE+CLOUD", nd_2="ALLOCATED+CLOUD")
        return lab

    def test_slurm_suspend_deletes_only_the_instances_of_the_named_nodes(self, three: Lab) -> None:
        assert three.process("suspend", "nd-[0,2]").returncode == 0
        assert three.azure.instances == {"1": "Succeeded"}
        assert three.azure.capacity == 1
        assert three.registry()["leaving"] == {}

    def test_slurm_suspend_keeps_a_node_that_is_wanted_again(self, three: Lab) -> None:
        three.states(nd_0="MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", nd_1="IDLE+CLOUD")
        assert three.run("suspend", "nd-[0-1]") == 0
        assert sorted(three.azure.instances) == ["0", "2"]

    def test_slurm_suspend_of_an_evicted_instance_is_no_error(self, three: Lab) -> None:
        three.azure.evict("0")
        assert three.run("suspend", "nd-[0-1]") == 0
        assert three.azure.instances == {"2": "Succeeded"}
        assert three.registry()["leaving"] == {}

    def test_slurm_suspend_deletes_an_instance_whose_earlier_deletion_failed(
        self, three: Lab
    ) -> None:
        three.azure.faults.append(("POST", 403, {}))
        three.run("suspend", "nd-0")
        assert "0" in three.azure.instances
        assert list(three.registry()["leaving"]) == ["0"]
        three.run("suspend", "nd-1")
        assert three.azure.instances == {"2": "Succeeded"}

    def test_slurm_suspend_node_wanted_again_during_deletion_gets_a_new_instance(
        self, three: Lab
    ) -> None:
        three.azure.faults.append(("POST", 403, {}))
        three.run("suspend", "nd-0")
        three.run("resume", "nd-0")
        assert sorted(three.azure.instances) == ["0", "1", "2", "3"]
        assert list(three.registry()["wanted"]) == ["nd-0"]

    def test_slurm_suspend_of_a_node_without_an_instance_only_clears_the_request(
        self, lab: Lab
    ) -> None:
        lab.azure.hold.set()
        lab.set(patience=0.05)
        lab.run("resume", "nd-0")
        assert lab.run("suspend", "nd-0") == 0
        assert lab.registry()["wanted"] == {}
        assert "POST" not in _changes(lab.azure)


class TestResumeFail:
    """Nodes that did not come up in time."""

    def test_slurm_resume_fail_deletes_the_instances_and_resumes_the_nodes_later(
        self, lab: Lab
    ) -> None:
        lab.run("resume", "nd-[0-1]")
        lab.claim("nd-0", "nd-1")
        assert lab.run("resume-fail", "nd-[0-1]") == 0
        assert lab.azure.instances == {}
        (told,) = lab.told
        assert told.startswith("scontrol update nodename=nd-0,nd-1 state=down reason=fairway: ")
        with lab.open() as registry:
            registry.hold.until = 0
        lab.states(nd_0="DOWN+CLOUD+POWERED_DOWN Reason=fairway: they never joined [root@now]")
        lab.run("power", "reconcile")
        assert lab.told[1:] == ["scontrol update nodename=nd-0 state=resume"]

    def test_slurm_resume_fail_resumes_nodes_without_an_instance_at_once(self, lab: Lab) -> None:
        assert lab.process("resume-fail", "nd-0").returncode == 0
        assert lab.told == ["scontrol update nodename=nd-0 state=resume"]

    def test_slurm_resume_fail_sets_the_node_down_even_if_azure_does_not_answer(
        self, lab: Lab
    ) -> None:
        lab.run("resume", "nd-0")
        lab.claim("nd-0")
        lab.azure.faults.append(("GET /subscriptions", 403, {}))
        assert lab.run("resume-fail", "nd-0") == 1
        assert lab.told[0].startswith("scontrol update nodename=nd-0 state=down reason=fairway: ")
