"""Metadata service of a machine: its instance, scheduled events and refusals."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.store import ResourceStore

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
INSTANCE = f"{GROUP}/virtualMachineScaleSets/lab/virtualMachines/3"


@pytest.fixture
def started() -> list[str]:
    """The events that the machine has acknowledged."""
    return []


@pytest.fixture
def service(started: list[str]) -> Iterator[MetadataService]:
    with MetadataService(ResourceStore(), INSTANCE, on_start=started.append) as service:
        yield service


def ask(
    service: MetadataService, path: str, body: Any = None, header: str = "true"
) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    url = f"{service.url}/metadata/{path}"
    request = urllib.request.Request(url, data, {"Metadata": header} if header else {})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_metadata_service_names_the_instance_like_its_scale_set(service: MetadataService) -> None:
    status, found = ask(service, "instance/compute?api-version=2021-02-01")
    assert (status, found["name"], found["resourceId"]) == (200, "lab_3", INSTANCE)
    with MetadataService(ResourceStore(), f"{GROUP}/virtualMachines/box") as box:
        assert box.name == "box"


def test_metadata_service_event_starts_after_its_acknowledgement(
    service: MetadataService, started: list[str]
) -> None:
    event = service.plan("Preempt")
    path = "scheduledevents?api-version=2020-07-01"
    (shown,) = ask(service, path)[1]["Events"]
    assert (shown["EventId"], shown["Resources"]) == (event, ["lab_3"])
    assert ask(service, path, {"StartRequests": [{"EventId": "another"}]})[0] == 400
    assert ask(service, path, {})[0] == 400
    assert started == []
    assert ask(service, path, {"StartRequests": [{"EventId": event}]})[0] == 200
    assert started == [event]
    assert ask(service, path)[1]["Events"] == []


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("scheduledevents?api-version=2020-07-01", ""),
        ("scheduledevents", "true"),
        ("scheduledevents?api-version=", "true"),
        ("identity/oauth2/token?api-version=2018-02-01", "true"),
    ],
)
def test_metadata_service_refuses_requests_without_header_or_version(
    service: MetadataService, path: str, header: str
) -> None:
    assert ask(service, path, header=header)[0] == 400


def test_metadata_service_answers_404_to_unknown_paths(service: MetadataService) -> None:
    assert ask(service, "attested/document?api-version=2020-09-01")[0] == 404
    assert ask(service, "instance/compute?api-version=2021-02-01", {})[0] == 404
