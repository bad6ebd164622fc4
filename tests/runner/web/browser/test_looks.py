"""Appearance of the pages with poor eyesight or on a phone, in the light and the dark scheme.

With FAIRWAY_PICTURES=FOLDER the tests also take the pictures of the docs: `bin/docs --screenshots`.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

Shown = Callable[..., AbstractContextManager[Page]]

_PICTURES = os.environ.get("FAIRWAY_PICTURES")
_WIDE, _NARROW = {"width": 1120, "height": 760}, {"width": 390, "height": 800}
_PAGES = {
    "runs": "/",
    "no-run": "/?text=none",
    "run": "/runs/resnet50-k3v9xa",
    "sweep": "/runs/digits-sweep-p7m2qd?task=all",
    "failed": "/runs/resnet50-b2j6sy",
    "outputs": "/runs/digits-w4n8ct",
    "compare": "/compare?run=digits-w4n8ct&run=digits-e6h2rb",
    "submit": "/submit?from=file:job.yaml",
    "targets": "/targets",
    "target": "/targets/local",
    "environments": "/environments",
    "environment": "/environments/demo",
    "cost": "/cost",
    "problem": "/runs/none",
}
_SHOWN_IN_DOCS = ("runs", "run", "compare", "submit")
_SHADE = "getComputedStyle(document.body).backgroundColor"
# Their parts are also on the other pages.
_SELDOM = ("no-run", "failed", "target", "environments", "problem")


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.nightly] * (each in _SELDOM)) for each in _PAGES],
)
def test_page_is_accessible_and_fits_a_phone_in_light_and_dark(shown: Shown, name: str) -> None:
    with shown(_PAGES[name], viewport=_WIDE) as page:
        if name == "submit":
            _make_a_mistake(page)
        _look(page, name)


def test_cancel_confirmation_is_accessible_and_fits_a_phone(shown: Shown) -> None:
    with shown("/runs/resnet50-k3v9xa", viewport=_WIDE) as page:
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("Cancel these runs?")).to_be_visible()
        _look(page, "question")


def test_submit_page_with_a_very_long_name_fits_a_phone(shown: Shown) -> None:
    with shown("/submit", viewport=_NARROW) as page:
        page.get_by_label("Job").and_(page.locator("textarea")).fill("x" * 500 + ": 1\n")
        expect(page.get_by_role("status")).to_contain_text("unknown key")
        _fits(page)


def _make_a_mistake(page: Page) -> None:
    job = page.get_by_label("Job").and_(page.locator("textarea"))
    job.fill(job.input_value().replace("nodes:", "nods:"))
    expect(page.get_by_role("status")).to_contain_text("did you mean `nodes`?")


def _look(page: Page, name: str) -> None:
    # Served as a route of the browser: the pages' policy applies to scripts of tests too.
    script = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    page.route("**/static/axe.js", lambda route: route.fulfill(body=script))
    page.add_script_tag(url="/static/axe.js")
    assert _findings(page, {}) == []
    _take(page, name, "light")
    assert page.evaluate(_SHADE) == "rgb(247, 247, 245)"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(_SHADE) == "rgb(20, 23, 26)"
    assert _findings(page, {"runOnly": ["color-contrast"]}) == []
    _take(page, name, "dark")
    page.set_viewport_size(_NARROW)  # type: ignore[arg-type]
    _fits(page)


def _findings(page: Page, options: dict[str, Any]) -> list[str]:
    """Returns the findings of axe: each kind, with the first element concerned."""
    found = page.evaluate(
        "async (options) => (await axe.run(options)).violations",
        {**options, "resultTypes": ["violations"]},
    )
    return [f"{each['impact']}: {each['help']}: {each['nodes'][0]['html']}" for each in found]


def _fits(page: Page) -> None:
    """Fails if anything is wider than the window; wide elements scroll by themselves."""
    width = page.evaluate("document.documentElement.scrollWidth")
    boxes = (each.bounding_box() for each in page.locator("main > *").all())
    ends = [box["x"] + box["width"] for box in boxes if box is not None]
    assert max(width, *ends) <= _NARROW["width"]


def _take(page: Page, name: str, scheme: str) -> None:
    if _PICTURES and name in _SHOWN_IN_DOCS:
        page.screenshot(path=Path(_PICTURES, f"serve-{name}-{scheme}.png"))
