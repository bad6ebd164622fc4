"""Answers of the simulated account: authentication, versions, errors, faults and control."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.batch import BatchClient
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
)

from fairway_simulator.batch import BatchSimulator, Fault


def raw(service: BatchSimulator, method: str, path: str, **headers: str) -> tuple[int, Any]:
    """Sends a request without the client and returns the status and the document."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
    body = headers.pop("body", None)
    connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text else None


@pytest.mark.parametrize("wrong", ["account", "key"])
def test_batch_request_with_another_account_or_key_is_forbidden(
    service: BatchSimulator, wrong: str
) -> None:
    known = {"account": service.account, "key": service.key, wrong: "b3RoZXI="}
    credential = AzureNamedKeyCredential(known["account"], known["key"])
    with (
        BatchClient(service.endpoint, credential) as client,
        pytest.raises(HttpResponseError) as caught,
    ):
        client.get_pool("sim")
    assert (caught.value.status_code, caught.value.error.code) == (403, "AuthenticationFailed")


def test_batch_request_without_credentials_is_unauthorized(service: BatchSimulator) -> None:
    status, error = raw(service, "GET", "/pools/sim?api-version=2025-06-01")
    assert (status, error["code"]) == (401, "Unauthorized")


def test_batch_request_with_a_body_of_unknown_length_is_refused(service: BatchSimulator) -> None:
    path = "/jobs?api-version=2025-06-01"
    status, error = raw(
        service, "POST", path, body="2\r\n{}\r\n0\r\n\r\n", Transfer_Encoding="chunked"
    )
    assert (status, error["code"]) == (411, "MissingContentLengthHeader")


def test_batch_request_signature_covers_ids_query_and_headers(
    service: BatchSimulator, client: BatchClient
) -> None:
    """The simulator checks the client's signature of awkward IDs, queries and headers."""
    client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}})
    client.create_task("j", {"id": "1", "commandLine": "true"})
    service.wait_for_task("j", "1")
    assert list(client.list_tasks("j", filter="id eq 'ä &=+%2F'", select=["id"])) == []
    assert b"".join(client.download_task_file("j", "1", "stdout.txt")) == b""


def test_batch_request_with_an_unknown_or_missing_api_version_is_refused(
    connect: Any, service: BatchSimulator
) -> None:
    with pytest.raises(HttpResponseError) as caught:
        connect(service, api_version="2019-08-01").get_pool("sim")
    assert caught.value.error.code == "InvalidQueryParameterValue"
    status, error = raw(
        service, "GET", "/pools/sim", Authorization=f"Bearer {service.issue_token()}"
    )
    assert (status, error["code"]) == (400, "MissingRequiredQueryParameter")


def test_batch_error_has_the_request_id_and_the_property_value(client: BatchClient) -> None:
    with pytest.raises(HttpResponseError) as caught:
        client.create_job({"id": "j", "priority": 2000, "poolInfo": {"poolId": "sim"}})
    error = caught.value.error
    assert error.code == "InvalidPropertyValue"
    assert "RequestId:" in caught.value.message
    assert "Time:" in caught.value.message
    assert {(d.code, d.message) for d in error.details} >= {
        ("PropertyName", "priority"),
        ("PropertyValue", "2000"),
    }


class Token:
    """A credential with one token."""

    def __init__(self, token: str) -> None:
        self.token = token

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[BatchSimulator]:
    """An account that is served over HTTPS."""
    with BatchSimulator(tmp_path / "secure", nodes=0, tls=True) as service:
        yield service


def test_batch_tokens_are_accepted_over_https_until_they_expire(secure: BatchSimulator) -> None:
    token = Token(secure.issue_token(lifetime=60))
    with BatchClient(secure.endpoint, token, connection_verify=str(secure.ca_file)) as client:
        assert client.get_pool("sim").id == "sim"
        secure.advance(61)
        with pytest.raises(ClientAuthenticationError) as caught:
            client.get_pool("sim")
        assert "expired" in caught.value.message
        token.token = "forged"
        client.close()
    with (
        BatchClient(secure.endpoint, token, connection_verify=str(secure.ca_file)) as client,
        pytest.raises(ClientAuthenticationError),
    ):
        client.get_pool("sim")


def test_batch_fault_half_accepts_a_part_of_a_task_collection(
    service: BatchSimulator, client: BatchClient, job: str
) -> None:
    service.faults.add(Fault("half", share=0.5, path="addtaskcollection"))
    specs = [{"id": str(n), "commandLine": "true"} for n in range(50)]
    results = client.create_task_collection(job, {"value": specs}).result_values
    accepted = {result.task_id for result in results if result.status == "success"}
    assert 5 < len(accepted) < 45
    assert {r.error.code for r in results if r.status == "servererror"} == {"ServerBusy"}
    assert {task.id for task in client.list_tasks(job)} == accepted


def control(service: BatchSimulator, method: str, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"Key {service.key}"}
    if body is not None:
        headers["body"] = json.dumps(body)
    return raw(service, method, f"/simulator/{path}", **headers)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "pools/sim/nodes/none/preempt", None, 404),
        ("POST", "pools/sim/nodes/tvm-sim-1_d/explode", None, 400),
        ("POST", "faults", {"kind": "status", "colour": "red"}, 400),
        ("POST", "faults", {"kind": "earthquake"}, 400),
        ("POST", "faults", {"kind": "cut", "path": "("}, 400),
        ("GET", "nothing", None, 404),
    ],
)
def test_batch_control_refuses_unknown_nodes_actions_and_faults(
    service: BatchSimulator, method: str, path: str, body: object, status: int
) -> None:
    assert control(service, method, path, body)[0] == status


def test_batch_control_requires_the_account_key(service: BatchSimulator) -> None:
    assert raw(service, "DELETE", "/simulator/faults")[0] == 401
    assert raw(service, "DELETE", "/simulator/faults", Authorization="Key x")[0] == 401


def test_batch_metadata_service_requires_its_header(service: BatchSimulator) -> None:
    path = "/simulator/metadata/sim/tvm-sim-1_d/metadata/scheduledevents"
    assert raw(service, "GET", path)[0] == 400
    assert raw(service, "GET", path, Metadata="true") == (
        200,
        {"DocumentIncarnation": 0, "Events": []},
    )
