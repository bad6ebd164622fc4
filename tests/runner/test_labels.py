"""Tags and notes of runs: `fairway tag`, `fairway note`, and their Python equivalents."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

import fairway_hpc
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.labels import labelled
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import prepare


def test_tag_command_adds_and_removes_tags(here: RunFairway, make_run: MakeRun) -> None:
    run = make_run("job-a", tags=["first"])
    for words, says in (
        ([], "job-a first\n"),
        (["best", "lr=0.1", "first"], "job-a first best lr=0.1\n"),
        (["--remove", "first", "--remove", "best"], "job-a lr=0.1\n"),
        (["--remove", "lr=0.1"], "job-a has no tags\n"),
    ):
        assert here("tag", "job-a", *words) == (0, says, "")
    assert run.tags == ()
    assert json.loads((run.folder / "run.json").read_text())["tags"] == ["first"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["two words"], "`two words` is not a tag"),
        (["a,b"], "`a,b` is not a tag"),
        (["x" * 64], "up to 63 letters"),
        (["--remove", "best"], "there is no tag `best` to remove"),
    ],
)
def test_tag_command_with_an_invalid_tag_changes_nothing(
    here: RunFairway, make_run: MakeRun, words: list[str], says: str
) -> None:
    run = make_run("job-a")
    ends(here("tag", "job-a", "good", *words), 2, says, printed="")
    assert run.tags == ()


def test_note_command_writes_shows_and_removes_a_note(here: RunFairway, make_run: MakeRun) -> None:
    make_run("job-a")
    assert here("note", "job-a") == (0, "job-a has no note\n", "")
    here("note", "job-a", "too high\n\x1b[31ma rate ")
    code, out, _ = here("note", "job-a")
    assert (code, out.splitlines()[0]) == (0, "too high")
    assert "\x1b" not in out
    _, out, _ = here("show", "job-a")
    assert "note    too high\n" in out
    assert "\x1b" not in out
    facts = json.loads(here("note", "job-a", "--json")[1])
    assert facts == {"run_id": "job-a", "tags": [], "note": "too high\n\x1b[31ma rate"}
    assert here("note", "job-a", "") == (0, "job-a has no note\n", "")
    ends(here("note", "job-a", "x" * 10_001), 2, "10,000")


def test_damaged_labels_file_is_reported_and_other_runs_are_listed(
    here: RunFairway, make_run: MakeRun
) -> None:
    run = make_run("job-a")
    make_run("job-b")
    for text in ("{", '{"tags": "a"}', '{"note": 3}'):
        (run.folder / "labels.json").write_text(text)
        ends(here("tag", "job-a"), 2, "labels.json: damaged")
        code, out, err = here("list")
        assert code == 0
        assert "job-b" in out
        assert "labels.json: damaged" in err
    run = make_run("job-c")
    (run.folder / "labels.lock").mkdir()
    refused(lambda: run.label(["best"]), "cannot be written")


def test_tags_and_notes_of_job_file_and_command_line_are_combined(
    tmp_path: Path, store: RunStore
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: job\ntemplate: plain\ncommand: 'true'\nparams: {lr: 3}\n"
        "tags: [vision, 'lr-{{ params.lr }}', vision]\nnote: the first\n"
    )
    record = prepare(load_job(job), Target.local(), store).record
    assert (record.tags, record.note) == (["vision", "lr-3"], "the first")
    more = labelled(record, ["vision", "best"], "another")
    assert (more.tags, more.note) == (["vision", "lr-3", "best"], "another")
    refused(lambda: prepare(load_job(job, ["tags=[a b]"]), Target.local(), store), "is not a tag")


def test_tags_and_notes_are_set_and_filtered_from_python(
    make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("job-a", created=1e9)
    run = make_run("job-b", created=1.5e9)
    monkeypatch.chdir(store.base.parent)
    run.label(["best", "old"], note="lr too high")
    run.label(remove=["old"])
    assert (run.tags, run.note) == (("best",), "lr too high")
    moments = ("2010-01-01", date(2010, 1, 1), datetime(2010, 1, 1, tzinfo=UTC))
    for wanted in ({"tags": ["best"]}, {"text": "LR TOO"}, *({"since": each} for each in moments)):
        assert [each.id for each in fairway_hpc.runs(**wanted)] == ["job-b"], wanted  # type: ignore[arg-type]
    assert [each.id for each in fairway_hpc.runs(states=["failed"])] == []
