"""Output of commands for one run on each engine, in golden files.

The run is a sweep of two points, of which one fails and both keep an output. `FAIRWAY_GOLDEN=write`
writes the files anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Place

GOLDEN = Path(__file__).parent / "golden"
# Numbers and names that are others each time.
VARYING = ("created", "started", "ended", "seconds", "node", "node_hours")
COMMAND = (
    'echo point {{ params.x }}; echo {{ params.x }} > "$FAIRWAY_OUTPUT_MODEL/x"; '
    "exit $(( {{ params.x }} - 1 ))"
)


def plain(value: Any, run: str, folder: Path, *, varying: bool = False) -> Any:
    """The value, with a word in place of whatever is another in each run."""
    if isinstance(value, dict):
        return {k: plain(v, run, folder, varying=k in VARYING) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(each, run, folder, varying=varying) for each in value]
    if varying and value is not None:
        return type(value).__name__
    return (
        value.replace(str(folder), "FOLDER").replace(run, "RUN")
        if isinstance(value, str)
        else value
    )


@pytest.mark.one_engine("local")
def test_commands_say_of_a_run_what_they_said(fairway: Fairway, place: Place) -> None:
    job = fairway.job(
        COMMAND,
        template="plain",
        params={"x": 0},
        sweep={"points": [{"grid": {"x": [1, 4]}}]},
        outputs={"model": {"when": "always"}},
    )
    done = fairway("submit", job, "--target", place.name, "--watch", "--json")
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
    golden = GOLDEN / f"{place.engine}.json"
    text = json.dumps(plain(found, run, fairway.folder), indent=1, sort_keys=True) + "\n"
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.write_text(text)
    assert json.loads(golden.read_text()) == json.loads(text)
