"""A run in Batch's terms: its job and its tasks, as plain dicts in their wire form.

The SDK's model objects are equivalent, and take longer to build than tasks take to be sent.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_agent.batch.notifications import BROUGHT as BROUGHT_REPORTS
from fairway_agent.batch.notifications import DONE, is_tracked
from fairway_agent.batch.notifications import FILE as EXIT_REPORT
from fairway_agent.outputs import BROUGHT
from fairway_core import local_disks
from fairway_core.catalog import vm_size
from fairway_runner.engines.azure_storage import CODE, OUTPUTS, Storage
from fairway_runner.engines.batch import client

if TYPE_CHECKING:
    from fairway_agent.resources import ResourceRequest
    from fairway_agent.spec import Output, RunPlan, TaskSpec
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Container, Job

# Docker's default of 64 MB makes MPI and data loaders crash.
_SHARED_MEMORY = "8g"

_RETENTION = "P7D"  # for a task's folder on its node; logs and outputs are in storage
_MARGIN = 300.0  # seconds after which Batch itself ends a task that exceeds its timeout
_SHORTEST_LIMIT = 60.0
_MOST_RANGES, _LONGEST_IDS = 100, 64_000

# All processes on a node have one user, so the nodes of a task trust each other.
_USER = {"autoUser": {"scope": "pool", "elevationLevel": "nonadmin"}}
_ADMIN = {"autoUser": {"scope": "pool", "elevationLevel": "admin"}}

_UNPACK = (
    "mkdir -p fairway code record inputs && tar -xzf fairway.tar.gz -C fairway && "
    "tar -xzf code.tar.gz -C code && tar -xzf record.tar.gz -C record"
)
_PROGRAM = '"$AZ_BATCH_JOB_PREP_WORKING_DIR/fairway/fairway-node"'


def needs_exit_reports(plan: RunPlan) -> bool:
    """Returns True if somebody reads the exit reports of a run's tasks."""
    return plan.notify is not None or is_tracked(plan)


@dataclass(frozen=True)
class Blobs:
    """Names of the blobs that a run's nodes begin with."""

    code: str
    node: str
    record: str
    key: str


