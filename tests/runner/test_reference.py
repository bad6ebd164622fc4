"""The pages that are made from the code say what the code says."""

import re
from pathlib import Path

import pytest

from fairway_cli.reference import PAGES
from fairway_core.checks import all_checks
from fairway_core.checks.live import LIVE
from fairway_core.environment.model import Environment
from fairway_core.schema import models_in


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(repository: Path, name: str) -> None:
    assert (repository / "docs" / name).read_text() == PAGES[name](), "run bin/docs"


@pytest.mark.parametrize("name", ["environment.md", "job.md"])
def test_a_page_is_markdown_that_swallows_nothing(name: str) -> None:
    """What looks like HTML, and examples, are code."""
    page = re.sub(r"^```.*?^```$", "", PAGES[name](), flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"`[^`\n]*`|<!-- .* -->", "", page)
    assert not re.findall(r"\S*<\S*", outside)
    assert not re.findall(r"^>>>.*|^\w+ {3,}\S.*", outside, flags=re.MULTILINE)


def test_every_check_has_its_entry() -> None:
    page = PAGES["checks.md"]()
    for check in all_checks():
        assert f"\n### {check.id}\n" in page
        assert f"[{check.id}](#{check.id}) | {check.severity}" in page
    for id_, one in LIVE.items():
        assert f"\n| `{id_}` | {one.severity} | " in page


def test_every_field_of_the_environment_has_its_row() -> None:
    page = PAGES["environment.md"]()
    for name, model in models_in(Environment).items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for field, info in model.model_fields.items():
            assert f"\n| `{info.alias or field}` |" in section, f"{name}.{field}"
