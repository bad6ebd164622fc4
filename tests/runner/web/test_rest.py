"""REST API: like the output of `--json`, logs from any offset, outputs and no other file."""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from endings import answers
from running import MakeRun, RunFairway
from starlette.testclient import TestClient
from waiting import PATIENCE

from fairway_agent.metric_logs import values_of
from fairway_cli.ui.progress import watch_tasks
from fairway_core.findings import UserError
from fairway_runner.runs.store import Run
from fairway_web import runs as web_runs
from fairway_web import threads


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("runs", ["list"]),
        ("runs/job-a", ["show", "job-a"]),
        ("compare?run=job-a&run=job-b", ["compare", "job-a", "job-b"]),
    ],
)
def test_rest_api_answers_like_the_json_output_of_commands(
    client: TestClient, make_run: MakeRun, here: RunFairway, path: str, words: list[str]
) -> None:
    make_run("job-a", [{"params": {"lr": 1}}, {"state": "failed"}], "failed", created=1.1e9)
    folder = make_run("job-b", [{"params": {"lr": 2}}], created=1e9).folder
    (folder.parents[2] / "fairway.yaml").write_text("{}\n")
    code, printed, _ = here(*words, "--json")
    answer, facts = client.get(f"/api/v1/{path}").json(), json.loads(printed)
    assert (code, answer) == (0, facts[::-1] if words == ["list"] else facts)


def _pages(client: TestClient, address: str, name: str) -> list[list[str]]:
    """Returns one field of all listed items, page by page."""
    pages = []
    while address:
        answer = client.get(address)
        pages.append([each[name] for each in answer.json()])
        address = answer.links["next"]["url"] if answer.links else ""
    return pages


def test_rest_api_pages_of_outputs_list_everything_once(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_runs, "MOST_OUTPUTS", 3)
    kept = [{f"model/{n}.bin": "x" for n in range(count)} for count in (2, 5)]
    make_run("out-a", [{"kept": files} for files in kept])
    pages = _pages(client, "/api/v1/runs/out-a/outputs", "path")
    every = [f"0/model/{n}.bin" for n in range(2)] + [f"1/model/{n}.bin" for n in range(5)]
    assert pages == [every[:3], every[3:6], every[6:]]
    assert client.get("/api/v1/runs/out-a/outputs?from=9").json() == []


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_rest_api_pages_are_complete_for_runs_created_at_the_same_time(
    client: TestClient, make_run: MakeRun, limit: int
) -> None:
    """The edge of a page lies between such runs."""
    for name, created in [("a", 2e9), ("d", 1e9), ("b", 1e9), ("c", 1e9), ("e", 1e8)]:
        make_run(f"job-{name}", created=created)
    pages = _pages(client, f"/api/v1/runs?limit={limit}", "run_id")
    assert {len(page) for page in pages[:-1]} == {limit}
    seen = [name for page in pages for name in page]
    assert [seen] == _pages(client, "/api/v1/runs", "run_id")
    assert (seen[0], {*seen[1:4]}, seen[4:]) == ("job-a", {"job-b", "job-c", "job-d"}, ["job-e"])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("runs?fresh=maybe", "`fresh`: Input should be a valid boolean"),
        ("runs?since=x", "`x` is neither a duration nor a date"),
        ("runs?columns=x", "there is no column `x`"),
        ("runs?state=failed&state=x", "`state`: Input should be 'queued', 'running'"),
        ("runs?limit=0", "`limit`: Input should be greater than or equal to 1"),
        ("runs?limit=many", "`limit`: Input should be a valid integer"),
        ("runs?limit=99999999999", "`limit`: Input should be less than or equal to 100"),
        ("runs?before=yesterday", "`before`: Input should be a valid number"),
        ("runs/job-a/log?raw=true&task=all", "`raw` is for one whole log"),
        ("runs/job-a/log?raw=true&rank=0", "`raw` is for one whole log"),
        ("runs/job-a/log?from=-1", "`from` is not an offset in bytes"),
        ("runs/job-a/log?from=x", "`from` is not an offset in bytes"),
        ("runs/job-a/log?from=1e3", "`from` is not an offset in bytes"),
        (f"runs/job-a/log?from={'9' * 20}", "`from` is not an offset in bytes"),
        *(  # one offset per task is expected
            (f"runs/job-b/log?task=all&from={place}", "`from` is not an offset in bytes")
            for place in ("1", "1-2-3", "x-1", "-", "1-", "1-\u0663", "9" * 16 + "-0")
        ),
        ("runs/job-a/outputs?from=-1", "`from`: Input should be greater than or equal to 0"),
    ],
)
def test_rest_api_refuses_invalid_queries_with_422(
    client: TestClient, make_run: MakeRun, path: str, message: str
) -> None:
    make_run("job-a")
    make_run("job-b", [{}, {}])
    answers(client.get(f"/api/v1/{path}"), 422, message)
    if path.startswith("runs?") and "fresh" not in path:  # the list page has the same parameters
        assert client.get(path.replace("runs?", "/?")).status_code == 422


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/runs", "GET, HEAD, POST"),
        ("/api/v1/openapi.json", "GET, HEAD"),
        ("/runs/job-a/sections", "GET, HEAD"),
        ("/submit", "GET, HEAD, POST"),
        ("/static/page.js", "GET, HEAD"),
    ],
)
def test_rest_api_and_pages_name_the_methods_of_a_path(
    client: TestClient, path: str, methods: str
) -> None:
    answer = client.delete(path)
    answers(answer, 405, "Method Not Allowed")
    assert answer.headers["allow"] == methods
    assert f"this path takes {methods}" in answer.text
    if path.startswith("/api/"):
        assert [each["id"] for each in answer.json()["findings"]] == ["wrong-method"]


