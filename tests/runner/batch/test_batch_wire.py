"""Jobs and tasks as they are sent to Batch."""

import json
from dataclasses import replace
from typing import Any

import pytest
from targets import target_of

from fairway_agent.resources import ResourceRequest
from fairway_agent.spec import WARN, Budget, IdleGpu, Output, Receiver, RunPlan, Staged, TaskSpec
from fairway_runner.engines.azure_storage import Storage
from fairway_runner.engines.batch.request_builder import Blobs, RequestBuilder, is_exit_report
from fairway_runner.jobs.job import Job

IDENTITY = "/subscriptions/0/identities/pool"
SPEC = TaskSpec(0)


def wire(
    job: dict[str, Any] | None = None,
    size: str = "",
    environment: str = "",
    slots: int | None = None,
    **plan: Any,
) -> RequestBuilder:
    account, containers = "https://contoso.blob.core.windows.net", ["datasets", "outputs", "code"]
    target = target_of(
        "batch",
        {"identity": IDENTITY, "task_slots": slots},
        name="pool",
        environment=environment,
        vm_size=size,
        nodes={"min": 0, "max": 8},
        mounts={"data": "/data"},
        storage={"account_url": account, "containers": containers},
    )
    made = Job.model_validate({"name": "job", "command": "true", **(job or {})})
    blobs = Blobs("archives/c.tar.gz", "fairway/n.tar.gz", "r/record.tar.gz", "runs/r/key")
    return RequestBuilder(
        "r", RunPlan("r", "/code", **plan), made, target, Storage(target, 1), blobs
    )


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)


class TestTheJob:
    """Settings of the job, common to all tasks."""

    def test_batch_job_has_its_priority_pool_metadata_and_task_limit(self) -> None:
        job = wire().job_spec("digits", {"fairway_run": "r"})
        assert (job["id"], job["displayName"], job["priority"]) == ("r", "digits", 0)
        assert (job["onAllTasksComplete"], job["onTaskFailure"]) == ("noaction", "noaction")
        assert job["poolInfo"] == {"poolId": "pool"}
        assert job["metadata"] == [{"name": "fairway_run", "value": "r"}]
        assert "maxParallelTasks" not in job
        job = wire({"priority": "high"}, max_parallel=3).job_spec("x", {})
        assert (job["priority"], job["maxParallelTasks"]) == (500, 3)

    def test_batch_job_and_task_contain_no_signature_key_or_secret(self) -> None:
        made = wire({"secrets": {"TOKEN": "keyvault:hub"}})
        text = json.dumps([made.job_spec("x", {}), made.task(replace(SPEC, nodes=2))])
        assert not any(word in text for word in ("sig=", "AccountKey", "TOKEN", "hub"))

    def test_batch_job_preparation_fetches_all_files_by_identity(self) -> None:
        staged = (Staged("words", "datasets", "w/", "scratch"),)
        job = wire(staged=staged).job_spec("x", {})
        files = job["jobPreparationTask"]["resourceFiles"]
        assert len(files) == 4
        assert all(file["identityReference"] == {"resourceId": IDENTITY} for file in files)
        assert files[1]["httpUrl"] == (
            "https://contoso.blob.core.windows.net/code/archives/c.tar.gz"
        )
        assert files[3]["storageContainerUrl"].endswith("/datasets")
        assert (files[3]["blobPrefix"], files[3]["filePath"]) == ("w/", "inputs/words")

    def test_batch_job_preparation_and_release_run_as_admin_only_for_an_admin_setup(self) -> None:
        def levels(setup: Any) -> list[str]:
            made = wire({"setup": setup})
            job = made.job_spec("x", {})
            users = [each["userIdentity"]["autoUser"] for each in (job["jobPreparationTask"],)]
            users += [made.task(SPEC)["userIdentity"]["autoUser"]]
            assert {user["scope"] for user in users} == {"pool"}
            return [user["elevationLevel"] for user in users]

        assert levels("make") == ["nonadmin", "nonadmin"]
        assert levels({"command": "make"}) == ["nonadmin", "nonadmin"]
        assert levels({"command": "apt-get install fio", "admin": True}) == ["admin", "nonadmin"]

        def release(setup: Any) -> tuple[str, bool]:
            task = wire({"setup": setup}).job_spec("x", {})["jobReleaseTask"]
            level = task["userIdentity"]["autoUser"]["elevationLevel"]
            return level, 'fairway-node" release' in task["commandLine"]

        assert release({"command": "make", "admin": True}) == ("nonadmin", False)
        assert release({"command": "make", "release": "make clean"}) == ("nonadmin", True)
        setup = {"command": "make", "release": "make clean", "admin": True}
        assert release(setup) == ("admin", True)


