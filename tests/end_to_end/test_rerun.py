"""Reruns with changes: `fairway rerun -s … --target …`."""

import json
import shutil
import sys

import pytest
from program import Fairway
from programs import finished

from fairway_core.findings import UserError
from fairway_runner.engines import local
from fairway_runner.jobs import sweep_values


def _record(fairway: Fairway, run: str, name: str) -> dict[str, object]:
    path = fairway.folder / ".fairway" / "runs" / run / name
    return json.loads(path.read_text())


def test_rerun_applies_its_changes_over_those_of_the_submission(fairway: Fairway) -> None:
    (fairway.folder / "tool.sh").write_text("echo first $*\n")
    params = {"lr": 0.1, "epochs": 3}
    job = fairway.job(
        "bash tool.sh {{ params.lr }} {{ params.epochs }}", template="plain", params=params
    )
    first = fairway.submit(job, "-s", "params.epochs=5", "--tag", "vision")
    (fairway.folder / "tool.sh").write_text("echo second\n")
    job.write_text("name: another\ncommand: 'false'\n")
    again = fairway.ok("rerun", first, "-s", "params.lr=0.5", "--tag", "more", "--note", "higher")
    new = again.split()[0]
    assert again.splitlines()[1] == "  params.lr: 0.1 → 0.5"
    assert fairway.within("wait", new).returncode == 0
    assert fairway.within("logs", new).stdout == "first 0.5 5\n"
    known, made = _record(fairway, first, "provenance.json"), _record(fairway, new, "run.json")
    origin = _record(fairway, new, "provenance.json")
    assert (made["tags"], made["note"]) == (["vision", "more"], "higher")
    assert origin["rerun_of"] == first
    assert origin["set"] == ["params.epochs=5", "params.lr=0.5"]
    assert (origin["code"], origin["git"]) == (known["code"], known["git"])
    # Then rerun the rerun, with --watch.
    last = fairway.within("rerun", new, "-s", "params.epochs=6", "--watch")
    assert last.returncode == 0
    assert "first 0.5 6\n" in last.stdout
    assert "params.epochs: 5 → 6" in last.stderr
    shutil.rmtree(fairway.folder / ".fairway" / "code")
    fairway.refused("rerun", first, says=f"does not have the code of {first}")


