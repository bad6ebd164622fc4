"""Jobs that are checked and submitted by the REST API and on the page."""

import json
import re
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from endings import answers
from entra import Entra
from starlette.testclient import TestClient

from fairway_agent import process_limits
from fairway_runner import worker
from fairway_runner.runs.store import Run, RunStore
from fairway_web import threads

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("project")]

JOB = "name: hello\ntemplate: plain\ncommand: echo {{ params.word }}\nparams: {word: one}\n"
_MANY = (
    "name: many\ncommand: echo {{ params.n }}\nparams: {n: 1}\nsweep: {points: {repeat: 1200}}\n"
)


def _post(client: TestClient, call: str, asked: object) -> Any:
    return client.post(f"/api/v1/{call}", json=asked)


def test_api_check_returns_scripts_and_tasks_or_findings_and_starts_nothing(
    client: TestClient, store: RunStore
) -> None:
    answer = _post(client, "check", {"job": JOB})
    assert answer.status_code == 200
    checked = answer.json()
    script = checked.pop("scripts")[""]
    assert "echo one" in script
    assert checked == {"name": "hello", "target": "local", "tasks": 1, "findings": []}
    rendered = _post(client, "render", {"job": JOB}).json()
    assert rendered == {"name": "hello", "target": "local", "template": "plain", "script": script}
    assert not list(store.unsorted())
    wrong = JOB.replace("command", "comand")
    for call in ("check", "render", "runs"):
        answer = _post(client, call, {"job": wrong})
        answers(answer, 422, '"id":"unknown-key"', '"line":3', '"hint":"did you mean `command`?"')
    assert not list(store.unsorted())
    steps = "name: two\nsteps:\n  a: {command: echo a}\n  b: {command: echo b, after: a}\n"
    checked = _post(client, "check", {"job": steps}).json()
    assert checked["scripts"].keys() == {"a", "b"}
    assert "echo b" in checked["scripts"]["b"]
    answers(_post(client, "render", {"job": steps}), 422, "this needs a single job")
    answers(_post(client, "runs", {"job": _MANY}), 422, '"message":"this starts 1,200 tasks"')
    assert not list(store.unsorted())


def test_api_submit_starts_a_repeated_request_for_a_job_file_once(
    client: TestClient, store: RunStore, project: Path
) -> None:
    (project / "jobs").mkdir()
    (project / "jobs" / "a.yaml").write_text(JOB)
    asked = {"file": "jobs/a.yaml", "run_id": "hello-once", "tags": ["a"], "note": "first"}
    for _ in range(2):
        answers(first := _post(client, "runs", asked), 201)
        assert first.headers["location"] == "/api/v1/runs/hello-once"
        assert first.json().keys() == {"run_id", "target", "tasks", "state"}
    (run,) = store.unsorted()
    assert (run.id, run.tags, run.note) == ("hello-once", ("a",), "first")
    assert run.record.job_file == "jobs/a.yaml"
    other = _post(client, "runs", {**asked, "set": ["params.word=two"]})
    answers(other, 409, "is of another job")


@pytest.mark.parametrize(
    "file",
    [
        *("../a.yaml", "/etc/passwd", "", ".", "none/a.yaml", "a\0.yaml", "out/a.yaml", "a" * 300),
        *(".fairway/serve.json", ".git/config", "x/../.fairway/serve.json"),
    ],
)
def test_api_check_reads_no_secret_and_no_file_outside_the_project(
    client: TestClient, project: Path, file: str
) -> None:
    """Another server of the project has its token in one of the secret files."""
    (project / "out").symlink_to("/etc")
    for secret in (".fairway/serve.json", ".git/config"):
        (project / secret).parent.mkdir(exist_ok=True)
        (project / secret).write_text("root: hidden-word\n")
    check = _post(client, "check", {"file": file})
    page = client.get("/submit", params={"from": f"file:{file}", "once": "abcdef"})
    for answer in (check, page):
        answers(answer, 422)
        assert "root:" not in answer.text
    if file:
        assert re.search("is not a file of the project|File name too long", check.text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b"[" * 100_000, "the request is not JSON"),
        (b"[]", "expected a mapping, found a list"),
        (b"{}", "the request names no job"),
        (b'{"set": ["nodes=1"]}', "the request names no job"),
        (b'{"jobs": "x"}', "unknown key `jobs`"),
        (b'{"job": 1}', "`job`: expected text, found the number 1"),
        (b'{"job": "\\ud800"}', "the request has an unpaired surrogate"),
        (b'{"target": "local"}', "`target`: expected a list"),
        (b'{"job": "name: a", "file": "../x"}', "is not a file of the project"),
        (b'{"run": "none"}', "there is no run `none`"),
    ],
)
def test_api_check_refuses_an_invalid_body(client: TestClient, body: bytes, message: str) -> None:
    status = 404 if "no run" in message else 422
    answers(client.post("/api/v1/check", content=body), status, message)


