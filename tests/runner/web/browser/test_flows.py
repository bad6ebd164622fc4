"""Use of the pages with a mouse, by the keyboard alone, and without a script."""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from programs import executable
from running import MakeRun

Opened = Callable[..., AbstractContextManager[Page]]
Serving = Callable[..., AbstractContextManager[str]]


@pytest.mark.parametrize(
    ("label", "text"), [("Job", "comand: echo\n"), ("Settings to change", "comand=echo")]
)
@pytest.mark.nightly
def test_submit_form_text_typed_before_the_script_loads_is_checked(
    page: Page, label: str, text: str
) -> None:
    def type_first(script: Route) -> None:
        page.locator("textarea").and_(page.get_by_label(label)).fill(text)
        script.continue_()

    page.route("**/static/page.js", type_first)
    page.get_by_role("link", name="Submit").click()
    expect(page.get_by_role("status")).to_contain_text("did you mean `command`?")


@pytest.mark.nightly
def test_pages_show_the_end_of_a_run_and_keep_the_selection(page: Page, make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    page.reload()
    box = page.get_by_label("Select job-a")
    box.check()
    expect(page.locator(".state")).to_have_text("running")
    beside = page.context.new_page()
    beside.goto(f"{page.url}runs/job-a")
    expect(beside.get_by_role("button", name="Cancel")).to_be_visible()
    kept = run.task_folder(0) / "outputs"
    kept.mkdir()
    (kept / "model.bin").write_bytes(b"1234")
    (run.folder / "new").write_text(json.dumps({"state": "failed"}))
    (run.folder / "new").rename(run.folder / "state.json")
    expect(page.locator(".state")).to_have_text("failed")
    expect(box).to_be_checked()
    expect(beside.get_by_role("link", name="0/model.bin")).to_be_visible()
    expect(beside.get_by_role("button", name="Retry")).to_be_visible()
    expect(beside.get_by_role("button", name="Cancel")).to_have_count(0)


def test_pages_submit_follow_and_cancel_a_run_with_the_keyboard_alone(
    project: Path, page: Page
) -> None:
    go = project / "go"
    command = f"echo one; until [ -e {go} ]; do sleep 0.1; done; echo two; sleep 3000"

    def go_to(target: Locator) -> None:
        """Moves to the target with the Tab key; the focus must be visible at each step."""
        target.wait_for()
        for _ in range(40):
            page.keyboard.press("Tab")
            ring = "element => getComputedStyle(element).outlineStyle"
            assert page.locator(":focus").evaluate(ring) != "none"
            if target.evaluate("element => element === document.activeElement"):
                return
        pytest.fail("the Tab key does not lead there")

    page.keyboard.press("Tab")
    skip = page.get_by_text("Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    go_to(page.get_by_role("link", name="Submit"))
    page.keyboard.press("Enter")
    go_to(page.get_by_label("Job").and_(page.locator("textarea")))
    page.keyboard.press("Control+A")
    page.keyboard.type(f"name: typed\ntemplate: plain\ncommand: {command}\n")
    expect(page.get_by_role("status")).to_contain_text("would start 1 task")
    go_to(page.get_by_role("button", name="Submit"))
    page.keyboard.press("Enter")
    log = page.get_by_role("log")
    expect(log).to_have_text("one\n")
    go_to(log)
    go.touch()
    expect(log).to_have_text("one\ntwo\n")
    expect(page.locator("h1 .state")).to_have_text("running")
    page.get_by_role("link", name="Runs").click()
    page.get_by_label("Job").fill("typed")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="typed-").click()
    go_to(page.get_by_role("button", name="Cancel"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Cancel these runs?")).to_be_visible()
    go_to(page.get_by_role("button", name="Cancel"))
    page.keyboard.press("Enter")
    expect(page.locator("h1 .state")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()


@pytest.mark.nightly
def test_pages_work_without_javascript(opened: Opened, address: str, make_run: MakeRun) -> None:
    for name, rate in (("job-a", 0.125), ("job-b", 0.25)):
        make_run(name, [{"params": {"lr": rate}, "log": f"{name}\n"}])
    # A browser logs each answer with an error status.
    with opened(address, "Failed to load resource", java_script_enabled=False) as page:
        page.get_by_role("link", name="Submit").click()
        job = page.get_by_label("Job").and_(page.locator("textarea"))
        job.fill("name: typed\ntemplate: plain\ncomand: echo\n")
        page.get_by_role("button", name="Check").click()
        found = page.get_by_role("status")
        expect(found).to_contain_text("did you mean `command`?")
        job.fill("name: typed\ntemplate: plain\ncommand: echo one; sleep 3000\n")
        page.get_by_role("button", name="Check").click()
        expect(found).to_contain_text("typed would start 1 task")
        page.get_by_role("button", name="Submit").click()
        while page.get_by_role("log").text_content() != "one\n":
            page.reload()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("Cancel these runs?")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("h1 .state")).to_have_text("cancelled")
        page.get_by_role("link", name="Runs").click()
        for name in ("job-a", "job-b"):
            page.get_by_label(f"Select {name}").check()
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("cell", name="0.125")).to_be_visible()
        page.get_by_role("link", name="job-a").click()
        expect(page.get_by_role("log")).to_have_text("job-a\n")


def test_list_of_runs_opens_from_the_page_of_the_option_open(
    serving: Serving,
    opened: Opened,
    project: Path,
    make_run: MakeRun,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("job-a")
    os.mkfifo(said := project / "said")
    executable(programs / "a-browser", f'echo "$1" >{said}')
    monkeypatch.setenv("BROWSER", "a-browser")
    for name in ("WSL_DISTRO_NAME", "VSCODE_IPC_HOOK_CLI"):  # where the browser is elsewhere
        monkeypatch.delenv(name, raising=False)
    with serving(project, "--open"), opened(said.read_text().strip()) as page:
        expect(page.get_by_role("link", name="job-a")).to_be_visible()


@pytest.mark.nightly
def test_run_page_continues_its_log_after_the_server_was_restarted(
    serving: Serving, opened: Opened, project: Path, make_run: MakeRun
) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")

    def printed(text: str) -> None:
        with run.log(0).open("a") as file:
            file.write(text)

    with ExitStack() as left:
        first = ExitStack()
        address = first.enter_context(serving(project))
        port = address.partition("/login")[0].rpartition(":")[2]
        # A browser logs each request without an answer.
        page = left.enter_context(opened(address, "Failed to load resource"))
        page.get_by_role("link", name="job-a").click()
        log = page.get_by_role("log")
        printed("two\n")
        expect(log).to_have_text("one\ntwo\n")
        beside = page.context.new_page()
        beside.goto(page.url.partition("runs/")[0])
        first.close()
        away, aside = (each.get_by_text("The server does not answer") for each in (page, beside))
        expect(away).to_be_visible()
        expect(aside).to_be_visible()
        printed("three\n")
        again = left.enter_context(serving(project, "--port", port))
        # The new server requires another token.
        with page.expect_response(lambda each: "/log?" in each.url and each.status == 401):
            pass
        page.context.new_page().goto(again)
        expect(log).to_have_text("one\ntwo\nthree\n")
        expect(away).to_have_count(0)
        expect(aside).to_have_count(0)
        printed("four\n")
        expect(log).to_have_text("one\ntwo\nthree\nfour\n")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 502, "body": "Bad gateway"},
        {"status": 302, "headers": {"Location": "/healthz"}},
        {"status": 200, "body": "Sign in"},
    ],
    ids=lambda answer: str(answer["status"]),
)
@pytest.mark.nightly
def test_run_page_shows_no_answer_of_a_proxy(
    opened: Opened, address: str, make_run: MakeRun, answer: dict[str, Any]
) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    with opened(address, "Failed to load resource") as page:
        page.get_by_role("link", name="job-a").click()
        log, away = page.get_by_role("log"), page.get_by_text("The server does not answer")
        page.route("**/log?**", lambda route: route.fulfill(**answer))
        page.route("**/sections", lambda route: route.fulfill(**answer))
        with page.expect_request(lambda each: "/log?" in each.url):
            pass
        if answer["status"] != 200:
            expect(away).to_be_visible()
        page.unroute_all()
        with run.log(0).open("a") as file:
            file.write("two\n")
        expect(log).to_have_text("one\ntwo\n")
        expect(away).to_have_count(0)


