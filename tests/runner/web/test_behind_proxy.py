"""The server behind a proxy: sign-in, permissions of each role, and the record of actions."""

import json
import re
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from endings import answers
from entra import Entra
from httpx import Response
from running import MakeRun, RunFairway
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from fairway_runner.runs.labels import note
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.targets.lookup import find_target
from fairway_web.roles import ACTIONS, OPEN, ROUTES, Person, Role

SignIn = Callable[..., TestClient]

pytestmark = pytest.mark.integration

ANN = {"name": "ann@example.org", "id": "id-ann"}
BOB = {"name": "bob@example.org", "id": "id-bob"}
OURS = {"Origin": "https://runs.example.org"}
NOT_HERE = "your role does not let you run jobs on the machine of the server"
NOT_ELSEWHERE = "your role does not let you submit code from elsewhere"


def submitted_by(run: Run, by: dict[str, str]) -> Run:
    file = run.folder / "provenance.json"
    facts = json.loads(file.read_text()) | {"user": by["name"], "by": by}
    file.write_text(json.dumps(facts))
    return run


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _post(client: TestClient, call: str, asked: object = None) -> Response:
    return client.post(f"/api/v1/{call}", json=asked, headers=OURS)


# Sign-in.


_CLAIMED = ("X-Auth-Request-Email", "X-Forwarded-Email", "X-Forwarded-User")
_CLAIMED += ("X-MS-CLIENT-PRINCIPAL-NAME", "X-MS-CLIENT-PRINCIPAL", "X-Auth-Request-Groups")


@pytest.mark.parametrize("path", ["/", "/metrics", "/static/page.js", "/api/v1/runs", "/login"])
def test_proxy_sign_in_without_a_token_answers_401_whatever_headers_claim(
    shared: TestClient, path: str
) -> None:
    for headers in ({}, dict.fromkeys(_CLAIMED, "ann@example.org")):
        answers(shared.get(path, headers=headers), 401, "the proxy passed no token of Entra ID")


@pytest.mark.parametrize(
    ("header", "before"),
    [
        ("Authorization", "Bearer "),
        ("X-MS-TOKEN-AAD-ID-TOKEN", ""),
        ("X-Forwarded-Access-Token", ""),
    ],
)
def test_proxy_sign_in_takes_the_token_from_each_header_of_proxies(
    shared: TestClient, entra: Entra, header: str, before: str
) -> None:
    assert shared.get("/", headers={header: before + entra.token("Reader")}).status_code == 200
    wrong = shared.get("/", headers={header: before + entra.token("Reader", key="two")})
    answers(wrong, 401, "the token of the sign-in is not accepted")


@pytest.mark.parametrize(
    "given", [["Basic YTpi"], ["Bearer"], ["Bearer "], ["Bearer {good}", "Bearer {good}"]]
)
def test_proxy_sign_in_refuses_an_invalid_authorization_header(
    shared: TestClient, entra: Entra, given: list[str]
) -> None:
    good = entra.token("Reader")
    headers = [("Authorization", each.format(good=good)) for each in given]
    answer = shared.get("/", headers=[*headers, ("X-Forwarded-Access-Token", good)])
    answers(answer, 401, "the header authorization holds no token of a sign-in")


def test_proxy_sign_in_refusals_of_the_api_are_findings(shared: TestClient, entra: Entra) -> None:
    assert shared.get("/api/v1/runs").json()["findings"][0]["id"] == "no-token"
    bearer = {"Authorization": f"Bearer {entra.token()}"}
    answer = shared.get("/api/v1/runs", headers=bearer)
    assert (answer.status_code, answer.json()["findings"][0]["id"]) == (403, "no-role")
    entra.is_away, entra.published = True, ()
    assert shared.get("/api/v1/runs", headers=bearer).status_code == 403  # the key is known
    bearer = {"Authorization": f"Bearer {entra.token('Reader', kid='new')}"}
    answers(shared.get("/api/v1/runs", headers=bearer), 401)


def test_proxy_sign_in_without_reachable_keys_answers_503(shared: TestClient, entra: Entra) -> None:
    entra.is_away = True
    bearer = {"Authorization": f"Bearer {entra.token('Reader')}"}
    assert shared.get("/api/v1/runs", headers=bearer).json()["findings"][0]["id"] == "no-keys"
    answers(shared.get("/", headers=bearer), 503, "the keys of the sign-in cannot be fetched")
    assert shared.get("/healthz").text == "ok\n"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:8765", "runs.example.org:80", ""])
