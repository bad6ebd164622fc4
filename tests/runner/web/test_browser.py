"""The pages in a real browser: a run from the list to its end, the keyboard, a phone, the dark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MakeRun
    from playwright.sync_api import Browser, BrowserContext, Page, Route

_PATIENCE = 300_000  # milliseconds: only what never comes takes so long
_OPTIONS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium; on Debian: sudo apt-get install --no-install-recommends chromium")
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        # As root there is no sandbox.
        options = [*_OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        found = playwright.chromium.launch(executable_path=program, args=options, timeout=_PATIENCE)
        yield found
        found.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "fairway.yaml").write_text("{}\n")
    return tmp_path


@contextmanager
def _served(project: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "fairway_cli.entry", "serve"]
    process = subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip().removeprefix("ready: open ")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def address(project: Path) -> Iterator[str]:
    with _served(project) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The list of runs, and at the end a look at what the browser complained of."""
    with _opened(browser.new_context(), address) as found:
        yield found


@contextmanager
def _opened(context: BrowserContext, address: str) -> Iterator[Page]:
    context.set_default_timeout(_PATIENCE)
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(address)
    yield page
    context.close()
    assert not complaints


def test_a_run_from_the_list_to_its_end(project: Path, page: Page) -> None:
    go = project / "go"
    command = f"echo one; until [ -e {go} ]; do sleep 0.1; done; echo two; sleep 3000"
    job = {"name": "long", "command": command, "template": "plain"}
    (project / "job.yaml").write_text(json.dumps(job))
    submit = [sys.executable, "-m", "fairway_cli.entry", "submit", "job.yaml"]
    subprocess.run([*submit, "--run-id", "long-run"], cwd=project, check=True)

    page.get_by_label("Job").fill("long")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="long-run").click()
    log = page.get_by_role("log")
    expect(log).to_have_text("one\n")
    go.touch()
    expect(log).to_have_text("one\ntwo\n")
    expect(page.locator("h1 .state")).to_have_text("running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancel these runs?")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("h1 .state")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()


def test_a_job_with_a_mistake_then_right_is_one_run(project: Path, page: Page) -> None:
    page.get_by_role("link", name="Submit").click()
    job = page.get_by_label("Job")
    job.fill("name: typed\ntemplate: plain\ncomand: echo done\n")
    found = page.get_by_role("status")
    expect(found).to_contain_text("line 3")
    expect(found).to_contain_text("did you mean `command`?")
    job.fill("name: typed\ntemplate: plain\ncommand: echo done\n")
    expect(found).to_contain_text("typed would start 1 task on local")
    expect(found.get_by_label("Script")).to_contain_text("echo done")
    page.get_by_role("button", name="Submit").dblclick()
    expect(page.get_by_role("log")).to_have_text("done\n")
    page.go_back()
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("h1 .state")).to_have_text("succeeded")
    listed = subprocess.run(
        [sys.executable, "-m", "fairway_cli.entry", "list", "--json"],
        cwd=project,
        check=True,
        capture_output=True,
    )
    assert [run["name"] for run in json.loads(listed.stdout)] == ["typed"]


@pytest.mark.parametrize(
    ("label", "text"), [("Job", "comand: echo\n"), ("Settings over it", "comand=echo")]
)
def test_what_is_typed_before_the_script_is_there_is_checked(
    page: Page, label: str, text: str
) -> None:
    def type_first(script: Route) -> None:
        page.locator("textarea").and_(page.get_by_label(label)).fill(text)
        script.continue_()

    page.route("**/static/page.js", type_first)
    page.get_by_role("link", name="Submit").click()
    expect(page.get_by_role("status")).to_contain_text("did you mean `command`?")


def test_what_runs_is_drawn_again(page: Page, make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": "", "state": "running"}], "running", engine="none-such")
    page.reload()
    box = page.get_by_label("Select job-a")
    box.check()
    expect(page.locator(".state")).to_have_text("running")
    (run.folder / "new").write_text(json.dumps({"state": "failed"}))
    (run.folder / "new").rename(run.folder / "state.json")
    expect(page.locator(".state")).to_have_text("failed")
    expect(box).to_be_checked()


def test_the_end_brings_outputs_and_other_buttons(page: Page, make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    page.reload()
    page.get_by_role("link", name="job-a").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    kept = run.task_folder(0) / "outputs"
    kept.mkdir()
    (kept / "model.bin").write_bytes(b"1234")
    (run.folder / "new").write_text(json.dumps({"state": "failed"}))
    (run.folder / "new").rename(run.folder / "state.json")
    expect(page.get_by_role("link", name="0/model.bin")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_the_keyboard_is_enough(page: Page, make_run: MakeRun) -> None:
    make_run("job-a")
    page.reload()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.locator(":focus").get_attribute("href") == "/runs/job-a":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="job-a")).to_be_visible()


def test_runs_are_compared(page: Page, make_run: MakeRun) -> None:
    make_run("job-a", [{"params": {"lr": 0.125}}])
    make_run("job-b", [{"params": {"lr": 0.25}}])
    page.reload()
    for name in ("job-a", "job-b"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("columnheader", name="lr")).to_be_visible()
    expect(page.get_by_role("cell", name="0.125")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/", "/runs/job-a", "/compare?run=job-a", "/targets/local", "/submit", "/cost"]
)
def test_a_phone_shows_all_of_it(
    browser: Browser, address: str, make_run: MakeRun, path: str
) -> None:
    make_run("job-a", [{"params": {"lr": 1}, "log": "loss " + "9" * 500 + "\n"}, {}], name="n" * 80)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    with _opened(context, address) as page:
        page.goto(address.partition("/login")[0] + path)
        assert page.locator("body").bounding_box()["width"] == 390  # type: ignore[index]
        for box in (each.bounding_box() for each in page.locator("main > *").all()):
            assert box is None or box["x"] + box["width"] <= 390


def test_darkness_is_kept(browser: Browser, address: str) -> None:
    shades = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        with _opened(context, address) as page:
            style = "element => getComputedStyle(element).backgroundColor"
            shades.append(page.locator("body").evaluate(style))
    assert shades == ["rgb(247, 247, 245)", "rgb(20, 23, 26)"]


def test_without_a_script_the_pages_are_whole(
    browser: Browser, address: str, make_run: MakeRun
) -> None:
    make_run("job-a", [{"log": "one\n"}])
    with _opened(browser.new_context(java_script_enabled=False), address) as page:
        page.get_by_role("link", name="job-a").click()
        expect(page.get_by_role("log")).to_have_text("one\n")


def test_what_a_task_prints_is_no_markup(page: Page, make_run: MakeRun) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(1)</script>\n"
    run = make_run("job-a", [{"log": evil, "state": "running"}], "running", engine="none-such")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.reload()
    page.get_by_role("link", name="job-a").click()
    log = page.get_by_role("log")
    expect(log).to_have_text(evil)
    with run.log(0).open("a") as file:
        file.write(evil)
    expect(log).to_have_text(evil + evil)


def test_two_readers_and_a_command_at_once(
    browser: Browser, page: Page, address: str, project: Path, make_run: MakeRun
) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    with _opened(browser.new_context(), address) as other:
        for each in (page, other):
            each.reload()
            each.get_by_role("link", name="job-a").click()
        with run.log(0).open("a") as file:
            file.write("two\n")
        for each in (page, other):
            expect(each.get_by_role("log")).to_have_text("one\ntwo\n")
        words = [sys.executable, "-m", "fairway_cli.entry", "note", "job-a", "seen"]
        subprocess.run(words, cwd=project, check=True)
    assert run.note == "seen"
