"""The service's errors: an HTTP status, a code, a sentence, and details as pairs."""

from __future__ import annotations

import json
from typing import Any

_SENTENCES = {
    "AccountKeyWrong": "Server failed to authenticate the request. Make sure the value of "
    "Authorization header is formed correctly including the signature.",
    "JobNotFound": "The specified job does not exist.",
    "JobExists": "The specified job already exists.",
    "JobCompleted": "The specified job is already in a completed state.",
    "JobBeingTerminated": "The specified job is being terminated.",
    "JobBeingDeleted": "The specified job has been marked for deletion and is being reclaimed.",
    "ActiveJobAndScheduleQuotaReached": "The account has reached its quota of active jobs and job "
    "schedules.",
    "JobScheduleWithSameIdExists": "The account has a job schedule of the specified id.",
    "JobWithSameIdExists": "The account has a job of the specified id.",
    "JobDisabled": "The specified job is disabled.",
    "TaskDependencyRangesTooLong": "The task has too many dependency ranges.",
    "TaskDependencyListTooLong": "The list of the task's dependencies is too long.",
    "TaskNotFound": "The specified task does not exist.",
    "TaskExists": "The specified task already exists.",
    "TaskIdSameAsJobPreparationTask": "The id of the task is that of the job preparation task.",
    "TaskIdSameAsJobReleaseTask": "The id of the task is that of the job release task.",
    "TaskCompleted": "The specified task is already in a completed state.",
    "PoolNotFound": "The specified pool does not exist.",
    "PoolExists": "The specified pool already exists.",
    "PoolBeingDeleted": "The specified pool has been marked for deletion and is being reclaimed.",
    "PoolBeingResized": "The specified pool is being resized.",
    "NodeNotFound": "The specified node does not exist.",
    "NodeNotReady": "The specified node is not ready for this operation.",
    "NodeAlreadyInTargetSchedulingState": "The specified node is already in the target "
    "scheduling state.",
    "NodeUserExists": "The specified node user already exists.",
    "NodeUserNotFound": "The specified node user does not exist.",
    "JobScheduleNotFound": "The specified job schedule does not exist.",
    "JobScheduleExists": "The specified job schedule already exists.",
    "JobScheduleCompleted": "The specified job schedule has completed.",
    "FileNotFound": "The specified file does not exist.",
    "TaskDidNotRun": "The specified task did not run.",
    "TaskFilesUnavailable": "The task files are unavailable because the node is unavailable.",
    "TaskFilesCleanedup": "The task files have been cleaned up.",
    "InvalidRange": "The range specified is invalid for the current size of the resource.",
    "ResourceNotFound": "The specified resource does not exist.",
    "ConditionNotMet": "The condition specified using HTTP conditional header(s) is not met.",
    "OperationInvalidForCurrentState": "The operation is invalid for the current state of the "
    "resource.",
    "RequestEntityTooLarge": "The list of files exceeds the maximum permissible size.",
    "RequestBodyTooLarge": "The size of the request body exceeds the maximum permissible limit.",
    "MissingRequiredQueryParameter": "A required query parameter was not specified.",
    "InvalidQueryParameterValue": "Value for one of the query parameters specified in the "
    "request URI is invalid.",
    "MissingRequiredProperty": "A required property was not specified in the request body.",
    "InvalidPropertyValue": "The value provided for one of the properties in the request body "
    "is invalid.",
    "InvalidRequestBody": "The specified request body is not syntactically valid.",
    "InvalidHeaderValue": "The value provided for one of the HTTP headers was not in the correct "
    "format.",
    "TooManyRequests": "The number of requests exceeds the limit. Please try again later.",
    "ServerBusy": "Server is currently unable to receive requests. Please retry your request.",
    "InternalError": "Server encountered an internal error. Please try again after some time.",
}


class ServiceError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str = "", /, **values: object) -> None:
        self.status = status
        self.code = code
        self.message = message or _SENTENCES.get(code, code)
        self.values = values
        super().__init__(f"{status} {code}: {self.message}")

    def wire(self) -> dict[str, Any]:
        """The error as a task collection's result carries it."""
        body: dict[str, Any] = {
            "code": self.code,
            "message": {"lang": "en-US", "value": self.message},
        }
        if self.values:
            body["values"] = [{"key": key, "value": str(v)} for key, v in self.values.items()]
        return body

    def body(self, request_id: str, time: str) -> bytes:
        """The error as a response carries it: its sentence names the request and the time."""
        error = self.wire()
        error["message"]["value"] += f"\nRequestId:{request_id}\nTime:{time}"
        return json.dumps(error).encode()


def not_found(what: str) -> ServiceError:
    """404: `what` is the resource as the codes name it (`Job`)."""
    return ServiceError(404, f"{what}NotFound")


def invalid_property(name: str, value: object, reason: str = "") -> ServiceError:
    """400: a property of the body has a value that it may not have."""
    details: dict[str, object] = {"PropertyName": name, "PropertyValue": value}
    if reason:
        details["Reason"] = reason
    return ServiceError(400, "InvalidPropertyValue", "", **details)
