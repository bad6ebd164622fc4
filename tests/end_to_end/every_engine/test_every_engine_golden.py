"""Output of commands for a sweep, of which one point fails, in one golden file for all engines."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Place

GOLDEN = Path(__file__).parent / "golden" / "run.json"
# Fields whose values differ each time.
VARYING = ("created", "started", "ended", "seconds", "node", "node_hours")
COMMAND = (
    'echo point {{ params.x }}; echo {{ params.x }} > "$FAIRWAY_OUTPUT_MODEL/x"; '
    "exit $(( {{ params.x }} - 1 ))"
)


def plain(value: Any, words: dict[str, str], name: str = "") -> Any:
    """Returns the value of that name with fixed words for everything that differs between runs."""
    if isinstance(value, dict):
        return {k: plain(v, words, k) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(each, words, name) for each in value]
    if name in VARYING and value is not None:
        return type(value).__name__
    for text, word in words.items() if isinstance(value, str) else ():
        value = value.replace(text, word)
    return value


@pytest.mark.one_engine("local", "ssh")
def test_commands_print_the_golden_output_for_a_run(fairway: Fairway, place: Place) -> None:
    fields = {"params": {"x": 0}, "outputs": {"model": {"when": "always"}}}
    sweep = {"points": [{"grid": {"x": [1, 4]}}]}
    job = fairway.job(COMMAND, template="plain", sweep=sweep, **fields)
    done = fairway.within("submit", job, "--target", place.name, "--watch", "--json")
    assert done.stdout, done.stderr
    run: str = json.loads(done.stdout.splitlines()[-1])["run_id"]

    def said(*words: str) -> str:
        shown = fairway.within(*words, "--json")
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    kept = fairway.folder / "kept"
    found = {
        "submit": [done.returncode, json.loads(done.stdout.splitlines()[-1])],
        "show": fairway.show(run),
        "list": json.loads(said("list")),
        "logs": [json.loads(line) for line in said("logs", run).splitlines()],
        "fetch": json.loads(said("fetch", run, "--to", str(kept))),
        "files": {
            str(each.relative_to(kept)): each.read_text()
            for each in sorted(kept.rglob("*"))
            if each.is_file()
        },
    }
    words = {str(fairway.folder): "FOLDER", run: "RUN", place.name: "TARGET"}
    found = plain(found, words)
    # Tasks on this machine name no node, and Batch does not report why an attempt ended.
    for task in found["show"]["task_list"]:
        assert task["node"] == (None if place.engine == "local" else "str")
        task["node"] = "str"
    if place.engine == "batch":
        assert found["show"]["task_list"][1]["failures_by_cause"] == {}
        found["show"]["task_list"][1]["failures_by_cause"] = {"error": 1}
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert json.loads(GOLDEN.read_text()) == found
