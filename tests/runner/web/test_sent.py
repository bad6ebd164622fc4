"""Code that is sent to a server: accepted code, its folder, and refusals."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endings import answers
from starlette.testclient import TestClient

from fairway_runner.runs.store import RunStore
from fairway_runner.submit.code_upload import digest_of

SignIn = Callable[..., TestClient]

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("project")]

JOB = "name: a\ncommand: 'true'\n"
OURS = {"Origin": "https://runs.example.org"}
_GIT = {"commit": None, "dirty": False, "untracked": []}


def _line(files: list[Any], **more: Any) -> bytes:
    return json.dumps({"folder": ".", "git": _GIT, "files": files, **more}).encode() + b"\n"


def _send(client: TestClient, *pieces: bytes) -> str:
    """Sends these pieces and returns the name of the code that they form."""
    names = [digest_of(each) for each in pieces]
    told = client.post("/api/v1/code", json={"pieces": names}, headers=_ours(client))
    assert told.status_code == 200, told.text
    for name, piece in zip(names, pieces, strict=True):
        if name in told.json()["missing"]:
            answers(client.post(f"/api/v1/code/{name}", content=piece, headers=_ours(client)), 201)
    return str(told.json()["code"])


def _ours(client: TestClient) -> dict[str, str]:
    return OURS if "runs.example.org" in str(client.base_url) else {}


def _check(client: TestClient, code: str, job: str = JOB, **more: Any) -> Any:
    asked = {"job": job, "code": code, **more}
    return client.post("/api/v1/check", json=asked, headers=_ours(client))


def test_sent_code_requests_only_missing_pieces(client: TestClient, store: RunStore) -> None:
    first, second = _line([["a", 3, False], ["b/c", 2, True]]), b"onetw"
    code = _send(client, first, second)
    assert _check(client, code).status_code == 200
    names = {"pieces": [digest_of(each) for each in (first, second, b"new", b"new")]}
    told = client.post("/api/v1/code", json=names).json()
    assert told["missing"] == [digest_of(b"new")]
    assert told["code"] == hashlib.sha256(json.dumps(names).encode()).hexdigest()
    (own,) = (store.base / "sent").iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    assert not [each for each in own.iterdir() if each.is_dir()]  # unpacked only during the check


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "a//", "../", ".git/", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/."),
        *("a\0", "a\n", "\ud800"),
        *(".git/config", "a/.git/config", ".fairway/x", "x/__pycache__/y", "a.pyc"),
        *("a" * 300, "a/" * 600 + "a", "a/" * 50 + "a"),
    ],
)
def test_sent_code_with_bad_path_is_refused(client: TestClient, project: Path, path: str) -> None:
    before = sorted(project.parent.iterdir())
    answers(answer := _check(client, _send(client, _line([[path, 1, False]]) + b"x")), 422)
    assert re.search("is not the path of a code file|does not list its files", answer.text)
    assert sorted(project.parent.iterdir()) == before
    if path:
        answers(_check(client, _send(client, _line([], folder=path))), 422)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([b"x"], "it does not list its files"),
        ([b"[" * 100_000 + b"\n"], "it does not list its files"),
        ([b"{}\n"], "it does not list its files"),
        ([_line([["a", 1]])], "it does not list its files"),
        ([_line([["a", True, False]])], "it does not list its files"),
        ([_line([["a", -1, False]])], "it does not list its files"),
        ([_line([["a", 1 << 40, False]])], "it does not list its files"),
        ([_line([["a", 0, False]] * 20_001)], "it does not list its files"),
        ([_line([], git={**_GIT, "commit": "\x1b"})], "it does not list its files"),
        ([_line([["a", 2, False]]), b"x"], "it ends before its last file does"),
        ([_line([["a", 1, False]]), b"xy"], "it continues after its last file"),
        ([_line([["a", 0, False], ["a", 0, False]])], "twice, or a file and a folder"),
        ([_line([["a", 0, False], ["a/b", 0, False]])], "twice, or a file and a folder"),
        ([_line([["a/b", 0, False], ["a", 0, False]])], "twice, or a file and a folder"),
        ([_line([["a", 0, False], ["a/", 0, False]])], "twice, or a file and a folder"),
        ([_line([["a", 0, False], ["a/b/", 0, False]])], "twice, or a file and a folder"),
        ([_line([["a/", 1, False]]), b"x"], "it does not list its files"),
    ],
)
def test_sent_code_that_is_invalid_is_refused(
    client: TestClient, pieces: list[bytes], message: str
) -> None:
    answer = _check(client, _send(client, *pieces))
    answers(answer, 422, "the code that was sent cannot be used: ", message)


def test_sent_pieces_that_are_wrong_unknown_or_too_many_are_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = digest_of(b"x")
    for digest, body, status, message in (
        (name, b"y", 422, "this is not the piece that its name says"),
        ("%2e%2e%2fx", b"x", 404, ""),
        ("x", b"x", 404, "no piece is called `x`"),
        (digest_of(b"x" * (1 << 20) + b"x"), b"x" * ((1 << 20) + 1), 413, "more than 1,048,576"),
    ):
        answers(client.post(f"/api/v1/code/{digest}", content=body), status, message)
    many = json.dumps({"pieces": [name] * 2_001})
    for body in ("", "[]", '{"pieces": []}', '{"pieces": ["../x"]}', '{"pieces": "x"}', many):
        answer = client.post("/api/v1/code", content=body)
        answers(answer, 422, "this is not a list of up to 2,000 pieces")
    for code in (name, "../x", ""):
        assert "the server does not have the code" in _check(client, code).text
    monkeypatch.setattr("fairway_web.code_upload._MOST_KEPT", 3)
    answer = client.post(f"/api/v1/code/{digest_of(b'four')}", content=b"four")
    answers(answer, 422, "of code were sent within a day")


def test_sent_code_needs_a_job_and_expires_after_a_day(client: TestClient, store: RunStore) -> None:
    code = _send(client, _line([]))
    asked = {"job": JOB, "code": code, "run_id": "a-one"}
    answers(client.post("/api/v1/runs", json=asked), 201)
    store.find("a-one").wait()
    for asked, message in (
        ({}, "`code` needs a `job`"),
        ({"job": JOB, "file": "a\nb"}, "`file` is not the name of a file"),
        ({"run": "a-one"}, "`run` and `code` cannot be combined"),
    ):
        answers(client.post("/api/v1/check", json={"code": code, **asked}), 422, message)
    code = _send(client, _line([["a", 1, False]]), b"x")
    (own,) = (store.base / "sent").iterdir()
    left = own / ".code-left"
    left.mkdir()
    for each in (*own.iterdir(), left):
        if each.name != digest_of(b"x"):
            os.utime(each, (1e9, 1e9))
    _send(client, _line([]))
    assert (own / digest_of(b"x")).exists()
    assert not left.exists()
    assert "the server does not have the code" in _check(client, code).text


@pytest.fixture
def far(in_one_process: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Request fields, with every target allowed for Submitters."""
    monkeypatch.setattr("fairway_web.submissions.require_targets", lambda _: None)
    return {"offline": True}