class TestTasks:
    """Settings of a task."""

    def test_batch_task_has_its_nodes_retries_timeout_variables_and_outputs(self) -> None:
        task = wire(retries=2).task(TaskSpec(7))
        assert (task["id"], task["constraints"]["maxTaskRetryCount"]) == ("7", 2)
        assert task["constraints"]["retentionTime"] == "P7D"
        assert "maxWallClockTime" not in task["constraints"]
        assert "multiInstanceSettings" not in task
        assert task["userIdentity"]["autoUser"]["scope"] == "pool"
        settings = wire().task(replace(SPEC, nodes=3))["multiInstanceSettings"]
        assert settings["numberOfInstances"] == 3
        assert "coordinate" in settings["coordinationCommandLine"]
        [key] = settings["commonResourceFiles"]
        assert (key["filePath"], key["fileMode"]) == ("fairway_key", "0600")
        assert key["httpUrl"].endswith("/code/runs/r/key")
        assert key["identityReference"] == {"resourceId": IDENTITY}
        task = wire(timeout=60.0, retries=1).task(SPEC)
        assert task["constraints"]["maxWallClockTime"] == "PT740S"
        made = wire()
        made.first, made.submission = {"0": 3}, 2
        assert made.job_spec("x", {})["id"] == "r-again2"
        variables = {each["name"]: each["value"] for each in made.task(SPEC)["environmentSettings"]}
        assert variables == {"FAIRWAY_TASK": "0", "FAIRWAY_FIRST": "3"}
        output = Output("a/*", "always", ("model/b/*.txt",), ("*.tmp",))
        kept = wire().task(replace(SPEC, outputs={"model": output}))["outputFiles"][2:]
        found = [(e["filePattern"], e["destination"]["container"]["path"]) for e in kept]
        assert found == [
            ("outputs/a/*", "r/0/outputs/model/a"),
            ("outputs/model/b/*.txt", "r/0/outputs/model/b"),
        ]

    @pytest.mark.parametrize(
        ("pattern", "when", "expected"),
        [
            ("model/**", "success", ("outputs/model/**/*", "r/0/outputs/model", "tasksuccess")),
            ("*.txt", "failure", ("outputs/*.txt", "r/0/outputs/model", "taskfailure")),
            ("a/b", "always", ("outputs/a/b", "r/0/outputs/model/a/b", "taskcompletion")),
        ],
    )
    def test_batch_task_uploads_outputs_by_pattern_and_condition(
        self, pattern: str, when: str, expected: tuple[str, str, str]
    ) -> None:
        spec = replace(SPEC, outputs={"model": Output(pattern, when)})
        kept = wire().task(spec)["outputFiles"]
        assert [each["filePattern"] for each in kept[:2]] == ["../std*.txt", "logs/*.txt"]
        assert kept[0]["uploadOptions"]["uploadCondition"] == "taskcompletion"
        place = kept[2]["destination"]["container"]
        found = (kept[2]["filePattern"], place["path"], kept[2]["uploadOptions"]["uploadCondition"])
        assert found == expected
        assert all(each["destination"] == kept[2]["destination"] for each in kept[3:])
        assert place["identityReference"] == {"resourceId": IDENTITY}

    def test_batch_last_task_depends_on_all_others_and_gets_their_outputs(self) -> None:
        made = wire()
        last = made.last_task(TaskSpec(4), [0, 1, 3])
        ranges = last["dependsOn"]["taskIdRanges"]
        assert ranges == [{"start": 0, "end": 1}, {"start": 3, "end": 3}]
        conditions = made.task(SPEC)["exitConditions"]
        assert conditions["default"] == {"dependencyAction": "satisfy"}
        made = wire()
        made.first = {"finally": 2}
        last = made.last_task(TaskSpec("finally", outputs={"sum": Output("sum/**", "always")}), [0])
        [brought] = last["resourceFiles"]
        assert brought["storageContainerUrl"].endswith("/outputs")
        assert (brought["blobPrefix"], brought["filePath"]) == ("r/", "from-tasks")
        assert brought["identityReference"] == {"resourceId": IDENTITY}
        variables = {each["name"]: each["value"] for each in last["environmentSettings"]}
        assert variables == {"FAIRWAY_TASK": "finally", "FAIRWAY_FIRST": "2", "FAIRWAY_LAST": "1"}
        place = last["outputFiles"][2]["destination"]["container"]["path"]
        assert (last["id"], place) == ("finally", "r/finally/outputs/sum")
        assert "resourceFiles" not in made.task(SPEC)
        # The service has an error TaskDependencyRangesTooLong.
        made = wire()
        last = made.last_task(TaskSpec(9_999), range(0, 2_000, 2))
        assert last["dependsOn"] == {"taskIds": [str(number) for number in range(0, 2_000, 2)]}
        last = made.last_task(TaskSpec(99_999), range(0, 90_000, 2))
        assert list(last["dependsOn"]) == ["taskIdRanges"]  # their ids would be too long