def test_proxied_server_answers_to_its_public_name_only(sign_in: SignIn, host: str) -> None:
    client = sign_in("Operator")
    assert client.get("/", headers={"Host": host}).status_code == 421
    assert client.get("/", headers={"Host": "RUNS.example.org:443"}).status_code == 200
    for near in ("127.0.0.1:8765", "localhost", "[::1]:8765"):
        assert client.get("/healthz", headers={"Host": near}).status_code == 200
    assert client.get("/healthz", headers={"Host": "evil.example:8765"}).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_proxied_server_lets_links_of_other_sites_open_pages(sign_in: SignIn, site: str) -> None:
    """After a sign-in the browser comes from the page of the sign-in; scripts and frames of other
    sites are refused."""
    client = sign_in("Reader")
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=followed).status_code == 200
    assert client.get("/api/v1/runs", headers=followed).status_code == 403
    assert client.get("/", headers={**followed, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.get("/", headers={**followed, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert client.post("/runs", headers={**followed, **OURS}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://runs.example.org"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Cookie": "_oauth2_proxy=session"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_proxied_server_refuses_changes_sent_by_pages_of_other_sites(
    sign_in: SignIn, make_run: MakeRun, headers: dict[str, str]
) -> None:
    """The proxy adds the token to every request of the browser, whichever page causes it."""
    make_run("job-a", state="running")
    client = sign_in("Operator")
    for path in ("/runs", "/api/v1/runs/job-a/cancel"):
        answer = client.post(path, content="action=cancel&run=job-a", headers=headers)
        answers(answer, 403, "a page of another site sent this")


def test_proxied_server_accepts_changes_of_its_own_pages_and_of_programs(sign_in: SignIn) -> None:
    client = sign_in("Operator")
    for headers in (OURS, {**OURS, "Cookie": "a=b", "Sec-Fetch-Site": "same-origin"}, {}):
        assert client.post("/api/v1/check", content="x", headers=headers).status_code == 422


@pytest.mark.parametrize("left", [0.5, -1.0])
def test_proxied_log_stream_ends_when_its_token_expires(
    sign_in: SignIn, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, left: float
) -> None:
    """The reader reconnects with a newer token, and continues where it was."""
    make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    client = sign_in("Reader")
    who = lambda *_: Person("id-ann", "ann", Role.READER, time.time() + left)  # noqa: E731
    monkeypatch.setattr("fairway_web.auth.Verifier.person", who)
    answer = client.get("/api/v1/runs/job-a/log", headers={"Accept": "text/event-stream"})
    if left > 0:
        assert answer.status_code == 200
        assert "event: end" not in answer.text
    else:
        assert answer.status_code == 401
        assert "the token of the sign-in has expired meanwhile" in answer.text


# Permissions of each role.


def _routes(routes: Any, before: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Route):
            for method in (route.methods or set()) - {"HEAD"}:
                yield method, before + route.path
        elif isinstance(route, Mount) and route.routes:
            yield from _routes(route.routes, before + route.path)
        else:
            yield "GET", before + route.path


def test_roles_cover_every_route_and_no_other(shared: TestClient, anyone: TestClient) -> None:
    app: Any = shared.app
    alone: Any = anyone.app
    known = {f"{method} {path}" for method, path in _routes(app._app.routes)}
    assert known == set(ROUTES)
    assert {f"{m} {path}" for m, path in _routes(alone._app.routes)} == {*ROUTES, "GET /login"}
    assert {action for action in ROUTES.values() if action != OPEN} <= set(ACTIONS)
    # No Reader may change anything, and only the health check is open to everybody.
    for route, action in ROUTES.items():
        assert not route.startswith("POST") or ACTIONS[action][0] > Role.READER
    assert [route for route, action in ROUTES.items() if action == OPEN] == ["GET /healthz"]


@pytest.mark.parametrize("role", list(Role))
def test_roles_below_that_of_a_route_are_refused(sign_in: SignIn, role: Role) -> None:
    client = sign_in(role.title)
    for route, action in ROUTES.items():
        if action == OPEN or action == "look":
            continue
        method, path = route.split(" ")
        address = re.sub(r"\{[^}]*\}", "none", path)
        answer = client.request(method, address, headers=OURS)
        is_refused = answer.status_code == 403
        assert is_refused == (role < ACTIONS[action][0]), (route, answer.text)
        if is_refused:
            assert f"the role {role.title} does not let you {ACTIONS[action][1]}" in answer.text


def test_roles_hide_buttons_that_would_be_refused(sign_in: SignIn, make_run: MakeRun) -> None:
    submitted_by(make_run("job-a", state="failed"), BOB)
    client = sign_in("Reader")
    for path in ("/", "/runs/job-a", "/targets", "/targets/local", "/compare?run=job-a", "/cost"):
        text = client.get(path).text
        assert 'name="action"' not in text, path
        assert 'href="/submit' not in text, path
        assert "ann@example.org, Reader" in text, path
    client = sign_in("Submitter")
    assert 'href="/submit"' in client.get("/").text
    assert 'name="action"' not in client.get("/runs/job-a").text  # the run is Bob's
    client = sign_in("Submitter", oid="id-bob")
    assert 'name="action" value="retry"' in client.get("/runs/job-a").text
    client = sign_in("Operator")
    assert 'name="action" value="retry"' in client.get("/runs/job-a").text
    assert 'name="action" value="cancel"' in client.get("/").text


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_submitter_cannot_cancel_or_retry_runs_of_others(
    sign_in: SignIn, make_run: MakeRun, audit: Path, action: str
) -> None:
    submitted_by(make_run("job-bob", state="failed"), BOB)
    make_run("job-any", state="failed")
    client = sign_in("Submitter")
    for name in ("job-bob", "job-any"):
        form = f"action={action}&run={name}&confirmed=yes"
        for path, body in ((f"/api/v1/runs/{name}/{action}", ""), ("/runs", form)):
            answer = client.post(path, content=body, headers=OURS)
            answers(answer, 403, "the role Submitter does not let you cancel and retry all runs")
    found = lines(audit)
    assert [(each["run"], each["outcome"]) for each in found] == [
        *[("job-bob", "missing-role")] * 2,
        *[("job-any", "missing-role")] * 2,
    ]
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


def test_audit_log_records_each_action(
    sign_in: SignIn,
    make_run: MakeRun,
    audit: Path,
    fairway: RunFairway,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = submitted_by(make_run("job-a", state="failed"), BOB)
    client = sign_in("Operator")
    assert _post(client, "runs/job-a/cancel").is_success
    (done,) = lines(audit)
    assert {**done, "at": 0} == {
        "at": 0,
        "by": "ann@example.org",
        "id": "id-ann",
        "role": "Operator",
        "action": "cancel",
        "run": "job-a",
        "outcome": "done",
    }
    detail = client.get("/api/v1/runs/job-a").json()
    assert [(each["action"], each["by"]) for each in detail["actions"]] == [
        ("submit", "bob@example.org"),
        ("cancel", "ann@example.org"),
    ]
    said = (" submit: bob@example.org</li>", " cancel: ann@example.org</li>")
    answers(client.get("/runs/job-a"), 200, *said)
    _, out, _ = fairway(store.base.parent, "show", "job-a")
    assert f"by      bob@example.org, {detail['actions'][0]['at']}: submit\n" in out
    assert ": cancel\n" in out
    # No token is recorded.
    token = client.headers["Authorization"].split()[1]
    assert token[:30] not in audit.read_text() + (run.folder / "actions.jsonl").read_text()
    monkeypatch.setattr("fairway_web.actions.act_on_node", lambda *_: None)
    assert _post(client, "targets/local/nodes/n1/drain").is_success
    done = lines(audit)[-1]
    assert (done["action"], done["target"], done["node"]) == ("drain", "local", "n1")


JOB = "name: a\ncommand: 'true'\n"


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Request fields for a target on another machine; three other targets are on the server's."""
    monkeypatch.chdir(tmp_path)
    hosts = {"far": "h", "box": "localhost", "near": "127.1.2.3", "nd": socket.gethostname()}
    targets = []
    for name, host in hosts.items():
        engine, access = "ssh", {"host": host, "user": "u", "shared": "/s"}
        if name == "nd":
            engine, access = "slurm", {**access, "partition": "p"}
        nodes = {"min": 1, "max": 1}
        targets.append({"name": name, "engine": engine, "nodes": nodes, engine: access})
    settings = {"serve": {"targets": list(hosts)}, "targets": targets}
    (tmp_path / "fairway.yaml").write_text(json.dumps(settings))
    return {"target": ["far"], "offline": True}


def test_submitter_gets_no_local_runs_and_no_files_outside_the_project(
    sign_in: SignIn, tmp_path: Path, far: dict[str, Any]
) -> None:
    client = sign_in("Submitter")
    for more in ({}, {"target": ["local"]}):
        answers(_post(client, "runs", {"job": JOB, **more}), 403, NOT_HERE)
    steps = "name: a\nsteps:\n  one: {command: 'true'}\n  two: {command: 'true', after: [one]}\n"
    answers(_post(client, "check", {"job": steps}), 403)
    assert _post(client, "check", {"job": JOB, **far}).is_success
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    for path in ("../outside", str(outside)):
        job = f"{JOB}code: {{path: {path}}}\n"
        answers(_post(client, "check", {"job": job, **far}), 403, NOT_ELSEWHERE)
    (tmp_path / "linked").symlink_to(outside)
    answer = _post(client, "check", {"job": JOB, **far})
    answers(answer, 403, "your role does not let you follow the link linked")
    client = sign_in("Operator")
    assert _post(client, "check", {"job": JOB}).is_success
    job = f"{JOB}params: {{file: a, name: b, stem: c}}\n"
    asked = {"job": job + "sweep: {points: {files: '/etc/host*'}}\n", **far}
    answer = _post(sign_in("Submitter"), "check", asked)
    answers(answer, 403, "does not let you list files of the server outside of the project")
    assert _post(sign_in("Operator"), "check", asked).is_success


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("target", ["box", "near", "nd"])
def test_submitter_cannot_use_a_cluster_on_the_machine_of_the_server(
    sign_in: SignIn, make_run: MakeRun, target: str
) -> None:
    """The cluster's programs would be started there with the server's account."""
    client = sign_in("Submitter")
    steps = f"name: a\ntarget: far\nsteps:\n  one: {{command: 'true', target: {target}}}\n"
    for asked in (
        {"job": JOB, "target": [target]},
        {"job": steps},
        {"job": f"{JOB}target: {target}"},
    ):
        answers(_post(client, "check", {**asked, "offline": True}), 403, NOT_HERE)
    run = submitted_by(make_run("job-a", state="failed"), ANN)
    facts = json.loads((run.folder / "run.json").read_text())
    known = find_target(target)
    (run.folder / "run.json").write_text(
        json.dumps({**facts, "target": target, "engine": known.engine})
    )
    (run.folder / "target.json").write_text(json.dumps(known.record()))
    answers(_post(client, "runs/job-a/retry"), 403, NOT_HERE)
    asked = {"job": JOB, "target": [target], "offline": True}
    assert _post(sign_in("Operator"), "check", asked).is_success


@pytest.mark.parametrize("kind", ["run", "steps"])
def test_submitter_cannot_retry_a_run_on_the_machine_of_the_server(
    sign_in: SignIn, make_run: MakeRun, kind: str
) -> None:
    run = submitted_by(make_run("job-a", state="failed"), ANN)
    if kind == "steps":
        step = {"name": "one", "run": "job-a-one", "target": "local", "after": {}}
        (run.folder / "steps.json").write_text(json.dumps({"steps": [step]}))
    answers(_post(sign_in("Submitter"), "runs/job-a/retry"), 403, NOT_HERE)


def test_submitter_can_use_only_the_targets_listed_for_the_server(
    sign_in: SignIn, make_run: MakeRun, tmp_path: Path, far: dict[str, Any]
) -> None:
    file = tmp_path / "fairway.yaml"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "serve": {"targets": []}}))
    client, asked = sign_in("Submitter"), {"job": JOB, **far}
    steps = "name: a\nsteps:\n  one: {command: 'true'}\n"
    run = submitted_by(make_run("job-a", state="failed", engine="ssh"), ANN)
    (run.folder / "target.json").write_text(json.dumps(find_target("far").record()))
    for answer in (
        *(_post(client, call, asked) for call in ("check", "render", "runs")),
        _post(client, "check", {**asked, "job": steps}),
        _post(client, "runs/job-a/retry"),
    ):
        answers(answer, 403, "your role does not let you use the target `far`")
    assert 'option value="far"' not in client.get("/submit?once=abcdef").text
    client = sign_in("Operator")
    assert _post(client, "check", asked).is_success
    assert 'option value="far"' in client.get("/submit?once=abcdef").text
    file.write_text(json.dumps(settings))
    client = sign_in("Submitter")
    answers(_post(client, "check", asked), 200)
    page = client.get("/submit?once=abcdef").text
    assert 'option value="far"' in page
    assert 'option value="local"' not in page


@pytest.mark.parametrize("kind", ["job", "set", "steps", "run"])
def test_submitter_cannot_run_the_python_of_a_sweep_on_the_server(
    sign_in: SignIn, store: RunStore, tmp_path: Path, far: dict[str, Any], kind: str
) -> None:
    (tmp_path / "evil.py").write_text(
        "def points():\n    open('ran', 'w').close()\n    yield {'x': 1}\n"
    )
    sweep = "params: {x: 0}\nsweep: {points: {python: 'evil:points'}}\n"
    client = sign_in("Operator")
    if kind == "run":
        asked = {"job": JOB, "run_id": "a-one"}
        assert _post(client, "runs", asked).status_code == 201
        store.find("a-one").wait()
    asked = {
        "job": {"job": JOB + sweep},
        "set": {
            "job": JOB + "params: {x: 0}\n",
            "set": ["sweep={points: {python: 'evil:points'}}"],
        },
        "steps": {"job": "name: a\nsteps:\n  one:\n    command: 'true'\n" + indent(sweep, "    ")},
        "run": {"job": JOB + sweep, "run": "a-one"},
    }[kind]
    client = sign_in("Submitter")
    for call in ("check", "runs"):
        answer = _post(client, call, {**asked, **far})
        answers(answer, 403, "does not let you run the `python:` of a sweep on the machine of")
    assert not (tmp_path / "ran").exists()
    client = sign_in("Operator")
    assert _post(client, "check", {**asked, **far}).is_success
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("folder", [".fairway/runs/job-a/0/outputs/model", ".git", "outside"])
def test_submitter_cannot_make_git_read_a_folder_of_their_own(
    sign_in: SignIn, tmp_path: Path, far: dict[str, Any], folder: str
) -> None:
    """A kept output of a run may be a repository whose settings start programs."""
    (tmp_path / "outside").symlink_to(tmp_path / ".git")
    made = tmp_path / folder
    (tmp_path / ".git").mkdir()
    made.mkdir(parents=True, exist_ok=True)
    for words in (["init", "-q"], ["config", "core.fsmonitor", f"touch {tmp_path}/ran; false"]):
        subprocess.run(["git", "-C", str(made), *words], check=True)
    job = f"{JOB}code: {{path: {folder}}}\n"
    client = sign_in("Submitter")
    answers(_post(client, "check", {"job": job, **far}), 403, NOT_ELSEWHERE)
    assert not (tmp_path / "ran").exists()


def test_submitted_run_and_audit_log_name_the_signed_in_user(
    sign_in: SignIn, store: RunStore, audit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairway.yaml").write_text("{}\n")
    client = sign_in("Operator")
    answers(_post(client, "runs", {"job": JOB, "run_id": "a-one"}), 201)
    store.find("a-one").wait()
    client = sign_in("Operator", oid="id-bob", preferred_username="bob@example.org")
    again = {"run": "a-one", "run_id": "a-two"}
    assert _post(client, "runs", again).status_code == 201
    store.find("a-two").wait()
    for name, by in (("a-one", ANN), ("a-two", BOB)):
        facts = json.loads((store.find(name).folder / "provenance.json").read_text())
        assert (facts["by"], facts["user"]) == (by, by["name"])
    assert [(e["action"], e["run"], e["target"], e["outcome"]) for e in lines(audit)] == [
        ("submit", "a-one", "local", "done"),
        ("submit", "a-two", "local", "done"),
    ]
    groups = client.get("/api/v1/cost?by=user").json()["groups"]
    assert {each["key"] for each in groups} == {ANN["name"], BOB["name"]}


def test_server_without_a_proxy_writes_no_audit_log_and_names_nobody(
    client: TestClient, make_run: MakeRun, audit: Path
) -> None:
    run = make_run("job-a", state="failed")
    assert client.post("/api/v1/runs/job-a/cancel").is_success
    assert not audit.exists()
    assert not (run.folder / "actions.jsonl").exists()
    assert "Who did what" not in client.get("/runs/job-a").text
    assert client.get("/api/v1/runs/job-a").json()["actions"] == []


@pytest.mark.parametrize(
    "kept", ["", "{", "[]\n7\n", '{"action": 1}\n', '{"action":"x","by":"y","at":"z"}\n', "\xff"]
)
def test_actions_record_that_is_damaged_is_shown_as_empty(
    make_run: MakeRun, fairway: RunFairway, store: RunStore, kept: str
) -> None:
    run = make_run("job-a")
    (run.folder / "actions.jsonl").write_bytes(kept.encode("latin-1"))
    (run.folder / "provenance.json").write_text('{"by": ["x"]}')
    code, out, _ = fairway(store.base.parent, "show", "job-a", "--json")
    assert (code, json.loads(out)["actions"]) == (0, [])


def test_actions_record_with_escape_sequences_is_printed_without_them(
    make_run: MakeRun, fairway: RunFairway, store: RunStore
) -> None:
    run = make_run("job-a")
    note(run.folder, "cancel", {"name": "\x1b[2Jx", "id": "x"})
    _, out, _ = fairway(store.base.parent, "show", "job-a")
    assert "\x1b[2J" not in out
    assert ": cancel" in out
