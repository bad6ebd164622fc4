"""Requests that are refused: other hosts, pages and users; and each row of the docs' table."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from endings import answers
from running import MakeRun
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from fairway_web import app
from fairway_web.api import document
from fairway_web.app import LARGEST_BODY, Guard
from fairway_web.auth import ByToken
from fairway_web.roles import Person, Role
from fairway_web.server import on_loopback

ORIGIN = "http://127.0.0.1:8765"
ADDRESSES = ["/", "/compare", "/targets", "/metrics", "/static/page.js", "/no"]
ADDRESSES += ["/api/v1/runs", "/api/v1/openapi.json"]


def test_login_sets_a_cookie_that_is_httponly_and_samesite(anyone: TestClient) -> None:
    for wrong in ("", "code=", "code=wrong", "token=wrong", f"token={_CODE}"):
        assert anyone.get(f"/login?{wrong}").status_code == 401
    assert anyone.get("/").status_code == 401
    answer = anyone.get(f"/login?code={_CODE}")
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0;url=/")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("fairway-8765=")
    assert {"httponly", "samesite=strict"} <= {*cookie.split("; ")}
    assert anyone.get("/").status_code == 200


def test_healthz_answers_ok_without_a_token(anyone: TestClient) -> None:
    for host in ("forwarded:1234", "forwarded"):  # without its port it is 80
        answer = anyone.get("/healthz", headers={"Host": host})
        assert (answer.status_code, answer.text) == (200, "ok\n")


def test_guard_answers_429_beyond_the_concurrent_requests_of_one_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "_MOST_REQUESTS", 2)
    told: list[tuple[str, int]] = []

    async def answered() -> None:
        going, ended = anyio.Semaphore(0), anyio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            going.release()
            await ended.wait()
            await PlainTextResponse("")(scope, receive, send)

        guarded = Guard(app, _Named({"here:80"}, "c"))

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
    """A sign-in that accepts any user by name."""

    async def person(self, headers: Headers, path: str) -> Person:  # noqa: ARG002
        return Person(headers["authorization"], "name", Role.READER)


_DOCS = Path(__file__).parents[3] / "docs" / "serve.md"
_TOKEN, _CODE = "t" * 43, "k" * 43
_OUTPUTS = "/api/v1/runs/job-a/outputs"


def _get(path: str, **headers: str) -> Callable[[TestClient], Any]:
    return lambda client: client.get(path, headers=headers)


def _twice(client: TestClient) -> Any:
    client.get(f"/login?code={_CODE}")
    return client.get(f"/login?code={_CODE}")


def _sent(path: str, **headers: str) -> Callable[[TestClient], Any]:
    """Returns a request of a button or a call, with the cookie of a browser."""

    def send(client: TestClient) -> Any:
        client.get(f"/login?token={_TOKEN}")
        del client.headers["Authorization"]
        form = "action=cancel&run=job-a"
        assert client.post("/runs", content=form, headers={"Origin": ORIGIN}).status_code == 200
        return client.post(path, content=form, headers=headers)

    return send


_HOSTS = (
    *("evil.example:8765", "127.0.0.1", "127.0.0.1:1", "", "[::1]:8765"),
    *("forwarded:", "forwarded:x", "x.forwarded:1"),
)
_LONG = b"x" * (LARGEST_BODY + 1)

# By the text of the table's row: the refusal's message, and requests that get it.
_TRIED: dict[str, tuple[str, list[Callable[[TestClient], Any]]]] = {
    "no token, or another": (
        "the token of this server",
        [
            *(_get(path, Authorization="") for path in ADDRESSES),
            *(_get("/", Authorization=each) for each in ("Bearer", "Bearer other", _TOKEN)),
            _get("/api/v1/runs", Authorization=f"Basic {_TOKEN}"),
            _get(f"/api/v1/runs?token={_TOKEN}", Authorization=""),
            *(
                _get("/", Authorization="", Cookie=each)
                for each in ("fairway-8765=wrong", f"fairway={_TOKEN}", "a=b; =; ;;")
            ),
        ],
    ),
    "a code of `--open` that was used": ("this is not the token of this start", [_twice]),
    # A foreign page may have made such a name resolve to loopback.
    "a `Host` that is not this server": (
        "this server has another name",
        [_get(path, Host=host) for path in ("/", "/healthz") for host in _HOSTS],
    ),
    "a page of another site, by `Sec-Fetch-Site`": (
        "a page of another site asked for this",
        [
            _get(path, **{"Sec-Fetch-Site": site})
            for path in ("/", "/api/v1/runs")
            for site in ("cross-site", "same-site", "strange")
        ],
    ),
    "a change with another `Origin`, or by cookie without one": (
        "a page of another site sent this",
        [
            _sent(path, **headers)
            for path in ("/runs", "/api/v1/runs/job-a/cancel")
            for headers in ({}, *({"Origin": each} for each in ("http://evil.example", "null", "")))
        ],
    ),
    "a body of more than 1 MiB": (
        f"more than {LARGEST_BODY:,} bytes",
        [
            lambda c: c.post("/api/v1/runs", content=_LONG),
            # Without a Content-Length.
            lambda c: c.post("/runs", content=iter([_LONG[:9], _LONG])),
        ],
    ),
    "an output outside of the run's folder, by `..`, by `/` or by a link": (
        "",
        [
            _get(f"{_OUTPUTS}/0/%2e%2e/state.json"),
            _get(f"{_OUTPUTS}/0//etc/passwd"),
            _get(f"{_OUTPUTS}/0/file"),
            _get(f"{_OUTPUTS}/0/folder/passwd"),
        ],
    ),
    "a run or a file of the page outside of its folder": (
        "",
        [
            _get("/api/v1/runs/..%2f..%2fetc"),
            _get("/static/..%2fguard.py"),
            _get("/static/%2e%2e/guard.py"),
        ],
    ),
    "a job whose `file` is outside of the project": (
        "",
        [
            lambda c: c.post("/api/v1/check", json={"file": "../job.yaml"}),
            lambda c: c.post("/api/v1/check", json={"file": "/etc/passwd"}),
        ],
    ),
}


def _rows() -> dict[str, int]:
    found = re.findall(r"^\| (.+?) \| (\d{3}) \|$", _DOCS.read_text("utf-8"), re.MULTILINE)
    return {words: int(status) for words, status in found}


@pytest.mark.parametrize("words", sorted(_TRIED))
def test_guard_refuses_requests_as_in_the_table_of_the_docs(
    client: TestClient, make_run: MakeRun, words: str
) -> None:
    kept = make_run("job-a").task_folder(0) / "outputs"
    kept.mkdir(parents=True)
    (kept / "file").symlink_to("/etc/passwd")
    (kept / "folder").symlink_to("/etc")
    said, requests = _TRIED[words]
    for tried in requests:
        client.headers["Authorization"] = f"Bearer {_TOKEN}"
        answer = tried(client)
        answers(answer, _rows()[words], said)
        assert "root:" not in answer.text
        assert ("findings" in answer.text) is answer.request.url.path.startswith("/api/")


def test_table_of_refusals_in_the_docs_has_a_test_for_each_row() -> None:
    assert set(_rows()) == set(_TRIED)


def test_every_answer_has_security_headers_and_none_contains_the_token(
    client: TestClient, make_run: MakeRun
) -> None:
    make_run("job-a", [{"log": "one\n"}])
    names = {"run": "job-a", "target": "local", "name": "none", "path": "0/none"}
    addresses = [
        f"/api/v1{path.format(**names)}"
        for path, item in document()["paths"].items()
        if "get" in item
    ]
    pages = ["/", "/runs/job-a", "/submit", "/targets", "/targets/local", "/compare", "/cost"]
    pages += ["/metrics", "/static/page.js", "/static/page.css", "/login", "/none", "/healthz"]
    for address in [*addresses, *pages]:
        answer = client.get(address)
        assert answer.status_code < 500
        for secret in (_TOKEN, _CODE):
            assert secret not in answer.text + str(answer.headers)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        names = ("x-content-type-options", "referrer-policy", "cache-control")
        assert [answer.headers[name] for name in names] == ["nosniff", "same-origin", "no-store"]


def test_web_server_listens_on_loopback_only() -> None:
    with on_loopback(0).listener as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
