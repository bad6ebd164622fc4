"""Who is refused: other hosts, other pages, other users; and each row of the docs' refusals."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from endings import answers
from starlette.responses import PlainTextResponse

from fairway_web import guard
from fairway_web.api import document
from fairway_web.auth import ByToken
from fairway_web.guard import LARGEST_BODY, Guard
from fairway_web.roles import Person, Role
from fairway_web.server import on_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import MakeRun, RunFairway
    from starlette.datastructures import Headers
    from starlette.testclient import TestClient
    from starlette.types import Message, Receive, Scope, Send


ORIGIN = "http://127.0.0.1:8765"
ADDRESSES = ["/", "/compare", "/targets", "/metrics", "/static/page.js", "/api/v1/runs", "/no"]


@pytest.mark.parametrize("path", ADDRESSES)
def test_without_the_token_nothing_is_told(anyone: TestClient, path: str) -> None:
    answers(anyone.get(path), 401, "the token of this server is missing")


@pytest.mark.parametrize("given", ["Bearer wrong", "Basic " + "t" * 43, "Bearer", "t" * 43])
def test_a_wrong_token_is_none(anyone: TestClient, given: str) -> None:
    assert anyone.get("/", headers={"Authorization": given}).status_code == 401


@pytest.mark.parametrize("cookie", ["fairway-8765=wrong", "fairway=" + "t" * 43, "a=b; =; ;;"])
def test_a_wrong_cookie_is_none(anyone: TestClient, cookie: str) -> None:
    assert anyone.get("/", headers={"Cookie": cookie}).status_code == 401


def test_the_login_sets_a_cookie_that_no_script_and_no_other_site_has(anyone: TestClient) -> None:
    assert anyone.get("/login?token=wrong").status_code == 401
    answer = anyone.get("/login?token=" + "t" * 43)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("fairway-8765=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert anyone.get("/").status_code == 200


def test_a_code_is_taken_once(anyone: TestClient) -> None:
    for wrong in ("", "code=", "code=wrong", "token=" + "k" * 43):
        assert anyone.get(f"/login?{wrong}").status_code == 401
    assert anyone.get("/").status_code == 401
    address = "/login?code=" + "k" * 43
    assert anyone.get(address).status_code == 303
    assert anyone.get("/").status_code == 200
    assert anyone.get(address).status_code == 401


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8765", "127.0.0.1", "127.0.0.1:1", "", "[::1]:8765"),
        *("forwarded", "forwarded:", "forwarded:x", "x.forwarded:1"),
    ],
)
def test_another_name_is_not_ours(client: TestClient, host: str) -> None:
    """A name that somebody else's page has made point to loopback."""
    answers(client.get("/", headers={"Host": host}), 421, "this server has another name")
    assert client.get("/healthz", headers={"Host": host}).status_code == 421
    assert client.get("/healthz", headers={"Host": "forwarded:1234"}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "strange"])
def test_another_page_gets_nothing(browser: TestClient, site: str) -> None:
    answer = browser.get("/", headers={"Sec-Fetch-Site": site})
    answers(answer, 403, "a page of another site asked for this")


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {}]
)
def test_another_page_sends_nothing(
    browser: TestClient, make_run: MakeRun, headers: dict[str, str]
) -> None:
    make_run("job-a", state="running")
    for path in ("/runs", "/api/v1/runs/job-a/cancel"):
        answer = browser.post(path, content="action=cancel&run=job-a", headers=headers)
        answers(answer, 403, "a page of another site sent this")
    assert browser.post("/runs", headers={"Origin": ORIGIN}).status_code != 403


def test_a_body_has_an_end(client: TestClient) -> None:
    long = b"x" * (LARGEST_BODY + 1)
    for content in (long, iter([long[:9], long])):  # the second does not say how long it is
        answers(client.post("/runs", content=content), 413, f"more than {LARGEST_BODY:,} bytes")


def test_every_answer_says_what_may_run(client: TestClient, anyone: TestClient) -> None:
    for path in ("/", "/healthz", "/no", "/api/v1/runs", "/static/page.css"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_health_needs_no_token_and_tells_nothing(anyone: TestClient) -> None:
    answer = anyone.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_refusals_of_rest_are_findings(anyone: TestClient) -> None:
    answer = anyone.get("/api/v1/runs")
    assert answer.json()["findings"][0]["id"] == "no-token"


def test_a_person_has_a_number_of_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_MOST_REQUESTS", 2)
    told: list[tuple[str, int]] = []

    async def answered() -> None:
        going, ended = anyio.Semaphore(0), anyio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            going.release()
            await ended.wait()
            await PlainTextResponse("")(scope, receive, send)

        guarded = Guard(app, _Named("t", {"here"}, "c", "k"))

        async def ask(person: str) -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    told.append((person, message["status"]))

            headers = [(b"authorization", person.encode()), (b"host", b"here")]
            scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
            await guarded(scope, anyio.sleep_forever, send)

        async with anyio.create_task_group() as group:
            for person in ("ann", "ann", "bob"):
                group.start_soon(ask, person)
                await going.acquire()
            await ask("ann")
            assert told == [("ann", 429)]
            ended.set()
        await ask("ann")

    with ThreadPoolExecutor(1) as alone:  # a browser's loop may run in this thread
        alone.submit(anyio.run, answered).result()
    assert sorted(told) == [("ann", 200)] * 3 + [("ann", 429), ("bob", 200)]


class _Named(ByToken):
    """A door through which everybody comes who says a name."""

    async def person(self, headers: Headers, path: str) -> Person:  # noqa: ARG002
        return Person(headers["authorization"], "name", Role.READER)


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
