"""One damaged file below `.fairway`: every command reports the damage, and no other run suffers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from running import MakeRun, RunFairway

from fairway_agent.spec import RunPlan, TaskSpec
from fairway_core.findings import UserError
from fairway_runner.engines.local import LocalEngine
from fairway_runner.runs.records import read_job

pytestmark = pytest.mark.integration

COMMANDS = [
    *("list", "list --json", "list --state failed", "targets", "show RUN", "show RUN --json"),
    *("logs RUN", "wait RUN", "cancel RUN", "retry RUN", "rerun RUN", "submit --resume RUN"),
    *("fetch RUN --to fetched", "best RUN --min", "report RUN -o page.html", "clean RUN --yes"),
    *("top RUN", "compare RUN sound-333333", "tag RUN x", "note RUN x", "list --tag x"),
    *("list --columns param:x,metric:loss", "cost --runs", "exec RUN -- true", "tunnel RUN 6006"),
    *("logs RUN --grep x", "logs RUN --task 0 --rank 0"),
]
FILES = ["run.json", "state.json", "job.json", "plan.json", "target.json", "provenance.json"]
FILES += ["tasks.jsonl", "finally.jsonl", "lock", "tasks/0/state.json", "tasks/0/log.txt"]
FILES += ["tasks/finally/state.json", "labels.json", "figures/n1.jsonl"]

TEXTS = {
    "empty": "",
    "cut off": '{"id": "broken-222222", "sta',
    "a list": "[]",
    "an empty mapping": "{}",
    "nothing": "null",
    "nested deeply": "[" * 100_000,
    "not UTF-8": b'{"name": "\xff"}',
    "a wrong state": '{"state": 7, "started": "soon", "ended": null, "tasks": []}',
    "wrong sections": '{"options": [], "metrics": 7, "git": true, "inputs": "x", "by": 1}',
}
# Values of wrong types for a key.
VALUES = ["text", None, -1, 1e300, float("nan"), {"a": {}}]
FIGURES = "".join(
    f'{{"time": {at}, "memory": 1.0, "cpu": 0.5, "gpus": []}}\n' for at in (100.0, 110.0)
)
SOME = ["list", "show RUN", "report RUN -o page.html"]


def damages(file: Path) -> list[tuple[str, Callable[[], object]]]:
    """Returns ways to damage a file, by name."""

    def write(text: str | bytes) -> Callable[[], object]:
        data = text if isinstance(text, bytes) else text.encode()
        return lambda: file.write_bytes(data)

    def replace_by_folder() -> None:
        file.unlink()
        file.mkdir()

    found: list[tuple[str, Callable[[], object]]] = [
        ("missing", file.unlink),
        ("a folder", replace_by_folder),
        *((name, write(text)) for name, text in TEXTS.items()),
    ]
    if file.name in ("run.json", "state.json"):
        sound = json.loads(file.read_text())
        for key in sound:
            for value in VALUES:
                text = json.dumps({**sound, key: value})
                found.append((f"{key}={value}", write(text)))
    return found


@pytest.fixture(autouse=True)
def _start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise UserError.of("not-started", "nothing is started here")

    monkeypatch.setattr(LocalEngine, "start", start)


@pytest.mark.parametrize("name", FILES)
def test_damaged_file_of_a_run_breaks_no_command_and_no_other_run(
    tmp_path: Path, make_run: MakeRun, here: RunFairway, name: str
) -> None:
    tasks = [{"params": {"x": x}, "log": f"loss={x}\n", "state": "failed"} for x in (1, 2)]
    facts = {"state": "failed", "metrics": {"loss": "loss=([0-9.]+)"}}
    broken = make_run("broken-222222", tasks, **facts).folder
    (broken / "plan.json").write_text(RunPlan(broken.name, "/code", tasks=3).text())
    record = json.loads((broken / "run.json").read_text())
    (broken / "run.json").write_text(json.dumps({**record, "tasks": 3}))
    (broken / "finally.jsonl").write_text(TaskSpec("finally", script="true").line())
    (broken / "tasks" / "finally").mkdir()
    (broken / "tasks" / "finally" / "state.json").write_text('{"state": "succeeded"}')
    for file in ("target.json", "job.json"):
        (broken / file).write_text(json.dumps({"name": "local"}))
    (broken / "labels.json").write_text('{"tags": ["x"], "note": "a note"}')
    (broken / "figures").mkdir()
    (broken / "figures" / "n1.jsonl").write_text(FIGURES)
    make_run("sound-333333", tasks, **facts)
    kept = tmp_path / "kept"
    shutil.copytree(broken, kept)
    bad = []
    for damage, _ in damages(broken / name):
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(kept, broken)
        dict(damages(broken / name))[damage]()
        is_told = name == "run.json" and damage in TEXTS
        is_told |= (name, damage) == ("state.json", "state=text")
        for words in SOME if "=" in damage else COMMANDS:
            try:
                code, out, err = here(*words.replace("RUN", "broken-222222").split())
            except BaseException as error:  # noqa: BLE001 - any traceback
                bad.append(f"{damage}: {words}: {error!r}")
                continue
            if code not in range(6) or (code == 2 and not err):
                bad.append(f"{damage}: {words}: {code} {err}")
            if words in ("list", "list --json") and (code != 0 or "sound-333333" not in out):
                bad.append(f"{damage}: {words}: {code} {out} {err}")
            if words == "list" and is_told and "[damaged-run]" not in err:
                bad.append(f"{damage}: {words}: {err}")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("run.json", "show RUN,logs RUN,wait RUN,cancel RUN,rerun RUN,list,clean RUN --yes"),
        ("state.json", "show RUN,wait RUN,list,clean RUN --yes"),
        ("tasks/0/state.json", "show RUN"),
        ("plan.json", "rerun RUN"),
    ],
)
def test_run_of_another_release_is_refused_with_a_sentence_and_no_other_run_suffers(
    make_run: MakeRun, here: RunFairway, name: str, commands: str
) -> None:
    newer = make_run("newer-222222", state="failed").folder
    sound = make_run("sound-333333").folder
    (newer / "plan.json").write_text(RunPlan(newer.name, "/code").text())
    (newer / name).write_text(json.dumps({**json.loads((newer / name).read_text()), "version": 7}))
    sentence = f"{newer / name}: of another release: its version is 7, and this release reads 1"
    for words in commands.split(","):
        code, out, err = here(*words.replace("RUN", newer.name).split())
        assert f"{sentence} [other-release]\n  use the release that wrote it, or" in err, words
        assert (code, sound.name in out) == ((0, True) if words == "list" else (2, False)), words
    if "clean" in commands:
        here("clean", "--yes")
        assert (newer.is_dir(), sound.exists()) == (True, False)


def test_damaged_job_file_is_reported_when_the_job_is_read(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"name": "a", "command": "true"}')
    assert read_job(tmp_path).command == "true"
    for name, damage in damages(file):
        damage()
        assert refused(lambda: read_job(tmp_path)).id == "damaged-run", name
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        file.touch()
