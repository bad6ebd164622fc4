"""The program where files, names and the environment are odd: its exit codes, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

PROGRAM = [sys.executable, "-P", "-m", "fairway_cli.entry"]
ODD = [
    ("[" * 60_000, 2, "cannot be read [damaged-targets]"),
    (json.dumps([{"version": 1, "name": "a\ud800", "engine": "ssh"}]), 2, "[damaged-targets]"),
    ("NaN", 2, "[damaged-targets]"),
    ("", 2, "[damaged-targets]"),
]


def run(folder: Path, *words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [*PROGRAM, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("text", "code", "said"), ODD, ids=["deep", "surrogate", "nan", "empty"])
def test_a_damaged_list_of_targets_is_one_message(
    tmp_path: Path, text: str, code: int, said: str
) -> None:
    (tmp_path / ".fairway").mkdir()
    (tmp_path / ".fairway" / "targets.json").write_text(text)
    found = run(tmp_path, "targets")
    assert found[0] == code
    assert said in found[2]
    assert "Traceback" not in found[2]


@pytest.mark.parametrize("home", [None, "/dev/null", "/nowhere"])
def test_a_home_that_is_none_is_not_needed(tmp_path: Path, home: str | None) -> None:
    env = {name: value for name, value in os.environ.items() if name != "HOME"}
    env |= {"HOME": home} if home else {}
    for words in (["list"], ["targets"]):
        code, _, err = run(tmp_path, *words, env=env)
        assert (code, "Traceback" in err) == (0, False)
