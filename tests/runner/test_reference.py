"""Generated pages of the documentation match the code."""

import re
from pathlib import Path

import jsonschema
import pytest

from fairway_cli.reference import PARTS, renewed
from fairway_core.environment.model import Environment
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.steps import job_schema

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_reference_pages_are_up_to_date() -> None:
    pages = {file: file.read_text(encoding="utf-8") for file in DOCS.glob("*.md")}
    assert pages == {file: renewed(text) for file, text in pages.items()}, "run bin/docs"
    made = [
        name for text in pages.values() for name in re.findall(r"made by bin/docs: (.*) -->", text)
    ]
    assert sorted(made) == sorted(PARTS)


@pytest.mark.parametrize("name", ["environment.md", "job.md"])
def test_reference_page_has_html_like_text_and_examples_only_in_code(name: str) -> None:
    """Markdown swallows HTML-like text and examples that are not code."""
    page = re.sub(r"^```.*?^```$", "", read(name), flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"`[^`\n]*`|<!-- .* -->", "", page)
    assert not re.findall(r"\S*<\S*", outside)
    assert not re.findall(r"^>>>.*|^\w+ {3,}\S.*", outside, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["environment.md", "job.md"])
def test_reference_page_begins_with_a_valid_example(name: str) -> None:
    page = read(name)
    example = re.search(r"^```yaml.*?\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert example.start() < page.index("\n## ")
    data = parse_yaml(example[1], name).data
    if name == "environment.md":
        assert Environment.model_validate(data).clusters
        return
    jsonschema.validate(data, job_schema())
    # The example's `processes_per_node` depends on the target.
    assert Job.model_validate({**data, "processes_per_node": 8}).world_size == 16