def test_run_pages_side_by_side_share_the_connections_of_a_browser(
    page: Page, make_run: MakeRun
) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    beside = [page.context.new_page() for _ in range(7)]
    for each in beside:
        each.goto(f"{page.url}runs/job-a")
    with run.log(0).open("a") as file:
        file.write("two\n")
    for each in beside:
        expect(each.get_by_role("log")).to_have_text("one\ntwo\n")


def test_run_page_shows_a_log_as_text_and_keeps_its_end(page: Page, make_run: MakeRun) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(1)</script>\n"
    run = make_run("job-a", [{"log": evil, "state": "running"}], "running", engine="none-such")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(f"{page.url}runs/job-a")
    log = page.get_by_role("log")
    expect(log).to_have_text(evil)
    expect(page.get_by_text("Only the end is shown.")).to_be_hidden()
    with run.log(0).open("a") as file:
        file.write(evil)
    expect(log).to_have_text(evil + evil)
    with run.log(0).open("a") as file:
        file.writelines(f"{number:06} {'x' * 72}\n" for number in range(20_000))
        file.write("last\n")
    expect(log).to_contain_text("last")
    expect(log).not_to_contain_text("alert")
    expect(page.get_by_text("Only the end is shown.")).to_be_visible()
    assert len(log.text_content() or "") <= 1 << 20