class TestContainers:
    """Container settings of a task."""

    def test_batch_container_has_the_registry_and_options_for_its_node_size(self) -> None:
        container = {
            "image": "contoso.azurecr.io/train:1",
            "shm_size": "64g",
            "options": ["--cap-add=SYS_PTRACE", "--env=A=two words"],
        }
        size = "Standard_ND96asr_v4"
        made = wire({"container": container}, size=size)
        settings = made.task(SPEC)["containerSettings"]
        assert settings["imageName"] == "contoso.azurecr.io/train:1"
        assert settings["registry"] == {
            "registryServer": "contoso.azurecr.io",
            "identityReference": {"resourceId": IDENTITY},
        }
        options = settings["containerRunOptions"]
        for word in ("--net=host", "--shm-size=64g", "--device=/dev/infiniband"):
            assert word in options
        assert "--ulimit memlock=-1" in options
        assert "--gpus" not in options  # Batch adds the GPUs by itself
        assert "--entrypoint= " in options
        assert "--volume=/data:/data" in options
        assert options.endswith("--cap-add=SYS_PTRACE '--env=A=two words'")
        assert made.job_spec("x", {})["jobPreparationTask"]["containerSettings"] == settings
        made = wire({"container": {"image": "python:3.12"}}, size="Standard_ND96asr_v4")
        assert "resource_nvme" not in json.dumps(made.task(SPEC))
        container = {"image": "python:3.12", "options": ["--entrypoint=/bin/tini --"]}
        options = wire({"container": container}).task(SPEC)["containerSettings"]
        assert options["containerRunOptions"].count("--entrypoint") == 1
        made = wire({"container": {"image": "python:3.12"}}, size="Standard_D4s_v6")
        settings = made.task(SPEC)["containerSettings"]
        assert "registry" not in settings
        assert "infiniband" not in settings["containerRunOptions"]
        assert "--shm-size=8g" in settings["containerRunOptions"]

    @pytest.mark.parametrize(
        ("size", "settings", "scratch"),
        [
            ("Standard_ND96asr_v4", True, True),
            ("Standard_HB176rs_v4", False, True),
            ("Standard_ND40rs_v2", True, False),
        ],
    )
    def test_batch_container_mounts_settings_and_scratch_of_its_node_size(
        self, size: str, settings: bool, scratch: bool
    ) -> None:
        made = wire({"container": {"image": "python:3.12"}}, size=size, environment="lab")
        options = made.task(SPEC)["containerSettings"]["containerRunOptions"]
        # Docker would create a folder in place of a missing file.
        assert ("--volume=/etc/nccl.conf:/etc/nccl.conf:ro" in options) is settings
        assert ("--volume=/opt/microsoft:/opt/microsoft:ro" in options) is settings
        assert ("--volume=/mnt/resource_nvme:/mnt/resource_nvme" in options) is scratch