@dataclass
class RequestBuilder:
    """Converts one run into a job and tasks. For a retry, `first` has the number of each task's
    next attempt, and `done` how many tasks that do not run again ended in which state."""

    run: str
    plan: RunPlan
    job: Job
    target: Target
    storage: Storage
    blobs: Blobs
    submission: int = 0
    first: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, int] = field(default_factory=dict)

    def job_spec(self, display_name: str, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Returns the job. It takes no action when it is empty: its tasks are added later."""
        common = [{"name": "FAIRWAY_RUN", "value": self.run}]
        if self.submission and needs_exit_reports(self.plan):
            common.append({"name": "FAIRWAY_SUBMISSION", "value": str(self.submission)})
        return {
            "id": client.job_id(self.run, self.submission),
            "displayName": display_name,
            "priority": self.job.priority_number,
            "poolInfo": {"poolId": self.target.batch.pool if self.target.batch else ""},
            "onAllTasksComplete": "noaction",
            "onTaskFailure": "noaction",
            "usesTaskDependencies": True,
            **({"maxParallelTasks": most} if (most := self.plan.max_parallel) else {}),
            "commonEnvironmentSettings": common,
            "jobPreparationTask": self._preparation(),
            "jobReleaseTask": self._release(),
            "metadata": [{"name": name, "value": value} for name, value in metadata.items()],
        }

    def _preparation(self) -> dict[str, Any]:
        inputs = [  # those for a shared folder are moved there by a node
            self._folder(each.container, each.path, f"inputs/{each.name}")
            for each in self.plan.staged
        ]
        return {
            "id": "prepare",
            "commandLine": f"/bin/bash -c '{_UNPACK} && exec fairway/fairway-node prepare'",
            "resourceFiles": [
                self._file(CODE, self.blobs.node, "fairway.tar.gz"),
                self._file(CODE, self.blobs.code, "code.tar.gz"),
                self._file(OUTPUTS, self.blobs.record, "record.tar.gz"),
                *inputs,
            ],
            "userIdentity": _ADMIN if self.job.setup_is_admin else _USER,
            "waitForSuccess": True,
            "constraints": {"maxTaskRetryCount": 2},
            **self._container,
        }

    def _release(self) -> dict[str, Any]:
        scratch = f"{local_disks.FOLDER}/fairway/{self.run}"
        # The job's own command comes last, since the service ends it after 15 minutes.
        steps = [f"rm -rf {scratch}"]
        if self.plan.notify is not None:
            steps.append(f"{_PROGRAM} tell")
        if has_command := self.job.release_command is not None:
            steps.append(f"{_PROGRAM} release")
        release: dict[str, Any] = {
            "id": "release",
            "commandLine": f"/bin/bash -c '{'; '.join(steps)}'",
            "userIdentity": _ADMIN if has_command and self.job.setup_is_admin else _USER,
            **(self._container if has_command else {}),
        }
        if self.plan.notify is not None:
            reports = self._folder(OUTPUTS, self._reports, BROUGHT_REPORTS)
            done = {"name": DONE, "value": json.dumps(dict(self.done))}
            release |= {"resourceFiles": [reports], "environmentSettings": [done]}
        return release

    @property
    def _reports(self) -> str:
        return client.exit_reports_folder(self.run, self.submission)

    def task(self, spec: TaskSpec) -> dict[str, Any]:
        """Returns one task of `tasks.jsonl`."""
        index = spec.name
        variables = [{"name": "FAIRWAY_TASK", "value": index}]
        if first := self.first.get(index):
            variables.append({"name": "FAIRWAY_FIRST", "value": str(first)})
        task = {
            "id": index,
            "commandLine": f"/bin/bash -c 'exec {_PROGRAM} task'",
            "environmentSettings": variables,
            "constraints": self._constraints,
            "outputFiles": self._outputs(index, spec.outputs),
            "userIdentity": _USER,
            # `finally` runs afterwards, however the task ends.
            "exitConditions": _SATISFY,
            **self._container,
        }
        if (required := slots_required(self.target, spec.wanted)) is not None:
            task["requiredSlots"] = required
        if spec.nodes > 1:
            task["multiInstanceSettings"] = {
                "numberOfInstances": spec.nodes,
                "coordinationCommandLine": f"/bin/bash -c 'exec {_PROGRAM} coordinate'",
                "commonResourceFiles": [
                    {**self._file(CODE, self.blobs.key, "fairway_key"), "fileMode": "0600"}
                ],
            }
        return task

    def last_task(self, spec: TaskSpec, others: Sequence[int]) -> dict[str, Any]:
        """Returns the job's `finally:`, which depends on the others."""
        task = self.task(spec)
        task["environmentSettings"].append({"name": "FAIRWAY_LAST", "value": "1"})
        ranges, ids = _ranges(others), [str(number) for number in others]
        # Batch takes few ranges, by no documented number, and ids of 64,000 characters at most.
        use_ranges = len(ranges) <= _MOST_RANGES or sum(map(len, ids)) > _LONGEST_IDS
        task["dependsOn"] = {"taskIdRanges": ranges} if use_ranges else {"taskIds": ids}
        # Downloads everything that the run has kept when this task starts. A list of single files
        # would fail for a task that kept nothing.
        task["resourceFiles"] = [self._folder(OUTPUTS, f"{self.run}/", BROUGHT)]
        return task

    @cached_property
    def _constraints(self) -> dict[str, Any]:
        retries = self.plan.retries
        constraints: dict[str, Any] = {"maxTaskRetryCount": retries, "retentionTime": _RETENTION}
        if self.plan.timeout is not None:
            # The program on the node enforces the timeout, with the job's signal and grace.
            once = self.plan.timeout + self.plan.grace + _MARGIN
            limit = max(_SHORTEST_LIMIT, once) * (retries + 1)
            constraints["maxWallClockTime"] = f"PT{limit:.0f}S"
        return constraints

    @cached_property
    def _container(self) -> dict[str, Any]:
        if self.job.container is None:
            return {}
        made = container_settings(self.job.container, self.target, self._identity)
        return {"containerSettings": made}

    @cached_property
    def _identity(self) -> dict[str, Any]:
        identity = self.target.batch.identity if self.target.batch else ""
        return {"identityReference": {"resourceId": identity}} if identity else {}

    def _file(self, container: str, blob: str, path: str) -> dict[str, Any]:
        url = f"{self.storage.container_url(container)}/{quote(blob)}"
        return {"httpUrl": url, "filePath": path, **self._identity}

    def _folder(self, container: str, prefix: str, path: str) -> dict[str, Any]:
        url = self.storage.container_url(container)
        place = {"storageContainerUrl": url, "blobPrefix": prefix, "filePath": path}
        return {**place, **self._identity}

    @cached_property
    def _outputs_url(self) -> str:
        return self.storage.container_url(OUTPUTS)

    def _outputs(self, index: str, outputs: Mapping[str, Output]) -> list[dict[str, Any]]:
        folder = client.task_folder(self.run, index)
        # The task's own output; that of earlier attempts and other nodes is in `logs`.
        files = [
            self._kept(each, folder.rstrip("/"), "taskcompletion")
            for each in ("../std*.txt", "logs/*.txt")
        ]
        if needs_exit_reports(self.plan):
            files.append(self._kept(_SAID, f"{self._reports}{index}", "taskcompletion"))
        for name, output in outputs.items():
            condition = _CONDITIONS[output.when]
            for pattern, path in (_output_pattern(name, each) for each in output.patterns):
                files += [
                    self._kept(each, f"{folder}outputs/{path}", condition)
                    for each in pattern_with_hidden(pattern)
                ]
        return files

    def _kept(self, pattern: str, path: str, condition: str) -> dict[str, Any]:
        place = {"containerUrl": self._outputs_url, "path": path, **self._identity}
        return {
            "filePattern": pattern,
            "destination": {"container": place},
            "uploadOptions": {"uploadCondition": condition},
        }


_CONDITIONS = {"always": "taskcompletion", "success": "tasksuccess", "failure": "taskfailure"}

# A pattern, because a task that was ended from outside has no such file.
_SAID = f"logs/{EXIT_REPORT.replace('.', '*.')}"

_SATISFY = {
    name: {"dependencyAction": "satisfy"}
    for name in ("default", "preProcessingError", "fileUploadError")
}


def is_exit_report(kept: Mapping[str, Any]) -> bool:
    """Returns True if this entry stores the task's exit report."""
    return bool(kept["filePattern"] == _SAID)


def pattern_with_hidden(pattern: str) -> list[str]:
    """Returns a pattern, and if it means everything in a folder, those for names that begin with a
    dot: Batch leaves them out unless they are named (see OutputFile.file_pattern of azure-batch).

    >>> pattern_with_hidden("a/*.txt"), pattern_with_hidden("a/**/*")
    (['a/*.txt'], ['a/**/*', 'a/**/.*', 'a/**/.*/**/*', 'a/**/.*/**/.*'])
    """
    if not pattern.endswith("**/*"):
        return [pattern]
    folder = pattern.removesuffix("*")
    return [pattern, *(f"{folder}{each}" for each in (".*", ".*/**/*", ".*/**/.*"))]


def _output_pattern(name: str, pattern: str) -> tuple[str, str]:
    """Returns Batch's pattern for an output, and the destination of its files below the task's
    outputs.

    Batch names a blob by the path after the folders before the first wildcard.

    >>> _output_pattern("model", "model/**"), _output_pattern("logs", "runs/*/log.txt")
    (('outputs/model/**/*', 'model'), ('outputs/runs/*/log.txt', 'logs/runs'))
    """
    pattern = f"{pattern}/*" if pattern.endswith("**") else pattern
    parts = PurePosixPath(pattern).parts
    plain = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    fixed = PurePosixPath(*parts[:plain])
    below = fixed.relative_to(name) if fixed.parts[:1] == (name,) else fixed
    return f"outputs/{pattern}", (PurePosixPath(name) / below).as_posix()


def _ranges(numbers: Sequence[int]) -> list[dict[str, int]]:
    """Groups ascending numbers into ranges, both ends included.

    >>> _ranges([0, 1, 2, 5])
    [{'start': 0, 'end': 2}, {'start': 5, 'end': 5}]
    """
    ranges: list[dict[str, int]] = []
    for number in numbers:
        if ranges and ranges[-1]["end"] == number - 1:
            ranges[-1]["end"] = number
        else:
            ranges.append({"start": number, "end": number})
    return ranges


def slots_required(target: Target, wanted: ResourceRequest | None) -> int | None:
    """Returns how many of a node's slots a task takes: the fraction that it takes of the node, and
    all if it takes the entire node; None if nodes have one slot."""
    slots = target.batch.task_slots if target.batch else None
    if slots is None or wanted is None:
        return slots
    size = vm_size(target.vm_size)
    fraction = wanted.node_fraction_of(size.vcpus, size.gpu.count if size.gpu else 0)
    return max(1, math.ceil(slots * fraction))


def container_settings(
    container: Container, target: Target, identity: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns settings in their wire form; `identity` pulls the image from an Azure registry."""
    size = vm_size(target.vm_size) if target.vm_size else None
    options = [
        # Ranks find each other by the nodes' own addresses.
        "--net=host",
        *("--ulimit", "memlock=-1", "--ulimit", "stack=-1"),
        f"--shm-size={container.shm_size or _SHARED_MEMORY}",
    ]
    if not any(option.startswith("--entrypoint") for option in container.options):
        # An image's own entrypoint would get our command as its arguments.
        options.append("--entrypoint=")
    # Batch itself adds NVIDIA's devices, and must not be told to: see
    # learn.microsoft.com/azure/batch/batch-docker-container-workloads.
    if size is not None and size.gpu and size.gpu.vendor != "nvidia":
        options += ["--device=/dev/kfd", "--device=/dev/dri"]
    if size is not None and size.rdma:
        options.append("--device=/dev/infiniband")
        if size.gpu and size.gpu.vendor == "nvidia":
            # The image's settings for NCCL, and the topology files that they name. Docker would
            # create a folder in place of a missing file, as on images for other sizes.
            options += ["--volume=/etc/nccl.conf:/etc/nccl.conf:ro"]
            options += ["--volume=/opt/microsoft:/opt/microsoft:ro"]
    if size is not None and size.nvme_disks and target.environment:
        # FAIRWAY_SCRATCH_DIR is there. Nodes without a Fairway environment may lack the folder, and
        # Docker would then create it on the system disk.
        options.append(f"--volume={local_disks.FOLDER}:{local_disks.FOLDER}")
    options += [f"--volume={path}:{path}" for path in target.mounts.values()]
    settings: dict[str, Any] = {
        "imageName": container.image,
        "workingDirectory": "taskWorkingDirectory",
        "containerRunOptions": shlex.join([*options, *container.options]),
    }
    server = container.image.split("/")[0]
    if server.endswith(".azurecr.io") and identity:
        settings["registry"] = {"registryServer": server, **identity}
    return settings
