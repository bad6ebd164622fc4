"""Submission of a run exactly once despite kills and conflicts, and starts by the controller."""

import io
import json
import shutil
from dataclasses import replace
from errno import ENOSPC
from typing import Any
from unittest.mock import Mock

import pytest
from api_server import Cluster, Server
from clocks import Clock

from fairway_agent import control, notify, state_files
from fairway_agent.kubernetes import runs, submit
from fairway_agent.kubernetes.api import FORBIDDEN, RequestRefused
from fairway_agent.records import UnreadableFile
from fairway_agent.shared.reports import RunsRequest
from fairway_agent.state_files import RunState
from fairway_boot.files import AgentError

RECEIVER = {"webhook": "http://127.0.0.1:1/x", "on": ["failed"], "form": "json"}


def test_kubernetes_submit_creates_one_job_for_single_nodes_and_one_per_gang(
    cluster: Cluster,
) -> None:
    cluster.bring("job-a", [1, 4, 1, 4])
    key = "-----BEGIN"
    assert cluster.submit("job-a", key=key) == ["job-a-0-0", "job-a-0-1", "job-a-0-2"]
    jobs = cluster.server.of("jobs")
    assert sorted(jobs) == ["job-a-0-0", "job-a-0-1", "job-a-0-2", "job-a-0-controller"]
    assert [jobs[name]["spec"]["completions"] for name in sorted(jobs)[:3]] == [2, 4, 4]
    file = cluster.shared / "runs/job-a/fairway_key"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (key, 0o600)


