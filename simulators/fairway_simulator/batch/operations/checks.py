"""Checks of a request's body before any change."""

from __future__ import annotations

import re
from typing import Any

from fairway_core.catalog import vm_sizes
from fairway_simulator.batch.wire.bodies import ServiceError, invalid_property, seconds

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_RANGES = 100
_LONGEST_IDS = 64_000
_MOST_FILES = 100


def identifier(body: dict[str, Any]) -> None:
    """Checks the id in a body: at most 64 letters, digits, hyphens and underscores."""
    value = required(body, "id")
    if not _ID.fullmatch(value):
        raise invalid_property("id", value, "1 to 64 of [A-Za-z0-9_-]")


def required(body: dict[str, Any], name: str) -> Any:
    value = body.get(name)
    if value is None:
        raise ServiceError(400, "MissingRequiredProperty", PropertyName=name)
    return value


def one_of(body: dict[str, Any], name: str, allowed: tuple[str, ...]) -> None:
    value = body.get(name)
    if value is not None and str(value).lower() not in allowed:
        raise invalid_property(name, value, f"one of {', '.join(allowed)}")


def span(body: dict[str, Any], name: str, least: float = 0, most: float | None = None) -> None:
    """Checks that a duration, if it is given, is within these seconds."""
    if body.get(name) is None:
        return
    length = seconds(body[name], name)
    if length < least or (most is not None and length > most):
        raise invalid_property(name, body[name], f"{least:g} to {most or 'any number of'} seconds")


def sizing(body: dict[str, Any]) -> None:
    """Checks the resize timeout of a pool, and the interval between evaluations of its formula: see
    the descriptions of resize_timeout and auto_scale_evaluation_interval in azure-batch."""
    span(body, "resizeTimeout", 5 * 60)
    span(body, "autoScaleEvaluationInterval", 5 * 60, 168 * 3600)


def limits(constraints: dict[str, Any]) -> None:
    """Checks a task's wall-clock time, the retention time of its files, and its number of retries;
    the simulator does not support -1, which means unlimited."""
    span(constraints, "maxWallClockTime")
    span(constraints, "retentionTime")
    value = constraints.get("maxTaskRetryCount")
    if value is not None and value < 0:
        raise invalid_property("maxTaskRetryCount", value, "0 or more")


def absent(body: dict[str, Any], *names: str) -> None:
    """Refuses properties that the service has and the simulator lacks, rather than ignore them."""
    for name in names:
        if body.get(name):
            raise invalid_property(name, body[name], "the simulator does not have this")


def job(body: dict[str, Any]) -> None:
    absent(body, "networkConfiguration", "constraints")
    if manager := body.get("jobManagerTask"):
        identifier(manager)
        required(manager, "commandLine")
        absent(manager, "applicationPackageReferences", "authenticationTokenSettings")
    priority = body.get("priority")
    if priority is not None and not -1000 <= priority <= 1000:
        raise invalid_property("priority", priority, "-1000 to 1000")
    if str(body.get("onTaskFailure", "noaction")).lower() != "noaction":
        absent(body, "onTaskFailure")
    if body.get("jobReleaseTask") and not body.get("jobPreparationTask"):
        raise invalid_property("jobReleaseTask", "", "needs a job preparation task")
    for name in ("jobPreparationTask", "jobReleaseTask"):
        if body.get(name):
            required(body[name], "commandLine")
            _files(body[name])
    # Source: the description of BatchJobReleaseTask.max_wall_clock_time in azure-batch.
    span(body.get("jobReleaseTask") or {}, "maxWallClockTime", 0, 15 * 60)
    for entry in body.get("metadata") or ():
        required(entry, "name")
        required(entry, "value")


def task(body: dict[str, Any], job_spec: dict[str, Any]) -> None:
    identifier(body)
    required(body, "commandLine")
    absent(body, "applicationPackageReferences", "authenticationTokenSettings", "affinityInfo")
    limits(body.get("constraints") or {})
    if body.get("dependsOn") and not job_spec["usesTaskDependencies"]:
        raise ServiceError(400, "TaskDependenciesNotSpecifiedOnJob")
    _dependencies(body.get("dependsOn") or {})
    _exit_conditions(body.get("exitConditions") or {}, job_spec)
    settings = body.get("multiInstanceSettings")
    if settings is not None:
        required(settings, "coordinationCommandLine")
        if int(settings.get("numberOfInstances", 1)) < 1:
            raise invalid_property("numberOfInstances", settings["numberOfInstances"])
        if int(body.get("requiredSlots") or 1) != 1:
            raise invalid_property("requiredSlots", body["requiredSlots"], "1 for multi-instance")
    _files(body)
    for file in (settings or {}).get("commonResourceFiles") or ():
        _resource_file(file)
    for file in body.get("outputFiles") or ():
        required(file, "uploadOptions")
        required(file, "filePattern")


def _files(body: dict[str, Any]) -> None:
    """Checks resource files and their number: azure-batch says "there is a maximum size for the
    list", no document says which, so that it is small here."""
    files = body.get("resourceFiles") or ()
    if len(files) > _MOST_FILES or len(body.get("outputFiles") or ()) > _MOST_FILES:
        raise ServiceError(413, "RequestEntityTooLarge")
    for file in files:
        _resource_file(file)


def _dependencies(wanted: dict[str, Any]) -> None:
    """Checks the number of dependencies. No document gives the maximum of ranges, so that it is
    small here; ids may have 64,000 characters in total (description of task_ids in azure-batch)."""
    ids = wanted.get("taskIds") or ()
    if sum(map(len, ids)) > _LONGEST_IDS:
        reason = f"at most {_LONGEST_IDS} characters"
        raise invalid_property("taskIds", f"{len(ids)} ids", reason)
    if len(wanted.get("taskIdRanges") or ()) > _MOST_RANGES:
        raise ServiceError(400, "TaskDependencyRangesTooLong")


def _exit_conditions(conditions: dict[str, Any], job_spec: dict[str, Any]) -> None:
    absent(conditions, "exitCodes", "exitCodeRanges")
    for option in conditions.values():
        absent(option, "jobAction")
        if option.get("dependencyAction") and not job_spec["usesTaskDependencies"]:
            reason = "needs usesTaskDependencies on the job"
            raise invalid_property("dependencyAction", option["dependencyAction"], reason)


def _resource_file(file: dict[str, Any]) -> None:
    absent(file, "autoStorageContainerName")
    sources = ("storageContainerUrl", "httpUrl")
    given = [name for name in sources if file.get(name)]
    if len(given) != 1:
        raise invalid_property("resourceFiles", given, f"exactly one of {', '.join(sources)}")
    if given == ["httpUrl"] and not file.get("filePath"):
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="filePath")
    if given == ["httpUrl"] and file.get("blobPrefix"):
        raise invalid_property("blobPrefix", file["blobPrefix"], "goes with a container only")


def slots(pool: dict[str, Any]) -> None:
    """Checks a node's number of task slots: azure-batch says of task_slots_per_node "the maximum
    value is the smaller of 4 times the number of cores of the vmSize of the pool or 256"."""
    count, size = pool.get("taskSlotsPerNode", 1), vm_sizes().get(pool["vmSize"])
    most = min(256, 4 * size.vcpus) if size else 256
    if not 1 <= count <= most:
        raise invalid_property("taskSlotsPerNode", count, f"1 to {most}")