def test_rest_api_lists_runs_while_cancellations_are_waiting(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation waits for the run's end: minutes, with a long grace."""
    for room in (threads.acting, threads.reading):
        monkeypatch.setattr(room, "most", 1)
    entered, ended = threading.Event(), threading.Event()

    def cancel(_: Run, _task: str | None) -> None:
        entered.set()
        ended.wait()

    monkeypatch.setattr(Run, "cancel", cancel)
    make_run("job-a")
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(client.post, "/api/v1/runs/job-a/cancel") for _ in range(2)]
        try:
            assert entered.wait(PATIENCE)
            shown = pool.submit(client.get, "/api/v1/runs")
            assert shown.result(PATIENCE).status_code == 200
        finally:
            ended.set()
    assert [each.result().status_code for each in asked] == [200, 200]


@pytest.mark.parametrize("name", ["none", "job", ".hidden", "a%2fb", "job-a%00", "a" * 300])
def test_rest_api_answers_404_to_unknown_runs(
    client: TestClient, make_run: MakeRun, name: str
) -> None:
    make_run("job-a")
    asked = f"compare?run={name}"
    for path in (f"/api/v1/runs/{name}", f"/runs/{name}", f"/{asked}", f"/api/v1/{asked}"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize("task", ["2", "-1", "x", "", "0/../1", "٣", "setup"])
def test_rest_api_answers_404_to_unknown_tasks(
    client: TestClient, make_run: MakeRun, task: str
) -> None:
    make_run("job-a", [{}, {}])
    for what in ("log", "script"):
        answer = client.get(f"/api/v1/runs/job-a/{what}", params={"task": task})
        answers(answer, 404, '"hint":"its tasks are 0 to 1"')


def test_rest_api_returns_the_script_of_a_task_or_422_if_it_is_missing(
    client: TestClient, make_run: MakeRun
) -> None:
    make_run("job-a")
    for query in ("", "?task=0", "?task=00"):
        assert client.get(f"/api/v1/runs/job-a/script{query}").text.startswith("true\n")
    run = make_run("job-b", [{}, {}])
    specs = (run.folder / "tasks.jsonl").read_text().splitlines(keepends=True)
    (run.folder / "tasks.jsonl").write_text(specs[0])
    answers(client.get("/api/v1/runs/job-b/script?task=1"), 422, "it has no task 1")


@pytest.mark.parametrize("path", ["/api/v1/runs/", "/targets/", "/api/v1", "/static"])
def test_address_with_another_slash_is_unknown_and_no_redirect(
    client: TestClient, path: str
) -> None:
    """A redirect would name `http://` behind a proxy, and a client would send its token there."""
    answers(client.get(path, follow_redirects=False), 404)


def test_rest_api_serves_outputs_of_a_run_and_no_other_file(
    client: TestClient, make_run: MakeRun
) -> None:
    run = make_run("job-a", [{"kept": {"model/page.html": "<script>steal()</script>"}}])
    kept = run.task_folder(0) / "outputs" / "model"
    (kept / "leak").symlink_to("/etc/passwd")
    (kept / "newest").symlink_to("page.html")
    (kept / "two\nlines").write_text("x")
    (kept / "bad\udcff").write_text("x")
    (kept / "odd").symlink_to("none\udcff")
    listed = client.get("/api/v1/runs/job-a/outputs").json()
    found = {each["path"].removeprefix("0/model/"): each["size"] for each in listed}
    assert found == {"newest": 24, "page.html": 24, "two\nlines": 1}
    assert "page.html" in client.get("/runs/job-a").text
    assert client.get("/api/v1/runs/job-a/outputs/0/model/two%0Alines").text == "x"
    assert client.get("/api/v1/runs/job-a/outputs/0/model/newest").text.startswith("<script>")
    answer = client.get("/api/v1/runs/job-a/outputs/0/model/page.html")
    assert answer.text == "<script>steal()</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    for path in (
        *("0/model/leak", "0/model/none", "0/%2e%2e/state.json", "0/..%2f..%2f..%2frun.json"),
        *("0//etc/passwd", "%2fetc%2fpasswd", "9/model/page.html", "0", "0/model", "0/%00"),
        "0/" + "a" * 300,
    ):
        answer = client.get(f"/api/v1/runs/job-a/outputs/{path}")
        assert answer.status_code == 404, path
        assert "has no " in answer.text or "Not Found" in answer.text


