"""What comes from elsewhere reaches the terminal as text, and moves nothing there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from fairway_cli.ui.catalogue import node_table
from fairway_runner.engines.engine import Node

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run

EVIL = "\x1b]0;pwn\x07\nforged"

RunFairway = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("words", [["list"], ["show", "job"], ["fetch", "job"]])
def test_names_of_a_run_are_text(
    here: RunFairway, make_run: Callable[..., Run], words: list[str]
) -> None:
    run = make_run("job-aaaaaa", job_file=f"{EVIL}.yaml")
    state = run.folder / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "reason": EVIL}))
    outputs = run.folder / "tasks" / "0" / "outputs" / "model"
    outputs.mkdir(parents=True)
    (outputs / EVIL).write_text("1")
    (outputs / "caf\udce9").write_text("1")  # in Latin-1, as old programs write it
    code, out, err = here(*words)
    assert code == 0, err
    assert "\x1b" not in out
    assert "\x07" not in out
    assert not [line for line in out.splitlines() if line.startswith("forged")]
    out.encode("utf-8")


def test_the_words_of_a_node_are_text() -> None:
    reason = "[bold] Not responding [root@now]"
    out = node_table([Node("n1", EVIL, reason=reason, facts={"gpus": EVIL})])
    assert "\x1b]" not in out
    assert "\nforged" not in out
    assert "[bold] Not responding [root@now]" in out


def test_a_target_that_is_no_word_is_damage_and_told_as_text(
    here: RunFairway, make_run: Callable[..., Run]
) -> None:
    make_run("job-aaaaaa", target=EVIL)
    code, _, err = here("show", "job")
    assert code != 0
    assert "damaged" in err
    assert "\x1b" not in err
    assert "\x07" not in err