def test_rerun_prints_its_changes_before_it_starts(
    fairway: Fairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fairway.submit(fairway.job("true", template="plain"))

    def refuse(*_: object) -> None:
        raise UserError.of("not-started", "it does not start")

    monkeypatch.setattr("fairway_runner.submit.rerun.submit", refuse)
    again = fairway.within("rerun", first, "-s", "command=false", "--watch")
    assert again.returncode == 2
    assert again.stderr.index("  command: true → false") < again.stderr.index("it does not start")


def test_rerun_uses_the_code_snapshot_of_a_subfolder(fairway: Fairway) -> None:
    """Templates and checkpoints are beside the job's file; the code is that of the first run."""
    (fairway.folder / "src").mkdir()
    (fairway.folder / "src" / "tool.sh").write_text("echo first\n")
    (fairway.folder / "mine.sh.j2").write_text(
        "{#\ndescription: Mine.\n#}\necho mine; bash -c {{ command }}\n"
    )
    command = (
        'bash tool.sh; echo >>"$FAIRWAY_CHECKPOINT_DIR/all"; wc -l <"$FAIRWAY_CHECKPOINT_DIR/all"'
    )
    job = fairway.job(
        command, template="mine.sh.j2", code={"path": "src"}, checkpoint={"directory": "kept"}
    )
    first = fairway.submit(job)
    assert fairway.within("wait", first).returncode == 0, fairway.within("logs", first).stdout
    (fairway.folder / "src" / "tool.sh").write_text("echo second\n")
    again = fairway.within("rerun", first, "-s", "retries=1", "--json")
    facts = json.loads(again.stdout)
    assert facts["changes"] == {"retries": [None, 1]}
    assert fairway.within("wait", facts["run_id"]).returncode == 0
    assert fairway.within("logs", facts["run_id"]).stdout == "mine\nfirst\n2\n"


_REFUSED = [
    (["-s", "code.path=elsewhere"], "a rerun has the code of"),
    (["-s", "retrys=1"], "did you mean `retry`"),
    (["-s", "params.n=1"], "params.n"),
    (["--target", "nowhere"], "nowhere"),
    (["--tag", "two words"], "is not a tag"),
    (["-s", "timeout=30"], "`timeout`: `30` has no unit [bad-value]\n    1 | -s timeout=30"),
    (["-s", "checkpoint={grace: 7}"], "`7` has no unit"),
    (["-s", "idle_gpu={below: 5, for: 30}"], "`30` has no unit"),
    (["-s", "timeout=0"], "is not a span of time"),
]


def test_rerun_with_refused_changes_starts_nothing(fairway: Fairway) -> None:
    run = fairway.submit(fairway.job("true", template="plain"))
    for words, says in _REFUSED:
        refused = fairway.within("rerun", run, *words)
        assert says in refused.stderr, refused.stderr
        assert refused.returncode == 2
        assert len(list((fairway.folder / ".fairway" / "runs").glob("[!.]*"))) == 1


def test_rerun_of_a_python_job_requires_units_in_durations(fairway: Fairway) -> None:
    """Python arguments are seconds and its record has units, so a set value needs a unit, too."""
    program = (
        "from fairway_hpc import Job, UserError, rerun, submit\n"
        "job = Job(name='a', template='plain', command='echo {{ params.x }}', params={'x': 1},"
        " timeout=600, checkpoint={'grace': 0.00001})\n"
        "first = submit(job)\n"
        "first.wait()\n"
        "new = rerun(first.id, set=['params.x=2', 'max_duration=1h'], tags=['b'], note='why')\n"
        "new.wait()\n"
        "print(new.log_text().strip(), new.labels)\n"
        "for again in (lambda s: submit(job, set=s), lambda s: rerun(first, set=s)):\n"
        "    try:\n"
        "        again(['timeout=30'])\n"
        "    except UserError as error:\n"
        "        print(error.findings[0].message)"
    )
    done = finished([sys.executable, "-c", program], cwd=fairway.folder)
    ends = ["2 Labels(tags=('b',), note='why')", *["`timeout`: `30` has no unit"] * 2]
    assert done.stdout.splitlines() == ends, done.stderr


def test_rerun_and_retry_check_the_launcher_program_again(
    fairway: Fairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the program is missing by then, nothing starts."""
    run = fairway.submit(fairway.job("false"))
    assert fairway.within("wait", run).returncode == 1
    monkeypatch.setattr(local, "search_path", lambda: "")
    for command in ("rerun", "retry"):
        fairway.refused(command, run, says="`mpirun` is not on this machine's PATH", code=4)
    assert [each["run_id"] for each in _listed(fairway)] == [run]
    assert fairway.show(run)["task_list"][0]["attempts"] == 1


def test_rerun_and_retry_keep_random_values_of_the_sweep(
    fairway: Fairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if another version of Python, which draws other values, retries or reruns the run."""
    drawn = {"points": {"random": {"count": 2, "x": {"uniform": [0, 1]}}}}
    job = fairway.job("echo {{ params.x }}; false", template="plain", sweep=drawn)
    first = fairway.submit(job)
    assert fairway.within("wait", first).returncode == 1
    known = _drawn(fairway, first)
    monkeypatch.setitem(sweep_values._DRAWS, "uniform", lambda *_: 0.5)
    assert fairway.within("retry", first).returncode == 0
    assert fairway.within("wait", first).returncode == 1
    log = fairway.within("logs", first, "--task", "1", "--attempt", "2").stdout
    assert str(known[1]) in log.splitlines()
    for changes in ((), ("-s", "timeout=1h"), ("-s", "sweep.points.random.x.uniform=[0, 2]")):
        again = fairway.within("rerun", first, *changes)
        assert again.returncode == 0, again.stderr
        new = again.stdout.split()[0]
        assert fairway.within("wait", new).returncode == 1
        assert _drawn(fairway, new) == ([0.5, 0.5] if "2]" in str(changes) else known)


def _drawn(fairway: Fairway, run: str) -> list[float]:
    return [task["params"]["x"] for task in fairway.show(run)["task_list"]]


def _listed(fairway: Fairway) -> list[dict[str, object]]:
    return json.loads(fairway.within("list", "--json").stdout)