def _run(client: TestClient, store: RunStore) -> Run:
    asked = {"job": JOB, "run_id": "hello-first", "set": ["params.word=two"], "tags": ["a"]}
    assert _post(client, "runs", asked).status_code == 201
    run = store.find("hello-first")
    run.wait()
    return run


def test_api_rerun_uses_the_code_of_the_run_and_the_changed_job(
    client: TestClient, store: RunStore, project: Path
) -> None:
    (project / "word.txt").write_text("code")
    _run(client, store)
    (project / "word.txt").write_text("other code")
    edited = JOB.replace("echo", "cat word.txt; echo")
    asked = {"run": "hello-first", "job": edited, "run_id": "hello-again"}
    for _ in range(2):
        assert _post(client, "runs", asked).status_code == 201
    again = store.find("hello-again")
    again.wait()
    assert again.log_text() == "codeone\n"  # the settings of the first run are not applied again
    assert again.tags == ("a",)
    facts = json.loads((again.folder / "provenance.json").read_text())
    assert facts["rerun_of"] == "hello-first"
    as_it_was = _post(client, "check", {"run": "hello-first"}).json()
    assert "echo two" in as_it_was["scripts"][""]


def test_api_rerun_refuses_fields_that_do_not_fit(client: TestClient, store: RunStore) -> None:
    _run(client, store)
    for asked, message in (
        ({"file": "job.yaml"}, "`run` and `file` cannot be combined"),
        ({"target": ["local", "other"]}, "a rerun has one target"),
        ({"job": JOB + "code: {path: src}\n"}, "`code`: a rerun has the code of hello-first"),
        ({"job": JOB + "code: src\n"}, "`code`: a rerun has the code of hello-first"),
        ({"job": JOB + "checkpoint: x\n"}, "`checkpoint`"),
        ({"job": "- a\n"}, "expected a mapping, found a list"),
        ({"job": ""}, "the file is empty"),
    ):
        answers(_post(client, "runs", {"run": "hello-first", **asked}), 422, message)
    assert [run.id for run in store.unsorted()] == ["hello-first"]


def test_submit_page_form_starts_from_the_chosen_template_file_or_run(
    client: TestClient, store: RunStore, project: Path
) -> None:
    (project / "jobs").mkdir()
    (project / "jobs" / "a.yaml").write_text(JOB)
    (project / "jobs" / "data.yaml").write_text("a: 1\n")
    _run(client, store)
    for chosen, begun in (
        ("", "template: plain"),
        ("template:torchrun", "template: torchrun"),
        ("file:jobs/a.yaml", "echo {{ params.word }}"),
        ("run:hello-first", "With the code of"),
    ):
        query = {"from": chosen} if chosen else {}
        address = client.get("/submit", params=query).headers["location"]
        assert re.search("once=[a-z0-9]{6}$", address)
        page = client.get(address)
        answers(page, 200, begun, 'value="file:jobs/a.yaml"', 'value="run:hello-first"')
        assert "data.yaml" not in page.text
        assert ("params.word=two</textarea>" in page.text) is chosen.startswith("run:")
    for chosen in ("template:none", "template:../x", "template:\0", "run:none", "x"):
        answer = client.get("/submit", params={"from": chosen, "once": "abcdef"})
        assert answer.status_code in (404, 422)
        assert re.search("there is no|cannot|leaves", answer.text)


