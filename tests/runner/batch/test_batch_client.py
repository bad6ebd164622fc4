"""Requests to a Batch account."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import refused as refused_as
from pool import refused

from fairway_core.target import Target
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch.client import Account
from fairway_runner.engines.batch.engine import BatchEngine

BATCH = {"endpoint": "contoso.westeurope.batch.azure.com", "pool": "nd"}
TARGET = {"name": "nd", "engine": "batch", "nodes": {"min": 0, "max": 4}, "batch": BATCH}


class Client:
    """A client that records its requests."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def list_jobs(self, **options: Any) -> Any:
        self.asked.append(options)
        return self

    def by_page(self) -> Any:
        return iter(())

    def send_request(self, request: Any) -> Any:
        self.asked.append(request)
        return SimpleNamespace(raise_for_status=lambda: None)


@pytest.fixture
def account() -> Account:
    """Returns an account whose client records its requests."""
    made = Account(Target.model_validate(TARGET), 10)
    made.__dict__["client"] = Client()
    return made


@pytest.fixture
def engine(account: Account) -> BatchEngine:
    made = BatchEngine(account.target)
    made.account = account
    return made


@pytest.mark.parametrize(
    ("batch", "id_", "said"),
    [
        ({"endpoint": "http://127.0.0.1:9"}, "no-tls", r"http://127\.0\.0\.1:9 is not https://"),
        ({}, "no-endpoint", "the address of the Batch account of `nd` is not known"),
    ],
)
def test_batch_client_refuses_plain_http_for_a_sign_in_and_a_missing_endpoint(
    monkeypatch: pytest.MonkeyPatch, batch: dict[str, str], id_: str, said: str
) -> None:
    """The SDK would refuse the first with an error that looks like an unreachable service."""
    for name in ("AZURE_BATCH_ACCESS_KEY", "AZURE_BATCH_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    target = Target.model_validate({**TARGET, "batch": {"pool": "nd", **batch}})
    assert refused_as(lambda: Account(target, 10).client, said).id == id_


def test_batch_engine_within_sets_the_deadline_of_both_services_and_restores_it() -> None:
    engine = BatchEngine(Target.model_validate(TARGET), deadline=600.0)
    for _ in range(2):  # before and after their first use
        with engine.within(60.0):
            assert {engine.account.calls.deadline, engine.storage.calls.deadline} == {60.0}
        assert {engine.account.calls.deadline, engine.storage.calls.deadline} == {600.0}


def test_batch_client_lists_only_the_jobs_of_its_pool(account: Account) -> None:
    assert list(account.jobs()) == []
    assert account.client.asked[0]["filter"] == "executionInfo/poolId eq 'nd'"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("action", "body"),
    [("resume", None), ("drain", b'{"nodeDisableSchedulingOption": "taskcompletion"}')],
)
def test_batch_node_action_without_options_sends_no_body(
    engine: BatchEngine, action: str, body: bytes | None
) -> None:
    engine.order(action, "tvm-1")
    [request] = engine.account.client.asked  # type: ignore[attr-defined]
    assert request.content == body


@pytest.mark.parametrize("node", ["../jobs", "..", "a/b", "a?b", ""])
def test_batch_node_action_and_shell_send_nothing_for_a_name_that_leads_elsewhere(
    engine: BatchEngine, node: str
) -> None:
    for act in (lambda: engine.order("drain", node), lambda: engine._way_to(node)):
        assert refused_as(act).id == "unknown-node"
    assert engine.account.client.asked == []  # type: ignore[attr-defined]


def test_batch_client_finds_no_job_only_if_the_service_says_job_not_found(account: Account) -> None:
    """A missing job means a lost run, and a proxy may answer 404 for a moment."""
    answers = [refused(404, code) for code in ("JobNotFound", "", "ResourceNotFound")]
    account.__dict__["job"] = Mock(side_effect=answers)
    assert account.find_job("r-1") is None
    for _ in range(2):
        with pytest.raises(ServiceError):
            account.find_job("r-1")
