"""Pages: complete without a script, and safe against text of runs; and the costs of runs."""

import json

import pytest
from endings import answers
from running import MakeRun, RunFairway
from starlette.testclient import TestClient

from fairway_core.findings import UserError
from fairway_runner.runs.store import Run, RunStore
from fairway_web import pages
from fairway_web import runs as web_runs

EVIL = "<script>alert('x')</script>\"'&"


def test_list_page_filters_runs_and_has_a_fragment(client: TestClient, make_run: MakeRun) -> None:
    assert "fairway submit JOB" in client.get("/").text
    make_run("job-a", tags=("best",))
    make_run("job-b", [{"state": "failed"}], "failed")
    state = '<span class="state failed">failed</span>'
    answers(client.get("/"), 200, 'href="/runs/job-a"', state)
    assert "job-a" not in client.get("/?state=failed").text
    nothing = client.get("/?state=lost").text
    assert "No run matches" in nothing
    assert "fairway submit JOB" not in nothing
    make_run("job-c", [{"state": "cancelled"}], "cancelled")
    both = client.get("/?state=failed&state=succeeded").text
    assert [f"job-{each}" in both for each in "abc"] == [True, True, False]
    assert 'data-fragment="/?state=failed&amp;state=succeeded&amp;fragment=1"' in both
    make_run("job-d")
    place = 'data-fragment="/?state=succeeded&amp;fragment=1"'
    answers(client.get("/?state=succeeded"), 200, place)
    fragment = client.get("/?state=succeeded&fragment=1").text
    assert "<html" not in fragment
    assert 'href="/runs/job-d"' in fragment


def test_run_pages_escape_the_text_of_runs_and_cancel_an_unsent_one(
    client: TestClient, make_run: MakeRun
) -> None:
    """The unsent run's target is not even known."""
    run = make_run("job-a", [{"state": "queued"}], "queued", engine="ssh", target="pair")
    for page in ("/", "/runs/job-a"):
        assert "fairway submit --resume job-a" in client.get(page).text
    assert client.post("/api/v1/runs/job-a/cancel").json()["state"] == "cancelled"
    assert run.state == "cancelled"
    log = f"{EVIL}\x1b[31mred\x1b[0m\x1b]0;title\x07\x07\n10 %\r20 %\r\n"
    make_run("job-b", [{"params": {EVIL: EVIL}, "log": log}], name=EVIL, tags=(EVIL,))
    for path in ("/", "/runs/job-b", "/compare?run=job-b", f"/?text={EVIL}"):
        page = client.get(path).text
        assert "<script>alert" not in page, path
        assert "\x1b" not in page
    page = client.get("/runs/job-b").text
    assert "red\n20 %\n</pre>" in page


def test_run_page_has_the_report_log_script_outputs_and_tasks(
    client: TestClient, make_run: MakeRun
) -> None:
    other = {"log": "other\n", "kept": {"model/a b.bin": "1234"}}
    run = make_run("job-a", [{"params": {"lr": 0.1}, "log": "loss 3\n"}, other])
    (run.task_folder(1) / "outputs" / "newest").symlink_to("model")
    said = ('<section aria-labelledby="tasks">', ">loss 3\n</pre>", "/outputs/1/model/a%20b.bin")
    answers(page := client.get("/runs/job-a"), 200, '<th scope="row">1/newest → model</th>', *said)
    assert ">other\n</pre>" in client.get("/runs/job-a?task=1").text
    # The run has ended: the page does not poll.
    assert "data-from" not in page.text
    assert "data-fragment" not in page.text
    run = make_run(
        "job-b", [{"params": {"lr": 0.125, "seed": 7}}, {"params": {"lr": 1, "seed": 7}}]
    )
    state = run.task_folder(1) / "state.json"
    facts = {**json.loads(state.read_text()), "state": "failed", "reason": EVIL, "node": "n-1"}
    state.write_text(json.dumps(facts))
    said = ("<dt>seed</dt><dd>7</dd>", "&lt;script&gt;alert(", "<td>n-1</td>")
    beside = ('aria-label="Script of task 0">true\n', 'href="/submit?from=run:job-b"')
    answers(page := client.get("/runs/job-b"), 200, *said, *beside)
    assert "<dt>lr</dt>" not in page.text  # the parameter has a column
    make_run("job-c", [{"log": "one\ntw", "state": "running"}], "running", engine="batch")
    events = 'data-from="/api/v1/runs/job-c/log?task=0&amp;from=4"'
    # The incomplete line comes with an event.
    answers(client.get("/runs/job-c"), 200, ">one\n</pre>", events)
    answer = client.get("/runs/job-c/sections")
    assert answer.headers["fairway-final"] == "no"
    assert "<html" not in answer.text


def test_compare_page_has_parameters_side_by_side_and_curves(
    client: TestClient, make_run: MakeRun
) -> None:
    make_run("job-a", [{"params": {"lr": 0.125}}])
    make_run("job-b", [{"params": {"lr": 0.25}}])
    column = '<th scope="col" class="param">lr</th>'
    answers(client.get("/compare?run=job-a&run=job-b"), 200, "0.125", "0.25", column)
    assert "Select runs" in client.get("/compare").text
    metrics = {"loss": "loss ([0-9.]+)"}
    for name in ("job-c", "job-d"):
        make_run(name, [{"log": "step 1 loss 3\nstep 2 loss 2\n"}], metrics=metrics)
    assert ">step</text>" in client.get("/compare?run=job-c&run=job-d").text


