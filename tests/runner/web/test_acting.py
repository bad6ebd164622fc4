"""Buttons and calls that act on runs and nodes: their input, and how many run at once."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from endings import answers
from running import MakeRun, RunFairway
from starlette.testclient import TestClient
from targets import target_of

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import Node
from fairway_runner.runs.store import RunStore
from fairway_web.roles import ALONE, ROUTES, Person, RequestContext, Role, in_context
from fairway_web.threads import Room

ANN = Person("id-ann", "ann", Role.SUBMITTER)
BOB = Person("id-bob", "bob", Role.SUBMITTER)


@pytest.mark.parametrize(("person", "at_once"), [(ANN, 2), (ALONE, 4)])
def test_web_threads_of_one_user_get_half_of_the_room(person: Person, at_once: int) -> None:
    call = Room(4)
    begun, go_on = threading.Semaphore(0), threading.Event()
    counted = [0, 0]

    def wait() -> None:
        counted[0] += 1
        counted[1] = max(counted)
        begun.release()
        go_on.wait()
        counted[0] -= 1

    async def ask(who: Person, do: Callable[[], object]) -> None:
        with in_context(RequestContext(who)):
            await call(do)

    async def all_() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(ask, person, wait)
            for _ in range(at_once):
                await anyio.to_thread.run_sync(begun.acquire)
            if person is ANN:
                await ask(BOB, lambda: None)
            assert counted[0] == at_once
            go_on.set()

    with ThreadPoolExecutor(1) as alone:  # a browser's loop may run in this thread
        alone.submit(anyio.run, all_).result()
    assert counted == [0, at_once]


# Routes of pages that act, and the equivalent API calls.
_CALLS = {
    "POST /runs": {"POST /runs/{run}/cancel", "POST /runs/{run}/retry"},
    "POST /submit": {"POST /runs"},
    "POST /submit/check": {"POST /check"},
    "POST /targets/{target}": {"POST /targets/{target}/nodes/{node}/{action}"},
}
# Pages need none: Check shows the script, and a form's code is on the server.
_FOR_PROGRAMS = {"POST /render", "POST /code", "POST /code/{digest}"}


def test_web_buttons_that_act_have_api_calls_and_vice_versa() -> None:
    acting = {each for each in ROUTES if each.startswith("POST ")}
    calls = {
        f"POST /api/v1{each.removeprefix('POST ')}"
        for each in _FOR_PROGRAMS.union(*_CALLS.values())
    }
    assert acting == _CALLS.keys() | calls


EVIL = "<script>alert(1)</script>"
_KIND = {"vm_size": "Standard_ND96isr_H100_v5", "mounts": {"data": "/data"}}
CLUSTER = target_of("slurm", **_KIND).record()
POOL = target_of("ssh", {"host": ""}, name="pair", **_KIND).record()


class Engine:
    """A cluster with two nodes."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.away = False

    def nodes(self) -> list[Node]:
        if self.away:
            raise UserError.of("no-answer", "h does not answer", "is it on?", exit_code=5)
        return [
            Node("nd-1", "allocated", "10.0.0.1", "job-a", facts={"gpus": "8"}),
            Node("nd-2", "drained", run="strange", reason=EVIL),
        ]

    def act_on_node(self, action: str, node: str) -> None:
        if node != "nd-1":
            raise UserError.of("unknown-node", f"there is no node {node}")
        self.done.append((action, node))


@pytest.fixture
def engine(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> Engine:
    folder = store.base.parent
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [CLUSTER]}))
    store.base.mkdir(exist_ok=True)
    (store.base / "targets.json").write_text(json.dumps([POOL]))
    monkeypatch.chdir(folder)
    made = Engine()

    def engine_for(target: Target, deadline: float | None = None) -> Engine:
        return made

    monkeypatch.setattr("fairway_runner.targets.nodes.engine_for", engine_for)
    return made


def test_web_target_pages_are_shown_even_if_the_target_does_not_answer(
    client: TestClient, engine: Engine, here: RunFairway
) -> None:
    code, printed, _ = here("targets", "--offline", "--json")
    assert code == 0
    assert client.get("/api/v1/targets").json() == json.loads(printed)
    answers(client.get("/targets"), 200, 'href="/targets/nd"', "not ready")
    assert "It accepts no jobs yet" in client.get("/targets/pair").text
    page = client.get("/targets/local").text
    assert "Drain" not in page
    assert 'type="checkbox"' not in page
    engine.away = True
    answers(client.get("/targets/nd"), 200, "h does not answer", "is it on?")
    assert client.get("/api/v1/targets/nd/nodes").status_code == 502


def test_web_target_page_shows_the_run_or_the_reason_of_each_node(
    client: TestClient, engine: Engine, make_run: MakeRun
) -> None:
    make_run("job-a", target="nd")
    said = ("&lt;script&gt;alert(1)", '<th scope="col">gpus</th>', "Standard_ND96isr_H100_v5")
    # Another user's run has no page here.
    runs = ('<a href="/runs/job-a">job-a</a>', "<td>strange</td>")
    answers(page := client.get("/targets/nd"), 200, *said, *runs)
    assert EVIL not in page.text
    fragment = client.get("/targets/nd?fragment=1").text
    assert "<html" not in fragment
    assert "nd-1" in fragment
    nodes = client.get("/api/v1/targets/nd/nodes").json()
    assert nodes[0] == {
        "name": "nd-1",
        "state": "allocated",
        "address": "10.0.0.1",
        "run": "job-a",
        "reason": None,
        "gpus": "8",
    }


@pytest.mark.parametrize("path", ["/targets/none", "/api/v1/targets/none/nodes", "/targets/%3Cb"])
def test_web_target_answers_404_if_unknown(client: TestClient, engine: Engine, path: str) -> None:
    answers(answer := client.get(path), 404, "there is no target")
    assert "<b" not in answer.text.partition("there is no target")[2].partition("</b>")[0]


def test_web_node_actions_drain_and_resume_and_refuse_invalid_ones(
    browser: TestClient, engine: Engine
) -> None:
    page = browser.get("/targets/nd").text
    assert 'value="drain"' in page
    assert 'value="reboot"' not in page
    answer = browser.post("/targets/nd", data={"action": "drain", "node": "nd-1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/targets/nd")
    answer = browser.post("/api/v1/targets/nd/nodes/nd-1/resume")
    assert answer.json() == {"node": "nd-1", "action": "resume"}
    assert engine.done == [("drain", "nd-1"), ("resume", "nd-1")]
    for form, said in (
        ({"action": "drain"}, "no node was selected"),
        ({"action": "burn", "node": "nd-1"}, "`burn` is not an action for nodes"),
        ({"action": "drain", "node": ["none", "nd-1"]}, "there is no node none"),
    ):
        answer = browser.post("/targets/nd", data=form)
        assert answer.status_code in (404, 422)
        assert said in answer.text
    # The existing node was drained all the same.
    assert engine.done[2:] == [("drain", "nd-1")]
    for path in ("nd-1/reimage", "nd-1/", "none/drain"):
        answer = browser.post(f"/api/v1/targets/nd/nodes/{path}")
        assert answer.status_code in (404, 422)
    del browser.headers["Origin"]
    answers(browser.post("/targets/nd", data={"action": "drain", "node": "nd-1"}), 403)
    assert len(engine.done) == 3