def test_rest_api_records_have_only_changed_files_and_no_scripts(
    client: TestClient, make_run: MakeRun
) -> None:
    run = make_run("job-a", [{"log": "one\n"}])
    (run.folder / "engine.json").write_text("{}")
    (run.folder / "labels.json").symlink_to("/etc/passwd")
    answer = client.get("/api/v1/runs/job/records").json()
    (folder,) = answer["runs"].values()
    names = ("job.json", "provenance.json", "run.json", "tasks.jsonl", "tasks/0/state.json")
    assert sorted(folder["files"]) == sorted([*names, "state.json"])
    assert json.loads(folder["files"]["job.json"]) == {"name": "job"}
    assert (folder["folder"], folder["logs"]) == (str(run.folder), {"0": 4})
    assert json.loads(folder["files"]["state.json"])["state"] == "succeeded"
    later = answer["since"] + 10**12
    (folder,) = client.get(f"/api/v1/runs/job-a/records?since={later}").json()["runs"].values()
    assert list(folder["files"]) == ["state.json"]
    # Scripts of a large sweep would be more than a client accepts.
    run = make_run("job-b", [{"params": {"lr": 1}}, {}])
    text = web_runs.records(run, 0)["runs"]["job-b"]["files"]["tasks.jsonl"]
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(each["script"], each["params"]) for each in lines] == [("", {"lr": 1}), ("", {})]
    # Slow files are written first, and the folder appears last.
    run = make_run("job-c", [{}])
    now = time.time_ns()
    for path in run.folder.rglob("*"):
        os.utime(path, ns=(now - 10**10, now - 10**10))
    assert list(web_runs.records(run, now - 10**9)["runs"]["job-c"]["files"]) == ["state.json"]
    os.utime(run.folder / "run.json", ns=(now, now))
    files = web_runs.records(run, now - 10**9)["runs"]["job-c"]["files"]
    assert {"tasks.jsonl", "tasks/0/state.json", "run.json"} <= files.keys()


