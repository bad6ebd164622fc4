"""Who is refused: other hosts, other pages, other users."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import anyio
import pytest
from endings import answers
from starlette.responses import PlainTextResponse

from fairway_web import guard
from fairway_web.guard import LARGEST_BODY, Guard
from fairway_web.roles import Person, Role

if TYPE_CHECKING:
    from conftest import MakeRun
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
    assert answer.status_code == 403
    assert "a page of another site asked for this" in answer.text


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {}]
)
def test_another_page_sends_nothing(
    browser: TestClient, make_run: MakeRun, headers: dict[str, str]
) -> None:
    make_run("job-a", state="running")
    for path in ("/runs", "/api/v1/runs/job-a/cancel"):
        answer = browser.post(path, content="action=cancel&run=job-a", headers=headers)
        assert answer.status_code == 403
        assert "a page of another site sent this" in answer.text
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

        guarded = Guard(app, _Named())

        async def ask(person: str) -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    told.append((person, message["status"]))

            headers = [(b"authorization", person.encode())]
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


class _Named:
    """A door through which everybody comes who says a name."""

    audit = None

    def is_here(self, *_: object, **__: object) -> bool:
        return True

    is_wanted = is_ours = is_here

    async def person(self, headers: Headers, *_: object, **__: object) -> Person:
        return Person(headers["authorization"], "name", Role.READER)
