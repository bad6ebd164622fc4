"""The documents together: their links are valid, and the site can be built."""

import os
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from programs import finished

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_site_links_and_paths_in_documents_exist() -> None:
    examples = sorted((ROOT / "examples").rglob("*.md"))
    for document in [
        *DOCUMENTS,
        *examples,
        *map(ROOT.joinpath, ("CONTRIBUTING.md", "SECURITY.md")),
    ]:
        for target in re.findall(r"\]\(([^)\s]+)\)", _without_blocks(document)):
            path, _, heading = target.partition("#")
            found = (document.parent / path) if path else document
            if ":" not in target and not heading.startswith("gh-"):
                assert found.exists(), f"{document.name} links to {target}"
                assert not heading or heading in _headings(found), f"{document.name}: {target}"
    roots = "bin|constructs|docs|examples|job_templates|runner|simulators|stacks|tests|requirements"
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for path in re.findall(rf"`((?:{roots})/[\w./-]+)[` ]", _without_blocks(document)):
            assert (ROOT / path).exists(), f"{document.name} names {path}"


def test_site_text_has_no_placeholders_that_html_would_hide() -> None:
    """Outside of code `<ID>` would be read as a tag and not be shown."""
    for document in DOCUMENTS:
        text = re.sub(r"(`+).*?\1", "", _without_blocks(document), flags=re.S)
        assert re.findall(r"<[A-Za-z][^>]*>", text) == [], document.name


def _headings(document: Path) -> set[str]:
    """Returns the anchors of a document as GitHub and the site generate them."""
    titles = re.findall(r"^#+ (.+)$", _without_blocks(document), re.MULTILINE)
    names = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    return {*names, *(re.sub("-+", "-", name) for name in names)}


def _without_blocks(document: Path) -> str:
    return re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.M | re.S)


def test_site_pictures_are_small_and_all_shown_in_light_and_dark() -> None:
    shown: set[Path] = set()
    for document in DOCUMENTS:
        for target, scheme in re.findall(
            r"!\[[^]]+\]\(([^)#]+)#gh-(light|dark)-mode-only\)", document.read_text("utf-8")
        ):
            assert target.endswith(f"-{scheme}.png"), target
            shown.add((document.parent / target).resolve())
    assert shown == set((ROOT / "docs/images").iterdir())
    assert max(picture.stat().st_size for picture in shown) < 150_000
    assert {Path(str(each).replace("-light", "-dark")) for each in shown} <= shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; `--strict` makes a warning an error."""
    mkdocs = ROOT / ".venv/mkdocs/bin/mkdocs"
    found = str(mkdocs) if mkdocs.exists() else shutil.which("mkdocs")
    if found is None:
        pytest.skip("mkdocs is missing; bin/test installs it into .venv/mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = finished(
        [found, "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "true"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.nightly
def test_site_is_built_without_warnings(site: Path) -> None:
    assert (site / "tutorial/index.html").exists()
    assert "<code>FAIRWAY_INPUT_&lt;ID&gt;</code>" in (site / "job/index.html").read_text("utf-8")


# Code names without a space that are wrapped although they would fit on one line.
_BROKEN = """() => [...document.querySelectorAll(".md-content :not(pre) > code")]
    .filter(code => /^\\S{1,40}$/.test(code.textContent))
    .filter(code => new Set([...code.getClientRects()].map(r => Math.round(r.top))).size > 1)
    .map(code => code.textContent)"""


@pytest.mark.nightly
def test_site_does_not_wrap_short_code_names(site: Path, chromium: Browser) -> None:
    broken = {}
    page = chromium.new_page()
    page.set_default_timeout(300_000)
    for file in site.rglob("index.html"):
        page.goto(file.as_uri(), wait_until="domcontentloaded")
        for width in (1280, 420):
            page.set_viewport_size({"width": width, "height": 900})
            if found := page.evaluate(_BROKEN):
                broken[file.parent.name, width] = found
    page.close()
    assert broken == {}


def test_site_overview_begins_with_an_example_and_lists_all_pages() -> None:
    title, example, *_ = (ROOT / "docs/index.md").read_text("utf-8").split("\n\n")
    assert title.startswith("# ")
    assert example.startswith("```")
    assert _overview() == _navigation()
    pages = {page for section in _navigation().values() for page in section}
    documents = (ROOT / "docs").rglob("*.md")
    assert pages == {each.relative_to(ROOT / "docs").as_posix() for each in documents} - {
        "index.md"
    }


def _overview() -> dict[str, list[str]]:
    """Returns the pages in each section of docs/index.md, by its title."""
    _, *sections = (ROOT / "docs/index.md").read_text("utf-8").split("\n## ")
    return {
        section.partition("\n")[0]: re.findall(r"\]\((.+?\.md)\)", section) for section in sections
    }


def _navigation() -> dict[str, list[str]]:
    """Returns the pages in each section of mkdocs.yml, whose other lines have Python tags."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r'  - "?([^"]+?)"?:', line):
            found[title[1]] = pages = []
        elif (page := line.split()[-1]) != "index.md":
            pages.append(page)
    return found
