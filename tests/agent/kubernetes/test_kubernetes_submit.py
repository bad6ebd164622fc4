"""A run is handed over once, whatever befalls who does it; and what waits is started when due."""

import io
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from api_server import Cluster, Server

from fairway_agent import control, notify, state_files
from fairway_agent.kubernetes import runs, submit
from fairway_agent.records import Damaged
from fairway_agent.shared.reports import CancelRequest, RunsRequest
from fairway_agent.state_files import RunState
from fairway_boot.files import Fault

RECEIVER = {"webhook": "http://127.0.0.1:1/x", "on": ["failed"], "form": "json"}


def test_tasks_of_one_node_are_one_job_and_others_one_each(cluster: Cluster) -> None:
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
def test_whoever_goes_on_makes_none_twice(
    cluster: Cluster, survived: int, is_made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the server has taken one, and once it has and that could not be noted."""
    cluster.bring("job-a", [2, 2, 2], last=True)
    create, asked = cluster.server.create, []

    def die(base: str, kind: str, manifest: Any) -> bool:
        asked.append(manifest["metadata"]["name"])
        is_last = len(asked) == survived + 1
        done = (is_made or not is_last) and create(base, kind, manifest)
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


def test_what_is_refused_leaves_nothing(cluster: Cluster) -> None:
    folder = cluster.bring("job-a", [2, 2])
    cluster.server.refuse = lambda name: "exceeded quota: team" if name.endswith("-1") else ""
    with pytest.raises(Fault, match="Kubernetes refuses the job: exceeded quota: team") as raised:
        cluster.submit()
    assert raised.value.record["exit_code"] == 2
    assert "kubectl describe quota" in raised.value.record["hint"]
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


def test_a_retry_has_names_of_its_own(cluster: Cluster) -> None:
    folder = cluster.submitted([1, 1, 1])
    cluster.ended(folder, "2", "failed")
    retry = {"only": [2], "done": {"succeeded": 2}, "is_set_up": False, "submission": 1}
    (folder / "retry.json").write_text(json.dumps(retry))
    assert cluster.submit("job-a", submission=1) == ["job-a-1-0"]
    [part] = control.read(folder).parts
    assert part.indices == (2,)
    assert cluster.server.of("jobs")["job-a-1-0"]["spec"]["completions"] == 1


def test_look_at_a_retry_that_is_being_submitted_leaves_it_to_come(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As controllers of runs that come after it look, whose next look may be at any time."""
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
    assert [(each.state, each.submission) for each in (*seen, cluster.state(folder))] == [
        ("queued", 1),
        ("queued", 1),
    ]


def test_clean_leaves_no_object(cluster: Cluster) -> None:
    folder = cluster.submitted([1], last=True)
    assert len(cluster.server.of("jobs")) == 2
    runs.remove(cluster.shared, RunsRequest(remove="job-a"), io.BytesIO())
    assert cluster.server.of("jobs") == {}
    assert not folder.exists()


class TestNames:
    """Whose a Job is that has the name of one to be made."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
        """A clock that only sleeping moves; what is on `after` is done then."""
        now = SimpleNamespace(now=0.0, after={})

        def sleep(seconds: float) -> None:
            now.now += seconds
            for moment in [each for each in now.after if each <= now.now]:
                now.after.pop(moment)()

        for module in (submit, runs):
            time = SimpleNamespace(monotonic=lambda: now.now, sleep=sleep)
            monkeypatch.setattr(module, "time", time)
        return now

    def leave(self, cluster: Cluster, server: Server, run: str = "job-a") -> dict[str, Any]:
        """A Job of a run that is over; its folder is gone."""
        folder = cluster.bring(run, [1])
        cluster.submit(run)
        del server.of("jobs")[f"{run}-0-controller"]
        [job] = server.of("jobs").values()
        shutil.rmtree(folder)
        shutil.rmtree(cluster.shared / "code")
        server.created.clear()
        return job

    def being_deleted(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keeps deleted objects until their pods are gone, as a real server does."""

        def delete(_base: str, kind: str, name: str, **_: bool) -> None:
            if name in server.of(kind):
                server.of(kind)[name]["metadata"]["deletionTimestamp"] = "2026-11-23T15:00:00Z"

        monkeypatch.setattr(server, "delete", delete)

    def test_one_that_is_being_deleted_is_waited_for_but_not_for_ever(
        self, cluster: Cluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And what was left by a run whose folder somebody has removed is deleted first."""
        server, end = cluster.server, clock.now + submit.PATIENCE
        self.leave(cluster, server)
        self.being_deleted(server, monkeypatch)
        folder = cluster.bring("job-a", [1])
        with pytest.raises(Fault, match="the deleted Job job-a-0-0 still exists") as said:
            cluster.submit()
        assert said.value.record["hint"].endswith("kubectl get pods -l fairway.dev/run=job-a")
        assert folder.exists()
        assert clock.now >= end
        clock.after[clock.now + 20] = server.of("jobs").clear
        assert cluster.submit() == ["job-a-0-0"]
        assert server.created == ["job-a-0-0", "job-a-0-controller"]
        assert "deletionTimestamp" not in server.of("jobs")["job-a-0-0"]["metadata"]

    def test_those_of_a_run_without_a_folder_are_ended_and_waited_for(
        self, cluster: Cluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All of them, but not where one task alone is to end: which is which is not known."""
        folder = cluster.submitted([1, 1], last=True)
        shutil.rmtree(folder)
        one = CancelRequest("job-a", 0, task="0", claims=("claim",))
        runs.cancel(cluster.shared, one, io.BytesIO())
        (folder / "tasks" / "0").mkdir(parents=True)  # what its pod has written since
        runs.cancel(cluster.shared, one, io.BytesIO())
        assert [each.name for each in folder.iterdir()] == ["tasks"]
        self.being_deleted(cluster.server, monkeypatch)
        jobs = cluster.server.of("jobs")
        assert not any("deletionTimestamp" in each["metadata"] for each in jobs.values())
        with pytest.raises(Fault, match="the folder of job-a is gone") as said:
            runs.cancel(cluster.shared, replace(one, task=""), io.BytesIO())
        assert said.value.record["exit_code"] == 5
        assert said.value.record["hint"].endswith("fairway.dev/run=job-a): fairway cancel job-a")
        assert all("deletionTimestamp" in each["metadata"] for each in jobs.values())
        clock.after[clock.now + 20.0] = jobs.clear
        runs.cancel(cluster.shared, replace(one, task=""), io.BytesIO())
        assert not folder.exists()

    def test_a_conflict_with_no_job_is_waited_for_with_an_end(
        self, cluster: Cluster, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As of a quota that others change at the same time."""
        cluster.bring("job-a", [1])
        create, asked = cluster.server.create, []

        def conflict(*_: Any) -> bool:
            asked.append(clock.now)
            return False

        monkeypatch.setattr(cluster.server, "create", conflict)
        with pytest.raises(
            Fault, match="could not create the Job job-a-0-0, because of a conflict with another"
        ):
            cluster.submit()
        assert len(asked) == len(set(asked))  # none at once after another
        monkeypatch.setattr(cluster.server, "create", create)
        assert cluster.submit() == ["job-a-0-0"]

    @pytest.mark.parametrize("other", ["folder", "claim"])
    def test_a_run_of_another_shared_folder_keeps_its_own(
        self, cluster: Cluster, other: str
    ) -> None:
        job = self.leave(cluster, cluster.server)
        spec = job["spec"]["template"]["spec"]
        if other == "folder":
            words = [
                each.replace(str(cluster.shared), "/their")
                for each in spec["containers"][0]["command"]
            ]
            spec["containers"][0]["command"] = words
        else:
            spec["volumes"][0]["persistentVolumeClaim"]["claimName"] = "theirs"
        before = json.dumps(job)
        folder = cluster.bring("job-a", [1], last=True)
        words = "Jobs of a run job-a with another shared folder"
        with pytest.raises(Fault, match=words) as said:
            cluster.submit()
        assert said.value.record["exit_code"] == 2
        assert "choose another --run-id" in said.value.record["hint"]
        assert not folder.exists()
        runs.remove(cluster.shared, RunsRequest(remove="job-a"), io.BytesIO())
        runs.cancel(cluster.shared, CancelRequest("job-a", 0, kill=True), io.BytesIO())
        asked = CancelRequest("job-a", 0, claims=("claim",))
        runs.cancel(cluster.shared, asked, io.BytesIO())
        assert (json.dumps(cluster.server.of("jobs")["job-a-0-0"]), cluster.server.created) == (
            before,
            [],
        )

    def test_two_runs_of_one_name_submitted_at_once_keep_to_their_own(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = cluster.bring("job-a", [2, 2])
        create = cluster.server.create

        def race(base: str, kind: str, manifest: Any) -> bool:
            if manifest["metadata"]["name"].endswith("-1"):
                theirs = json.loads(json.dumps(manifest).replace(str(cluster.shared), "/their"))
                cluster.server.of(kind)["job-a-0-1"] = theirs
            return create(base, kind, manifest)

        monkeypatch.setattr(cluster.server, "create", race)
        with pytest.raises(Fault, match="with another shared folder"):
            cluster.submit()
        assert [*cluster.server.of("jobs")] == ["job-a-0-1"]
        assert not folder.exists()


class TestWhatWaits:
    """The controller's part of what is submitted."""

    def test_as_many_run_as_may(self, cluster: Cluster) -> None:
        folder = cluster.submitted([2, 2, 2, 2], max_parallel=2)
        assert cluster.due(folder) == [0, 1]
        cluster.controller(folder).start()
        assert sorted(cluster.server.created) == ["job-a-0-0", "job-a-0-1", "job-a-0-controller"]
        assert cluster.due(folder) == []
        cluster.ended(folder, "0")
        assert cluster.due(folder) == [2]

    def test_nothing_is_decided_of_what_was_not_submitted_whole(self, cluster: Cluster) -> None:
        first = cluster.submitted([1], "first")
        folder = cluster.bring("job-a", [1], after=["first"])
        cluster.submit()
        control.change(folder, 0, complete=False)
        state_files.write(first, RunState("failed", ended=1.0))
        cluster.controller(folder).start()
        assert control.read(folder).unmet is None

    def test_a_run_after_one_that_failed_is_refused(self, cluster: Cluster) -> None:
        first = cluster.submitted([1], "first")
        state_files.write(first, RunState("failed", ended=1.0))
        cluster.bring("job-a", [1], after=["first"])
        with pytest.raises(Fault, match="`after`: first failed"):
            cluster.submit()

    @pytest.mark.parametrize("kill", [False, True])
    def test_who_wants_to_hear_of_its_end_hears_that_it_was_cancelled(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kill: bool
    ) -> None:
        folder = cluster.submitted([1, 1], notify=RECEIVER)
        for part in ("controller", "0"):
            name = f"job-a-0-{part}-abcde"
            job = cluster.server.of("jobs")[f"job-a-0-{part}"]
            labels = job["metadata"]["labels"]
            pod = {**job["spec"]["template"], "metadata": {"name": name, "labels": labels}}
            cluster.server.of("pods")[name] = {**pod, "status": {"phase": "Running"}}
        runs.cancel(cluster.shared, CancelRequest("job-a", 0, kill), io.BytesIO())
        assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
        assert ("job-a-0-0-abcde" in cluster.server.of("pods")) is not kill
        assert "job-a-0-controller-abcde" in cluster.server.of("pods")
        cluster.server.of("pods").clear()
        told: list[str] = []
        monkeypatch.setattr(notify, "send", lambda *facts, **_: told.append(facts[2].state))
        assert not cluster.controller(folder).step()
        assert told == ["cancelled"]

    def test_nothing_of_a_cancelled_run_is_started_nor_left_of_one_not_submitted_whole(
        self, cluster: Cluster
    ) -> None:
        folder = cluster.submitted([1], last=True, notify=RECEIVER)
        control.change(folder, 0, complete=False)
        cluster.ended(folder, "0", "cancelled")
        runs.cancel(cluster.shared, CancelRequest("job-a", 0), io.BytesIO())
        assert cluster.server.of("jobs") == {}
        control.change(folder, 0, complete=True)
        cluster.controller(folder).start()
        assert cluster.server.of("jobs") == {}

    def test_what_is_refused_to_the_controller_is_tried_again_and_said(
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

    def test_a_controller_ends_with_words_where_a_file_is_damaged(self, cluster: Cluster) -> None:
        folder = cluster.submitted([1], last=True)
        (folder / "control.json").write_text("{")
        with pytest.raises(Damaged, match=r"control\.json: damaged"):
            cluster.controller(folder).step()