@pytest.mark.parametrize("path", ["/runs/job-a", "/api/v1/runs/job-a", "/runs/job-a/sections"])
def test_run_page_names_a_file_that_cannot_be_read(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    make_run("job-a")

    def refuse(_: Run) -> None:
        raise PermissionError(13, "Permission denied", "state.json")

    monkeypatch.setattr("fairway_runner.runs.store.Run.status", property(refuse))
    answers(client.get(path), 502, "state.json: Permission denied")


def test_list_page_buttons_ask_for_confirmation_and_act_on_all_runs(
    browser: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("job-a", [{"state": "failed"}], "failed")
    form = {"action": "retry", "run": "job-a"}
    before = (run.folder / "state.json").read_bytes()
    answer = browser.post("/runs", data=form)
    answers(answer, 200, "Run the tasks that did not succeed again?")
    assert (run.folder / "state.json").read_bytes() == before
    cancelled: list[str] = []

    def cancel(run: Run, task: str | None) -> None:
        if run.id == "job-az":
            raise UserError.of("away", "its host does not answer", exit_code=5)
        cancelled.append(run.id)

    monkeypatch.setattr("fairway_runner.runs.store.Run.cancel", cancel)
    for name in ("job-az", "job-b"):
        make_run(name, [{"state": "running"}], "running", engine="none-such")
    form = {"action": "cancel", "confirmed": "yes", "run": ["job-az", "job-b"]}
    answers(browser.post("/runs", data=form), 502, "its host does not answer")
    assert cancelled == ["job-b"]


@pytest.mark.parametrize("form", [{}, {"action": "cancel"}, {"action": "burn", "run": "job-a"}])
def test_list_page_button_without_a_run_is_refused(
    browser: TestClient, make_run: MakeRun, form: dict[str, str]
) -> None:
    make_run("job-a")
    answers(browser.post("/runs", data=form), 422, "no run was selected")


def test_run_and_compare_pages_say_that_a_list_is_truncated(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {f"{number}.bin": "x" for number in range(3)}
    make_run("job-a", [{"log": "x", "kept": kept}, *[{"log": "x"}] * 3])
    make_run("job-b")
    whole = client.get("/runs/job-a").text
    both = client.get("/compare?run=job-a&run=job-b&run=job-b").text
    assert "the first" not in whole + both
    monkeypatch.setattr(web_runs, "MOST_OUTPUTS", 2)
    monkeypatch.setattr(pages, "_MOST_LOGS", 3)
    monkeypatch.setattr(web_runs, "MOST_COMPARED", 1)
    tasks = ("These are the first 3 of 4 tasks", "fairway logs job-a --task N")
    files = ("These are the first 2 files; there are more", "fairway fetch job-a")
    answers(client.get("/runs/job-a?task=3"), 200, *tasks, *files)
    said = "These are the first 1 runs; 1 more were selected"
    answers(client.get("/compare?run=job-a&run=job-b"), 200, said)


EVIL_COSTS = "<script>alert(1)</script>"


@pytest.fixture
def spent(store: RunStore, make_run: MakeRun) -> None:
    (store.base.parent / "fairway.yaml").write_text("{}\n")
    for name, price, tag in (("job-a", 3600.0, EVIL_COSTS), ("job-b", None, "small")):
        run = make_run(name, target="gpu", tags=(tag,))
        target = {"name": "gpu", "engine": "ssh", "vm_size": "Standard_Mine", "price": price}
        (run.folder / "target.json").write_text(json.dumps(target))


@pytest.mark.usefixtures("spent")
def test_cost_page_has_costs_of_the_command_and_a_sum(client: TestClient, here: RunFairway) -> None:
    for by in ("name", "tag", "target", "month"):
        code, printed, _ = here("cost", "--runs", "--offline", "--json", "--by", by)
        assert code == 0
        answer = client.get(f"/api/v1/cost?by={by}").json()
        assert answer.pop("findings") == []
        assert answer == json.loads(printed)
    cost = '<td class="n">5.00</td>'  # five seconds at 3,600 an hour
    said = ('<a href="/runs/job-a">job-a</a>', "at least 5.00", "The price of 1 runs is not known")
    answers(client.get("/cost?by=run"), 200, cost, *said)
    said = ("&lt;script&gt;alert(1)", "A run with several tags counts under each")
    answers(page := client.get("/cost?by=tag"), 200, *said)
    assert EVIL_COSTS not in page.text
    assert "No run to show" in client.get("/cost?since=2001-09-10").text


@pytest.mark.parametrize(
    ("query", "said"), [("by=rnu", "run"), ("since=once", "since: `once` is neither")]
)
def test_cost_page_refuses_invalid_queries(client: TestClient, query: str, said: str) -> None:
    for path in ("/cost", "/api/v1/cost"):
        answers(client.get(f"{path}?{query}"), 422, said)