def test_rest_api_finds_the_last_task_by_its_name(client: TestClient, make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": "one\n"}, {"log": "two\n", "kept": {"all.txt": "all"}}])
    specs = (run.folder / "tasks.jsonl").read_text().splitlines(keepends=True)
    (run.folder / "tasks.jsonl").write_text(specs[0])
    (run.folder / "finally.jsonl").write_text(specs[1].replace('"index": 1', '"index": "finally"'))
    (run.folder / "tasks" / "1").rename(run.folder / "tasks" / "finally")
    (run.folder / "tasks/finally/outputs/all.txt").chmod(0o640)
    assert client.get("/api/v1/runs/job-a/log?task=finally").text == "two\n"
    assert client.get("/api/v1/runs/job-a/script?task=finally").text.startswith("true")
    listed = client.get("/api/v1/runs/job-a/outputs").json()
    assert listed == [{"path": "finally/all.txt", "size": 3, "mode": "640"}]
    assert client.get("/api/v1/runs/job-a/outputs/finally/all.txt").text == "all"
    assert ">two\n</pre>" in client.get("/runs/job-a?task=finally").text


def test_rest_api_answers_409_to_impossible_actions(client: TestClient, make_run: MakeRun) -> None:
    make_run("job-a")
    answers(client.post("/api/v1/runs/job-a/retry"), 409, "every task of job-a succeeded")


@pytest.mark.parametrize(
    ("call", "content", "message"),
    [
        ("GET runs?tsak=1", "", "no value `tsak`"),
        ("GET runs?status=failed", "", "no value `status`"),
        ("GET runs/job-a?task=1", "", "no value `task`"),
        ("POST runs/job-a/cancel?tsak=1", "", "no value `tsak`"),
        ("POST runs/job-a/cancel", '{"task": 1}', "takes no body"),
        ("POST runs/job-a/retry", "task=1", "takes no body"),
        ("POST check?file=job.yaml", '{"job": "name: x"}', "no value `file`"),
    ],
)
def test_rest_api_refuses_unknown_parameters_and_bodies(
    client: TestClient, make_run: MakeRun, call: str, content: str, message: str
) -> None:
    make_run("job-a", [{}, {"state": "failed"}], "failed")
    method, path = call.split()
    answers(client.request(method, f"/api/v1/{path}", content=content), 422, message)


def test_metrics_page_counts_runs_for_prometheus_and_keeps_them_fresh(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    monkeypatch.setattr("fairway_web.threads.Refresher.watch", lambda _: looks.append("look"))
    make_run("job-a")
    make_run("job-b", target='a"b\\c')
    lines = client.get("/metrics").text.splitlines()
    assert 'fairway_runs{target="local",state="succeeded"} 1' in lines
    assert any(line.startswith('fairway_runs{target="a\\"b\\\\c"') for line in lines)
    # The states are kept up to date even if nobody opens a page.
    assert looks == ["look"]


def test_rest_api_lists_runs_beside_a_damaged_one(client: TestClient, make_run: MakeRun) -> None:
    make_run("job-a")
    (make_run("job-b").folder / "run.json").write_text("{")
    assert [run["run_id"] for run in client.get("/api/v1/runs").json()] == ["job-a"]
    assert client.get("/metrics").status_code == 200
    assert client.get("/api/v1/runs/job-b").status_code == 422


def test_slow_metric_hides_no_other_run_and_no_other_metric_of_its_run(
    client: TestClient,
    make_run: MakeRun,
    here: RunFairway,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user's pattern is stopped after some seconds, for each log of its run."""
    make_run("job-a", [{"log": "loss=0.5\n"}], metrics={"loss": "loss=([0-9.]+)"}, created=2e9)
    slow = {"loss": "(?:a+)+([0-9])", "step": "([0-9])b"}
    run = make_run("job-b", [{"log": "aaab 4b\n"}], metrics=slow, created=1e9)

    def search(name: str, pattern: re.Pattern[str], texts: Sequence[str]) -> Any:
        if "a+" in pattern.pattern:
            raise UserError.of("slow-metric", "the pattern was stopped", "avoid repetition")
        return values_of(pattern, texts)

    monkeypatch.setattr("fairway_runner.runs.metrics.search", search)
    answer = client.get("/api/v1/runs?columns=metric:loss")
    values = {each["run_id"]: each["columns"]["metric:loss"] for each in answer.json()}
    assert values == {"job-a": 0.5, "job-b": None}
    assert "job-b: the pattern was stopped" in answer.headers["findings"]
    code, printed, said = here("list", "--sort", "metric:loss", "--columns", "metric:loss")
    assert (code, "job-a" in printed, "job-b" in printed) == (0, True, True)
    assert said.count("job-b: the pattern was stopped") == 1
    answers(client.get("/runs/job-b"), 200, "the pattern was stopped", ">aaab 4b\n</pre>")
    assert "the pattern was stopped" in client.get("/runs/job-b/sections").text
    [task] = client.get("/api/v1/runs/job-b").json()["task_list"]
    assert (task["metrics"], task["metrics_fault"]) == ({"step": 4.0}, "the pattern was stopped")
    code, printed, _ = here("show", "job-b")
    assert (code, printed.splitlines()[-1]) == (0, "the pattern was stopped")
    watch_tasks(run, sys.stdout)
    said = capsys.readouterr()
    assert said.out.startswith("[0] succeeded step=4 ")
    assert said.err == "the pattern was stopped\n"
