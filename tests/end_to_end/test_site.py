"""The documents as a whole: no link leads nowhere, and the site is built of them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_link_leads_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_pictures_are_small_and_each_is_shown_in_light_and_dark() -> None:
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


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    mkdocs = ROOT / ".venv/mkdocs/bin/mkdocs"
    found = str(mkdocs) if mkdocs.exists() else shutil.which("mkdocs")
    if found is None:
        pytest.skip("mkdocs is missing; bin/test installs it into .venv/mkdocs")
    done = subprocess.run(
        [found, "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "true"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site/tutorial/index.html").exists()


def test_the_overview_names_every_page() -> None:
    """The navigation does too: `mkdocs build --strict` warns of a page that is not in it."""
    overview = (ROOT / "docs/index.md").read_text("utf-8")
    for document in (ROOT / "docs").rglob("*.md"):
        name = document.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"]({name})" in overview, name
