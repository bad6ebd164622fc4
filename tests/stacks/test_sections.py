"""Every section of an environment file, and every environment that comes along, synthesized as the
program does it, checks included.

The files in `sections/` set nearly every field that there is: what only works when a test hands
it to a construct, and not when a user writes it, is found here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.constructs.bindings.validator import validate

from fairway_core.environment import load_environment
from fairway_core.environment.model import Environment
from fairway_core.schema import models_in
from fairway_stacks.app import write_stacks

FILES = sorted(Path(__file__).with_name("sections").glob("*.yaml"))
ENVIRONMENTS = sorted(Path(__file__).parents[2].glob("stacks/environments/*.yaml"))


@pytest.mark.parametrize("file", [*ENVIRONMENTS, *FILES], ids=lambda file: file.stem)
def test_every_section_passes_the_checks_and_fits_the_provider(file: Path, tmp_path: Path) -> None:
    warnings = []
    written = write_stacks(file, tmp_path / "out", warn=warnings.append)
    assert len(written) == 3
    for stack in written:
        text = (stack.folder / "cdk.tf.json").read_text()
        assert not list(validate(json.loads(text))), stack.name


def test_the_documentation_lists_each_role_that_is_assigned_with_its_reason(
    tmp_path: Path, repository: Path
) -> None:
    listed = (repository / "docs/deploying.md").read_text().partition("## Roles that")[2]
    rows = [line for line in listed.splitlines() if line.startswith("| ")]
    for file in FILES:
        for stack in write_stacks(file, tmp_path / file.stem, warn=lambda _: None):
            made = json.loads((stack.folder / "cdk.tf.json").read_text()).get("resource", {})
            for each in made.get("azurerm_role_assignment", {}).values():
                reason, role = each["description"], each.get("role_definition_name") or ""
                reason = re.sub(
                    r"(container|blobs into) [\w-]+|^\w+(?= is stopped| stops itself)",
                    _unnamed,
                    reason,
                )
                assert [r for r in rows if r.endswith(f"| {reason} |") and role in r], each


def _unnamed(found: re.Match[str]) -> str:
    return f"{found[1]} NAME" if found[1] else "NAME"


def test_no_section_is_left_out() -> None:
    used = {part for file in FILES for part in _used(load_environment(file))}
    assert set(models_in(Environment)) - used == set()
    assert {f"Environment.{field}" for field in Environment.model_fields} - used == set()


def _used(value: object) -> Iterator[str]:
    """The models of a value and below it, and the fields of each that were set."""
    if isinstance(value, BaseModel):
        yield type(value).__name__
        for field in value.model_fields_set:
            yield f"{type(value).__name__}.{field}"
            yield from _used(getattr(value, field))
    elif isinstance(value, str) and " like " in value:
        yield "DescribedSize"  # which is kept as text
    elif isinstance(value, dict | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _used(item)
