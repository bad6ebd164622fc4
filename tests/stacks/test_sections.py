"""Every section of an environment file, synthesized as the program does it, checks included.

The files in `sections/` set every field that there is: what only works when it is handed to a
construct by a test, and not when a user writes it, is found here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from fairway_constructs.bindings.validator import validate
from fairway_core.environment import load_environment
from fairway_core.environment.model import Environment
from fairway_core.schema import models_in
from fairway_stacks.app import main

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted(Path(__file__).with_name("sections").glob("*.yaml"))

# The checks refuse it: none of the images with terms has Slurm in its distribution.
_REFUSED = {("SlurmNodes", "accept_terms")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_section_passes_the_checks_and_fits_the_provider(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAIRWAY_ENVIRONMENT", str(file))
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    assert main() == 0, capsys.readouterr().err
    written = sorted((tmp_path / "out" / "stacks").glob("*/cdk.tf.json"))
    assert len(written) == 3
    for stack in written:
        assert not list(validate(json.loads(stack.read_text()))), stack.parent.name


def test_no_field_is_left_out() -> None:
    every = {
        (name, field)
        for name, model in models_in(Environment).items()
        for field in model.model_fields
    }
    used = {place for file in FILES for place in _used(load_environment(file))}
    assert every - used == _REFUSED


def _used(value: object) -> Iterator[tuple[str, str]]:
    """The fields that were set, in a value and below it: model and field."""
    if isinstance(value, BaseModel):
        for field in value.model_fields_set:
            yield type(value).__name__, field
            yield from _used(getattr(value, field))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _used(item)
