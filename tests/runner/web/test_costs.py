"""What runs have cost, as the command says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway
    from starlette.testclient import TestClient

    from fairway_runner.runs.store import RunStore

EVIL = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def project(store: RunStore, make_run: MakeRun) -> None:
    (store.base.parent / "fairway.yaml").write_text("{}\n")
    for name, price, tag in (("job-a", 3600.0, EVIL), ("job-b", None, "small")):
        run = make_run(name, target="gpu", tags=(tag,))
        target = {"name": "gpu", "engine": "ssh", "vm_size": "Standard_Mine", "price": price}
        (run.folder / "target.json").write_text(json.dumps(target))


def test_costs_are_what_the_command_prints(client: TestClient, here: RunFairway) -> None:
    for by in ("name", "tag", "target", "month"):
        words = ["cost", "--runs", "--offline", "--json", "--by", by]
        code, printed, _ = here(*words)
        assert code == 0
        answer = client.get(f"/api/v1/cost?by={by}").json()
        assert answer.pop("findings") == []
        assert answer == json.loads(printed)


def test_the_page_has_a_line_for_each_and_their_sum(client: TestClient) -> None:
    page = client.get("/cost?by=run").text
    assert '<a href="/runs/job-a">job-a</a>' in page
    assert '<td class="n">5.00</td>' in page  # five seconds at 3,600 an hour
    assert "at least 5.00" in page
    assert "The price of 1 runs is not known" in page
    page = client.get("/cost?by=tag").text
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "A run with several tags counts under each" in page
    assert "No run to show" in client.get("/cost?since=2001-09-10").text


@pytest.mark.parametrize(
    ("query", "said"), [("by=names", "by"), ("since=once", "since: `once` is neither")]
)
def test_cost_page_refuses_invalid_queries(client: TestClient, query: str, said: str) -> None:
    for path in ("/cost", "/api/v1/cost"):
        answer = client.get(f"{path}?{query}")
        assert answer.status_code == 422
        assert said in answer.text