@pytest.mark.parametrize(
    ("slots", "wanted", "required"),
    [
        (None, None, None),
        (8, None, 8),
        (8, ResourceRequest(gpus=3), 3),
        (8, ResourceRequest(cores=12), 1),
        (8, ResourceRequest(cores=13), 2),
        (8, ResourceRequest(gpus=1, cores=96), 8),
        (8, ResourceRequest(gpus=0), 1),
        (4, ResourceRequest(gpus=3), 2),
        (96, ResourceRequest(gpus=1), 12),
    ],
)
def test_batch_task_requires_slots_by_its_share_of_the_node(
    slots: int | None, wanted: ResourceRequest | None, required: int | None
) -> None:
    """Tasks that Batch starts together never need more than the node has."""
    requests = wire(size="Standard_ND96isr_H100_v5", slots=slots)
    task = requests.task(replace(SPEC, wanted=wanted))
    assert task.get("requiredSlots") == required
    assert ("requiredSlots" in task) is (required is not None)
    requests = wire(size="Standard_D16s_v6", slots=4)  # has no GPUs
    assert requests.task(replace(SPEC, wanted=ResourceRequest(cores=5)))["requiredSlots"] == 2


class TestEndings:
    """Exit reports that tasks write are kept only if something reads them."""

    HEARS = Receiver("https://x.io/", ("failed",), "auto")

    def test_batch_job_release_notifies_only_if_the_plan_has_a_receiver(self) -> None:
        made = wire()
        assert made.job_spec("x", {})["jobReleaseTask"]["commandLine"].endswith("/fairway/r'")
        assert not any(map(is_exit_report, made.task(SPEC)["outputFiles"]))
        assert made.job_spec("x", {})["commonEnvironmentSettings"] == [
            {"name": "FAIRWAY_RUN", "value": "r"}
        ]
        made = replace(wire(notify=self.HEARS), submission=2, done={"succeeded": 3})
        job = made.job_spec("x", {})
        release = job["jobReleaseTask"]
        assert release["commandLine"].endswith("fairway-node\" tell'")
        setup = {"setup": {"command": "true", "release": "true"}}
        both = wire(setup, notify=self.HEARS).job_spec("x", {})["jobReleaseTask"]["commandLine"]
        assert both.index("tell") < both.index("release"), "which may be cut off"
        [brought] = release["resourceFiles"]
        assert (brought["blobPrefix"], brought["filePath"]) == ("r/exit-reports/2/", "exit-reports")
        assert brought["identityReference"] == {"resourceId": IDENTITY}
        assert release["environmentSettings"] == [
            {"name": "FAIRWAY_DONE", "value": '{"succeeded": 3}'}
        ]
        assert {"name": "FAIRWAY_SUBMISSION", "value": "2"} in job["commonEnvironmentSettings"]
        assert "https://x.io" not in json.dumps([job, made.task(SPEC)])

    @pytest.mark.parametrize(
        "plan",
        [
            {"max_duration": 60.0},
            {"max_cost": Budget(1.0, "USD", 2.0)},
            {"idle_gpu": IdleGpu(5.0, 60.0, WARN)},
            {"retry_limits": {"node": 0}},
        ],
    )
    def test_batch_task_uploads_its_ending_if_a_limit_is_set(self, plan: dict[str, Any]) -> None:
        made = wire(**plan)
        [kept] = filter(is_exit_report, made.task(SPEC)["outputFiles"])
        place = kept["destination"]["container"]
        assert (kept["filePattern"], place["path"]) == (
            "logs/exit-report*.json",
            "r/exit-reports/0/0",
        )
        assert kept["uploadOptions"] == {"uploadCondition": "taskcompletion"}
        assert "resourceFiles" not in made.job_spec("x", {})["jobReleaseTask"]