class Killed(BaseException):
    """The program that submits is killed."""


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("survived", range(4))
def test_kubernetes_submit_repeated_after_a_kill_creates_no_job_twice(
    cluster: Cluster, survived: int, is_made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the server has created a Job, and after that but before it was noted."""
    cluster.bring("job-a", [2, 2, 2], last=True)
    create, asked = cluster.server.create, []

    def die(kind: str, manifest: Any) -> bool:
        asked.append(manifest["metadata"]["name"])
        is_last = len(asked) == survived + 1
        done = (is_made or not is_last) and create(kind, manifest)
        if is_last:
            raise Killed
        return done

    monkeypatch.setattr(cluster.server, "create", die)
    with pytest.raises(Killed):
        cluster.submit()
    monkeypatch.setattr(cluster.server, "create", create)
    assert not control.read(cluster.shared / "runs/job-a").complete
    assert cluster.submit() == ["job-a-0-0", "job-a-0-1", "job-a-0-2"]
    made = sorted(cluster.server.created)
    assert made == ["job-a-0-0", "job-a-0-1", "job-a-0-2", "job-a-0-controller"]
    assert cluster.submit() == made[:3]
    assert len(cluster.server.created) == 4


def test_kubernetes_submit_refused_leaves_no_job_and_no_folder(cluster: Cluster) -> None:
    folder = cluster.bring("job-a", [2, 2])
    cluster.server.refuse = lambda name: "exceeded quota: team" if name.endswith("-1") else ""
    with pytest.raises(
        AgentError, match="Kubernetes refuses the job: exceeded quota: team"
    ) as raised:
        cluster.submit()
    assert raised.value.record["exit_code"] == 2
    assert "kubectl describe quota" in raised.value.record["hint"]
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


@pytest.mark.parametrize("left", ["record", "ending"])
def test_kubernetes_submit_repeated_keeps_what_an_earlier_try_has_begun(
    cluster: Cluster, left: str
) -> None:
    """Its predecessor and its Jobs may be gone by then, and a part may be refused."""
    folder = cluster.bring("job-a", [1, 2], after=[str(cluster.submitted([1], "first"))])
    cluster.ended(cluster.shared / "runs/first", "0")
    cluster.state(cluster.shared / "runs/first")
    cluster.submit()
    control.change(folder, 0, complete=False)
    shutil.rmtree(cluster.shared / "runs/first")
    jobs = cluster.server.of("jobs")
    made = jobs.pop(name := "job-a-0-controller")
    if left == "record":
        [part, _] = control.read(folder).parts
        control.note_part(folder, 0, replace(part, job="job-a-0-0"))
    else:
        jobs[name] = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "now"}}
    cluster.server.refuse = lambda _: "exceeded quota: team"
    with pytest.raises(AgentError, match="exceeded quota: team") as raised:
        cluster.submit()
    assert raised.value.record["id"] == "cut-off-submission"
    assert folder.is_dir()
    jobs[name] = made  # the last one
    cluster.submit()
    assert control.read(folder).complete


def test_kubernetes_submit_without_the_right_to_list_keeps_the_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cluster.bring("job-a", [1], after=[str(cluster.submitted([1], "first"))])
    refused = Mock(side_effect=RequestRefused(FORBIDDEN, "pods is forbidden"))
    monkeypatch.setattr(submit, "reconcile_all", refused)
    with pytest.raises(RequestRefused):
        cluster.submit()
    assert folder.is_dir()


def test_kubernetes_cancel_of_a_cut_off_run_waits_for_its_unrecorded_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods have their grace. Nobody may complete the submission afterwards."""
    folder = cluster.submitted([1])
    part = replace(control.read(folder).parts[0], job="")
    control.change(folder, 0, parts=(part,), complete=False)
    with monkeypatch.context() as patch:
        patch.setattr(cluster.server, "delete", Mock())
        cluster.cancel()
        assert cluster.state(folder).is_active
    cluster.cancel()
    assert cluster.state(folder).state == "cancelled"
    with pytest.raises(AgentError) as raised:
        cluster.submit()
    assert raised.value.record["id"] == "cancelled-run"
    assert cluster.server.of("jobs") == {}


@pytest.mark.parametrize(("task", "left"), [("", []), ("0", ["job-a-0-controller"])])
def test_kubernetes_cancel_deletes_the_jobs_of_a_run_whose_folder_is_full(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, task: str, left: list[str]
) -> None:
    cluster.submitted([1], notify=RECEIVER)
    monkeypatch.setattr(control.files, "write_json", Mock(side_effect=OSError(ENOSPC, "full")))
    cluster.cancel(task=task)
    assert [*cluster.server.of("jobs")] == left


def test_kubernetes_submit_of_a_retry_uses_new_job_names(cluster: Cluster) -> None:
    folder = cluster.submitted([1, 1, 1])
    cluster.ended(folder, "2", "failed")
    retry = {"only": [2], "done": {"succeeded": 2}, "is_set_up": False, "submission": 1}
    (folder / "retry.json").write_text(json.dumps(retry))
    assert cluster.submit("job-a", submission=1) == ["job-a-1-0"]
    [part] = control.read(folder).parts
    assert part.indices == (2,)
    assert cluster.server.of("jobs")["job-a-1-0"]["spec"]["completions"] == 1


def test_kubernetes_submit_of_a_retry_is_not_disturbed_by_a_state_query(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers of the runs that come after it may query its state at any time."""
    folder = cluster.submitted([1])
    cluster.ended(folder, "0", "failed")
    assert cluster.state(folder).state == "failed"
    retry = {"only": [0], "done": {}, "is_set_up": False, "submission": 1}
    (folder / "retry.json").write_text(json.dumps(retry))
    with monkeypatch.context() as patch:
        listed, seen = cluster.server.list, []

        def look(*asked: Any, **how: bool) -> list[dict[str, Any]]:
            patch.undo()
            seen.append(cluster.state(folder))
            return listed(*asked, **how)

        patch.setattr(cluster.server, "list", look)
        cluster.submit("job-a", submission=1)
    found = [(each.state, each.submission) for each in (*seen, cluster.state(folder))]
    assert found == [("queued", 1)] * 2


def test_kubernetes_remove_leaves_no_object(cluster: Cluster) -> None:
    folder = cluster.submitted([1], last=True)
    assert len(cluster.server.of("jobs")) == 2
    runs.remove(cluster.shared, RunsRequest(remove="job-a"), io.BytesIO())
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


class TestNames:
    """Existing Jobs with the name of a Job to be created."""

    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        return Clock.of(monkeypatch, submit, runs)

    def leave(self, cluster: Cluster) -> dict[str, Any]:
        """Returns the Job of an ended run whose folder is gone."""
        shutil.rmtree(cluster.submitted([1]))
        shutil.rmtree(cluster.shared / "code")
        del cluster.server.of("jobs")["job-a-0-controller"]
        cluster.server.created.clear()
        return cluster.server.of("jobs")["job-a-0-0"]

    def being_deleted(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keeps deleted objects until their pods are gone, as a real server does."""

        def delete(kind: str, name: str, **_: bool) -> None:
            if name in server.of(kind):
                server.of(kind)[name]["metadata"]["deletionTimestamp"] = "2026-11-23T15:00:00Z"

        monkeypatch.setattr(server, "delete", delete)

    def test_kubernetes_submit_waits_a_while_for_a_job_that_is_being_deleted(
        self, cluster: Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A Job left by a run whose folder was removed is deleted first."""
        server, end = cluster.server, clock.now + submit.PATIENCE
        self.leave(cluster)
        self.being_deleted(server, monkeypatch)
        folder = cluster.bring("job-a", [1])
        with pytest.raises(AgentError, match="the deleted Job job-a-0-0 still exists") as said:
            cluster.submit()
        assert said.value.record["hint"].endswith("kubectl get pods -l fairway.dev/run=job-a")
        assert folder.exists()
        assert clock.now >= end
        monkeypatch.setattr(clock, "sleep", lambda _: server.of("jobs").clear())
        assert cluster.submit() == ["job-a-0-0"]
        assert server.created == ["job-a-0-0", "job-a-0-controller"]
        assert "deletionTimestamp" not in server.of("jobs")["job-a-0-0"]["metadata"]

    def test_kubernetes_cancel_of_a_run_without_a_folder_waits_for_its_jobs_to_end(
        self, cluster: Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It ends all Jobs, but none if only one task is to end: it is not known which Job is the
        task's."""
        folder = cluster.submitted([1, 1], last=True)
        shutil.rmtree(folder)
        cluster.cancel(task="0", marks=("claim",))
        (folder / "tasks" / "0").mkdir(parents=True)  # written by its pod since
        cluster.cancel(task="0", marks=("claim",))
        assert [each.name for each in folder.iterdir()] == ["tasks"]
        self.being_deleted(cluster.server, monkeypatch)
        jobs = cluster.server.of("jobs")
        assert not any("deletionTimestamp" in each["metadata"] for each in jobs.values())
        with pytest.raises(AgentError, match="the folder of job-a is gone") as said:
            cluster.cancel(marks=("claim",))
        assert said.value.record["exit_code"] == 5
        assert said.value.record["hint"].endswith("fairway.dev/run=job-a): fairway cancel job-a")
        assert all("deletionTimestamp" in each["metadata"] for each in jobs.values())
        monkeypatch.setattr(clock, "sleep", lambda _: jobs.clear())
        cluster.cancel(marks=("claim",))
        assert not folder.exists()

    def test_kubernetes_submit_retries_a_conflict_without_a_job_for_a_while(
        self, cluster: Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For example, others change a quota at the same time."""
        cluster.bring("job-a", [1])
        create, asked = cluster.server.create, []

        def conflict(*_: Any) -> bool:
            asked.append(clock.now)
            return False

        monkeypatch.setattr(cluster.server, "create", conflict)
        with pytest.raises(AgentError, match="create the Job job-a-0-0, because of a conflict"):
            cluster.submit()
        assert len(asked) == len(set(asked))  # with a pause before each
        monkeypatch.setattr(cluster.server, "create", create)
        assert cluster.submit() == ["job-a-0-0"]

    @pytest.mark.parametrize("other", ["folder", "claim"])
    def test_kubernetes_submit_leaves_jobs_of_another_shared_folder_alone(
        self, cluster: Cluster, other: str
    ) -> None:
        job = self.leave(cluster)
        spec = job["spec"]["template"]["spec"]
        if other == "folder":
            [container] = spec["containers"]
            words = (each.replace(str(cluster.shared), "/their") for each in container["command"])
            container["command"] = [*words]
        else:
            spec["volumes"][0]["persistentVolumeClaim"]["claimName"] = "theirs"
        before = json.dumps(job)
        folder = cluster.bring("job-a", [1], last=True)
        with pytest.raises(
            AgentError, match="Jobs of a run job-a with another shared folder"
        ) as said:
            cluster.submit()
        assert said.value.record["exit_code"] == 2
        assert said.value.record["id"] == "taken-run-id"
        assert not folder.exists()
        runs.remove(cluster.shared, RunsRequest(remove="job-a"), io.BytesIO())
        cluster.cancel(kill=True)
        cluster.cancel(marks=("claim",))
        assert json.dumps(cluster.server.of("jobs")["job-a-0-0"]) == before
        assert cluster.server.created == []

    def test_kubernetes_submit_concurrent_runs_of_one_name_keep_their_own_jobs(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = cluster.bring("job-a", [2, 2])
        create = cluster.server.create

        def race(kind: str, manifest: Any) -> bool:
            if manifest["metadata"]["name"].endswith("-1"):
                theirs = json.loads(json.dumps(manifest).replace(str(cluster.shared), "/their"))
                cluster.server.of(kind)["job-a-0-1"] = theirs
            return create(kind, manifest)

        monkeypatch.setattr(cluster.server, "create", race)
        with pytest.raises(AgentError, match="with another shared folder"):
            cluster.submit()
        assert [*cluster.server.of("jobs")] == ["job-a-0-1"]
        assert not folder.exists()


class TestWhatWaits:
    """Jobs that the controller creates later."""

    def test_kubernetes_controller_starts_up_to_max_parallel_jobs(self, cluster: Cluster) -> None:
        folder = cluster.submitted([2, 2, 2, 2], max_parallel=2)
        assert cluster.due(folder) == [0, 1]
        cluster.controller(folder).start()
        assert sorted(cluster.server.created) == ["job-a-0-0", "job-a-0-1", "job-a-0-controller"]
        assert cluster.due(folder) == []
        cluster.ended(folder, "0")
        assert cluster.due(folder) == [2]

    def test_kubernetes_controller_decides_nothing_for_an_incomplete_submission(
        self, cluster: Cluster
    ) -> None:
        first = cluster.submitted([1], "first")
        folder = cluster.bring("job-a", [1], after=["first"])
        cluster.submit()
        control.change(folder, 0, complete=False)
        state_files.write(first, RunState("failed", ended=1.0))
        cluster.controller(folder).start()
        assert control.read(folder).failed_dependencies is None

    def test_kubernetes_submit_after_a_failed_run_is_refused(self, cluster: Cluster) -> None:
        first = cluster.submitted([1], "first")
        state_files.write(first, RunState("failed", ended=1.0))
        folder = cluster.bring("job-a", [1], after=["first"])
        with pytest.raises(AgentError, match="`after`: first failed"):
            cluster.submit()
        assert not folder.exists()

    @pytest.mark.parametrize("kill", [False, True])
    def test_kubernetes_controller_notifies_of_a_cancelled_run(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kill: bool
    ) -> None:
        folder = cluster.submitted([1, 1], notify=RECEIVER)
        for part in ("controller", "0"):
            name = f"job-a-0-{part}-abcde"
            job = cluster.server.of("jobs")[f"job-a-0-{part}"]
            labels = job["metadata"]["labels"]
            pod = {**job["spec"]["template"], "metadata": {"name": name, "labels": labels}}
            cluster.server.of("pods")[name] = {**pod, "status": {"phase": "Running"}}
        cluster.cancel(kill=kill)
        assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
        assert ("job-a-0-0-abcde" in cluster.server.of("pods")) is not kill
        assert "job-a-0-controller-abcde" in cluster.server.of("pods")
        cluster.server.of("pods").clear()
        told: list[str] = []
        monkeypatch.setattr(notify, "send", lambda *facts, **_: told.append(facts[2].state))
        assert not cluster.controller(folder).step()
        assert told == ["cancelled"]

    def test_kubernetes_cancel_leaves_no_job_of_an_incomplete_run_and_starts_none(
        self, cluster: Cluster
    ) -> None:
        folder = cluster.submitted([1], last=True, notify=RECEIVER)
        control.change(folder, 0, complete=False)
        cluster.ended(folder, "0", "cancelled")
        cluster.cancel()
        assert cluster.server.of("jobs") == {}
        control.change(folder, 0, complete=True)
        cluster.controller(folder).start()
        assert cluster.server.of("jobs") == {}

    def test_kubernetes_controller_reports_and_retries_a_refused_job(
        self, cluster: Cluster
    ) -> None:
        folder = cluster.submitted([1], last=True)
        cluster.ended(folder, "0")
        cluster.server.refuse = lambda _: "exceeded quota: team"
        assert cluster.controller(folder).step()
        why = control.read(folder).blocked.get("controller", "")
        assert why == "exceeded quota: team"
        cluster.server.refuse = lambda _: ""
        assert cluster.controller(folder).step()
        assert control.read(folder).blocked.get("controller", "") == ""
        assert cluster.server.created[-1] == "job-a-0-1"

    def test_kubernetes_controller_names_a_damaged_file(self, cluster: Cluster) -> None:
        folder = cluster.submitted([1], last=True)
        (folder / "control.json").write_text("{")
        with pytest.raises(UnreadableFile, match=r"control\.json: damaged"):
            cluster.controller(folder).step()
