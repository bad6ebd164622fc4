"""The table of refusals in docs/serve.md: each row is tried."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_web.api import document
from fairway_web.guard import LARGEST_BODY
from fairway_web.server import on_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import MakeRun, RunFairway
    from starlette.testclient import TestClient

_DOCS = Path(__file__).parents[3] / "docs" / "serve.md"
_TOKEN, _CODE = "t" * 43, "k" * 43
_OUTPUTS = "/api/v1/runs/job-a/outputs"
_NO_TOKEN = {"Authorization": ""}


def _twice(client: TestClient) -> Any:
    client.get(f"/login?code={_CODE}")
    return client.get(f"/login?code={_CODE}")


def _by_cookie(client: TestClient) -> Any:
    client.get(f"/login?token={_TOKEN}")
    del client.headers["Authorization"]
    return client.post("/api/v1/runs/job-a/cancel")


# By the words of the table: requests that are refused so.
_TRIED: dict[str, list[Callable[[TestClient], Any]]] = {
    "no token, or another": [
        lambda c: c.get("/", headers=_NO_TOKEN),
        lambda c: c.get("/api/v1/runs", headers={"Authorization": "Bearer other"}),
        lambda c: c.get(f"/api/v1/runs?token={_TOKEN}", headers=_NO_TOKEN),
    ],
    "a code of `--open` that was used": [_twice],
    "a `Host` that is not this server": [
        lambda c: c.get("/", headers={"Host": "evil.example:8765"}),
        lambda c: c.get("/healthz", headers={"Host": "127.0.0.1:1"}),
    ],
    "a page of another site, by `Sec-Fetch-Site`": [
        lambda c: c.get("/", headers={"Sec-Fetch-Site": "cross-site"}),
        lambda c: c.get("/api/v1/runs", headers={"Sec-Fetch-Site": "same-site"}),
    ],
    "a change with another `Origin`, or by cookie without one": [
        lambda c: c.post("/runs", headers={"Origin": "http://evil.example"}),
        lambda c: c.post("/api/v1/runs", headers={"Origin": "null"}),
        _by_cookie,
    ],
    "a body of more than 1 MiB": [
        lambda c: c.post("/api/v1/runs", content=b"x" * (LARGEST_BODY + 1))
    ],
    "an output outside of the run's folder, by `..`, by `/` or by a link": [
        lambda c: c.get(f"{_OUTPUTS}/0/%2e%2e/state.json"),
        lambda c: c.get(f"{_OUTPUTS}/0//etc/passwd"),
        lambda c: c.get(f"{_OUTPUTS}/0/file"),
        lambda c: c.get(f"{_OUTPUTS}/0/folder/passwd"),
    ],
    "a run or a file of the page outside of its folder": [
        lambda c: c.get("/api/v1/runs/..%2f..%2fetc"),
        lambda c: c.get("/static/..%2fguard.py"),
        lambda c: c.get("/static/%2e%2e/guard.py"),
    ],
    "a job whose `file` is outside of the project": [
        lambda c: c.post("/api/v1/check", json={"file": "../job.yaml"}),
        lambda c: c.post("/api/v1/check", json={"file": "/etc/passwd"}),
    ],
}


def _rows() -> dict[str, int]:
    found = re.findall(r"^\| (.+?) \| (\d{3}) \|$", _DOCS.read_text("utf-8"), re.MULTILINE)
    return {words: int(status) for words, status in found}


@pytest.mark.parametrize("words", sorted(_TRIED))
def test_requests_in_the_table_of_refusals_are_refused(
    client: TestClient, make_run: MakeRun, words: str
) -> None:
    kept = make_run("job-a").task_folder(0) / "outputs"
    kept.mkdir(parents=True)
    (kept / "file").symlink_to("/etc/passwd")
    (kept / "folder").symlink_to("/etc")
    for tried in _TRIED[words]:
        answer = tried(client)
        assert answer.status_code == _rows()[words]
        assert "root:" not in answer.text


def test_the_table_has_what_is_tried() -> None:
    assert set(_rows()) == set(_TRIED)


def test_no_answer_has_the_token(client: TestClient, make_run: MakeRun) -> None:
    make_run("job-a", [{"log": "one\n"}])
    names = {"run": "job-a", "target": "local", "name": "none", "path": "0/none"}
    addresses = [
        f"/api/v1{path.format(**names)}"
        for path, item in document()["paths"].items()
        if "get" in item
    ]
    pages = ["/", "/runs/job-a", "/submit", "/targets", "/targets/local", "/compare", "/cost"]
    for address in [*addresses, *pages, "/metrics", "/static/page.js", "/login", "/none"]:
        answer = client.get(address)
        assert answer.status_code < 500
        for secret in (_TOKEN, _CODE):
            assert secret not in answer.text + str(answer.headers)


def test_web_server_listens_on_loopback_only(tmp_path: Path, here: RunFairway) -> None:
    with on_loopback(0).listener as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    (tmp_path / "fairway.yaml").write_text("{}\n")
    for option in ("--host", "--bind"):
        assert here("serve", option, "0.0.0.0")[0] == 2
