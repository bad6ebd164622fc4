"""Requests that the service refuses, and the simulated account too: bodies, IDs and lists."""

import json
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.core.rest import HttpRequest

from fairway_simulator.batch.wire import bodies


def post(client: Any, path: str, body: Any, method: str = "POST") -> Any:
    """Sends a raw body and returns the code and details of the error, or None without an error."""
    url = f"{client._config.endpoint}{path}?api-version=2025-06-01"
    headers = {"Content-Type": "application/json; odata=minimalmetadata"}
    try:
        client.send_request(HttpRequest(method, url, headers=headers, json=body))
    except HttpResponseError as error:
        answer = json.loads(error.response.body())
        return answer["code"], {each["key"]: each["value"] for each in answer["values"]}
    return None


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"id": "1", "commandLine": "true", "retries": 3}, "retries"),
        ({"id": "1", "commandLine": "true", "Constraints": {}}, "Constraints"),
        (
            {"id": "1", "commandLine": "true", "constraints": {"maxRetryCount": 3}},
            "constraints.maxRetryCount",
        ),
        (
            {"id": "1", "commandLine": "true", "environmentSettings": [{"key": "A"}]},
            "environmentSettings[0].key",
        ),
        ({"id": "1", "commandLine": ["true"]}, "commandLine"),
        ({"id": "1", "commandLine": "true", "requiredSlots": "1"}, "requiredSlots"),
        ({"id": "1", "commandLine": "true", "requiredSlots": True}, "requiredSlots"),
        ({"id": "1", "commandLine": "true", "resourceFiles": {}}, "resourceFiles"),
    ],
)
def test_batch_request_with_an_unknown_or_mistyped_property_is_refused(
    client: Any, job: str, body: Any, where: str
) -> None:
    code, details = post(client, f"/jobs/{job}/tasks", body)
    assert (code, details["PropertyName"]) == ("InvalidRequestBody", where)
    assert list(client.list_tasks(job)) == []


def test_batch_refusal_of_a_task_in_a_collection_names_its_property(client: Any, job: str) -> None:
    tasks = [{"id": "1", "commandLine": "true"}, {"id": "2", "commandLine": "true", "nodes": 2}]
    _, details = post(client, f"/jobs/{job}/addtaskcollection", {"value": tasks})
    assert details["PropertyName"] == "value[1].nodes"


def test_batch_request_with_an_unknown_enumeration_value_is_refused(client: Any, job: str) -> None:
    code, _ = post(client, f"/jobs/{job}", {"onAllTasksComplete": "end"}, "PATCH")
    assert code == "InvalidPropertyValue"
    assert post(client, f"/jobs/{job}", {"onAllTasksComplete": "TerminateJob"}, "PATCH") is None


def test_batch_request_bodies_are_checked_for_every_operation_with_a_body(service: Any) -> None:
    from fairway_simulator.batch.simulator import OPERATIONS

    known = {(method, path) for method, path, _ in OPERATIONS}
    assert set(bodies._MODELS) <= known
    taking = {(method, path) for method, path in known if method != "GET"}
    without = {
        each
        for each in taking - set(bodies._MODELS)
        if not each[1].startswith("/simulator/") and each[0] != "DELETE" and each[0] != "HEAD"
    }
    # None of these has a body.
    assert {path.rpartition("/")[2] for _, path in without} == {
        *("enable", "disable", "terminate", "enablescheduling")
    }


def test_batch_request_with_too_many_resource_files_is_refused(client: Any, job: str) -> None:
    files = [{"httpUrl": "http://x/y", "filePath": str(number)} for number in range(101)]
    with pytest.raises(HttpResponseError) as caught:
        client.create_task(job, {"id": "1", "commandLine": "true", "resourceFiles": files})
    assert (caught.value.status_code, caught.value.error.code) == (413, "RequestEntityTooLarge")


def test_batch_job_beyond_the_quota_of_the_account_is_refused(service: Any, client: Any) -> None:
    service.add_pool("empty")
    for number in range(100):
        client.create_job({"id": f"j{number}", "poolInfo": {"poolId": "empty"}})
    with pytest.raises(ResourceExistsError) as caught:
        client.create_job({"id": "more", "poolInfo": {"poolId": "empty"}})
    assert caught.value.error.code == "ActiveJobAndScheduleQuotaReached"


def test_batch_job_with_the_id_of_a_job_being_deleted_is_refused(client: Any, job: str) -> None:
    client.begin_delete_job(job)
    with pytest.raises(ResourceExistsError) as caught:
        client.create_job({"id": job, "poolInfo": {"poolId": "sim"}})
    assert caught.value.error.code == "JobBeingDeleted"


def test_batch_resize_with_a_too_short_timeout_is_refused(client: Any) -> None:
    body = {"targetDedicatedNodes": 1, "resizeTimeout": "PT4M"}
    code, details = post(client, "/pools/sim/resize", body)
    assert (code, details["PropertyName"]) == ("InvalidPropertyValue", "resizeTimeout")
    assert client.get_pool("sim").allocation_state == "steady"