def test_sent_code_is_kept_in_a_folder_per_user(sign_in: SignIn, far: dict[str, Any]) -> None:
    code = _send(sign_in("Submitter"), _line([]))
    assert _check(sign_in("Submitter"), code, **far).is_success
    other = sign_in("Submitter", oid="id-bob")
    assert "the server does not have the code" in _check(other, code, **far).text


def test_sent_code_runs_nothing_on_the_server(
    sign_in: SignIn, far: dict[str, Any], project: Path
) -> None:
    evil = b"def points():\n    open('ran', 'w').close()\n    yield {'x': 1}\n"
    mine = b"{# description: mine #}\necho mine\n"
    files = [["evil.py", len(evil), False], ["job_templates/mine.sh.j2", len(mine), False]]
    pieces = (_line(files), evil, mine)
    swept = JOB + "params: {x: 0}\nsweep: {points: {python: 'evil:points'}}\n"
    for job, message in (
        (swept, "does not let you run the `python:` of a sweep on the machine of the server"),
        (JOB + "template: mine\n", "your role does not let you send templates"),
        (JOB + "template: job_templates/mine.sh.j2\n", "does not let you send templates"),
        (JOB + "code: {path: ..}\n", "your role does not let you submit code from elsewhere"),
        (JOB + f"code: {{path: {project}}}\n", "let you submit code from elsewhere"),
    ):
        client = sign_in("Submitter")
        answers(_check(client, _send(client, *pieces), job, **far), 403, message)
    client = sign_in("Submitter")
    code = _send(client, *pieces)
    assert _check(client, code, JOB, **far).is_success
    assert not (project / "ran").exists()


def test_sent_templates_of_a_run_are_forbidden_in_its_reruns(
    sign_in: SignIn, project: Path, store: RunStore, far: dict[str, Any]
) -> None:
    mine = b"{# description: mine #}\necho mine\n"
    client = sign_in("Submitter")
    pieces = (_line([["job_templates/mine.sh.j2", len(mine), False]]), mine)
    asked = {"job": JOB, "code": _send(client, *pieces), "run_id": "a-one"}
    assert client.post("/api/v1/runs", json=asked, headers=OURS).status_code == 201
    store.find("a-one").wait()
    for again in ("a-one", "a-two"):
        for name in ("mine", "job_templates/mine.sh.j2"):
            asked = {"job": f"{JOB}template: {name}\n", "run": again, **far}
            answer = sign_in("Submitter").post("/api/v1/check", json=asked, headers=OURS)
            answers(answer, 403, "your role does not let you send templates")
        assert sign_in("Operator").post("/api/v1/check", json=asked, headers=OURS).is_success
        asked = {"run": "a-one", "run_id": "a-two"}
        answers(sign_in("Submitter").post("/api/v1/runs", json=asked, headers=OURS), 201)
        store.find("a-two").wait()


@pytest.mark.usefixtures("in_one_process")
def test_sent_code_is_not_read_by_git(
    client: TestClient, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with these files is a repository, and its settings may start programs."""
    monkeypatch.setattr("fairway_runner.submit.snapshot.ask_git", None)
    files = {"HEAD": b"ref: x\n", "config": b"[core]\n", "objects/a": b"", "refs/a": b""}
    listed = [[name, len(content), False] for name, content in files.items()]
    answer = _check(client, _send(client, _line(listed), b"".join(files.values())))
    assert "`HEAD` is not the path of a code file" in answer.text
    del files["HEAD"], listed[0]
    said = {"commit": "a" * 40, "dirty": True, "untracked": ["x"]}
    code = _send(client, _line(listed, git=said), b"".join(files.values()))
    asked = {"job": JOB, "code": code, "run_id": "a-one"}
    answers(client.post("/api/v1/runs", json=asked), 201)
    facts = json.loads((store.find("a-one").folder / "provenance.json").read_text())
    assert facts["git"] == said