def test_submit_page_checks_and_submits_a_job_once(browser: TestClient, store: RunStore) -> None:
    form = {"job": JOB.replace("command", "comand"), "once": "abcdef", "action": "submit"}
    answer = browser.post("/submit", data=form)
    answers(answer, 422, "job.yaml, line 3", "did you mean `command`?")
    assert "comand: echo" in answer.text  # the typed text is kept
    form["job"] = JOB.replace("\n", "\r\n")
    checked = browser.post("/submit", data={**form, "action": "check"})
    assert "hello would start 1 task on local." in checked.text
    typed = browser.post("/submit/check", data=form)
    assert "<html" not in typed.text
    assert "echo one" in typed.text
    assert not list(store.unsorted())
    for _ in range(2):
        answer = browser.post("/submit", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/hello-abcdef")
    (run,) = store.unsorted()
    assert (run.folder / "job.yaml").read_text() == JOB
    changed = {**form, "set": "params.word=two\n\n"}
    answer = browser.post("/submit", data=changed)
    assert "hello-abcdef was submitted from this page, with another job" in answer.text
    once = re.findall(r'name="once" value="([a-z0-9]{6})"', answer.text)
    assert once != ["abcdef"]
    answer = browser.post("/submit", data={**changed, "once": once[0]})
    assert answer.headers["location"] == f"/runs/hello-{once[0]}"


def test_submit_page_edits_a_runs_multi_line_settings(browser: TestClient, store: RunStore) -> None:
    said = ["command=echo one\n\n echo two", "params.word=two"]
    asked = {"job": JOB, "set": said, "run_id": "hello-first"}
    assert browser.post("/api/v1/runs", json=asked).status_code == 201
    store.find("hello-first").wait()
    page = browser.get("/submit?from=run:hello-first&once=abcdef").text
    [text] = re.findall(r'<textarea name="set"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert text == "command=echo one\n \n  echo two\nparams.word=two"
    form = {"job": JOB, "run": "hello-first", "action": "submit", "once": "abcdef"}
    form["set"] = text.replace("\n", "\r\n")  # as browsers send it
    assert browser.post("/submit", data=form).status_code == 303
    provenance = store.find("hello-abcdef").folder / "provenance.json"
    assert json.loads(provenance.read_text())["set"] == said


def test_submit_page_escapes_text_and_confirms_sweeps(browser: TestClient, store: RunStore) -> None:
    evil = "</textarea><script>alert('x')</script>"
    form = {"job": evil, "set": evil, "target": '"><script>alert(1)', "action": "check"}
    page = browser.post("/submit", data=form).text
    assert "<script>alert" not in page
    answer = browser.post("/submit", data={"job": _MANY, "action": "submit"})
    answers(answer, 422, "this starts 1,200 tasks", "Start all of these tasks")
    assert not list(store.unsorted())


ENDLESS = "{% for a in range(9999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"


def test_api_check_is_answered_during_endless_checks_of_another_user(
    shared: TestClient, entra: Entra, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 10_000.0)
    monkeypatch.setattr(threads.checking, "most", 2)

    def check(command: str, person: str) -> Any:
        token = entra.token("Operator", oid=person)
        asked = {"job": f'name: a\ntemplate: plain\ncommand: "{command}"\n'}
        return shared.post(
            "/api/v1/check", json=asked, headers={"Authorization": f"Bearer {token}"}
        )

    with ThreadPoolExecutor(2) as pool:
        endless = [pool.submit(check, ENDLESS, "ann") for _ in range(2)]
        try:
            assert check("true", "bob").status_code == 200
            assert not any(each.done() for each in endless)
        finally:
            while wait(endless, timeout=0.1).not_done:
                worker.close()
    assert {each.result().json()["findings"][0]["id"] for each in endless} == {"heavy-job"}
