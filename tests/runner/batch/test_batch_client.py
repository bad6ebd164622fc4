"""What is asked of an account."""

from __future__ import annotations

from typing import Any

from fairway_core.target import Target
from fairway_runner.engines.batch.client import Account


class Client:
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def list_jobs(self, **options: Any) -> Any:
        self.asked.append(options)
        return self

    def by_page(self) -> Any:
        return iter(())


def test_only_the_jobs_of_the_pool_are_listed() -> None:
    batch = {"endpoint": "contoso.westeurope.batch.azure.com", "pool": "nd"}
    target = {"name": "nd", "engine": "batch", "nodes": {"min": 0, "max": 4}, "batch": batch}
    account, client = Account(Target.model_validate(target), 10), Client()
    account.__dict__["client"] = client
    assert list(account.jobs()) == []
    assert client.asked[0]["filter"] == "executionInfo/poolId eq 'nd'"
