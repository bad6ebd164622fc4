"""What commands say of mistakes in files, folders and command lines: what, where, what to type."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError
from fairway_runner.jobs.sweep import axes
from fairway_runner.jobs.sweep import files as sweep_files
from fairway_runner.submit import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import RunStore


@dataclass(frozen=True)
class Mistake:
    """The words after `fairway`, beside files with these texts; and what is said of them."""

    words: str
    said: str
    type_this: str
    files: dict[str, str] = field(default_factory=dict)
    code: int = 2


JOB = "name: x\ncommand: echo\n"
SWEPT = "params: {x: 0}\nsweep: {points: {grid: {x: %s}}}\n"
LAB = "name: lab\nlocation: westeurope\nclusters: {gpu: {engine: ssh, nodes: 1, size: S}}\n"
POOL = {
    "name": "spot",
    "engine": "batch",
    "nodes": {"min": 0, "max": 4},
    "storage": {"account_url": "https://x.blob.core.windows.net", "containers": []},
    "batch": {"endpoint": "https://b", "pool": "spot", "identity": "/i"},
}
HOST = {"name": "box", "engine": "ssh", "nodes": {"min": 1, "max": 1}}
HERE = {**HOST, "ssh": {"host": "localhost", "user": "", "shared": "fairway"}}


def project(*targets: object) -> dict[str, str]:
    return {"fairway.yaml": json.dumps({"targets": targets})}


def plan(**facts: object) -> str:
    return json.dumps({"format_version": "1.2", "resource_changes": [], **facts})


MOVED = {
    "address": "azurerm_subnet.x",
    "type": "azurerm_subnet",
    "change": {"actions": ["move"], "before": {}, "after": {}},
}

MISTAKES = [
    # One kind of file for another, and which file is meant.
    Mistake(
        "check job.yaml",
        "job.yaml:2:1: error: this is a job file: it has `command:`",
        "fairway submit job.yaml --dry-run",
        {"job.yaml": JOB},
    ),
    Mistake(
        "submit train.py",
        "[not-a-job]",
        "  command: python train.py\n",
        {"train.py": '"""Trains: a model."""\n'},
    ),
    Mistake(
        "render run.sh",
        "[not-a-job]",
        "  command: bash run.sh\n  its #SBATCH lines",
        {"run.sh": "#SBATCH --nodes=2\nsrun python train.py\n"},
    ),
    Mistake(
        "submit train",
        "[not-a-job]",
        "  command: python train\n",
        {"train": "#!/usr/bin/env python3\n"},
    ),
    Mistake(
        "check",
        "the project has 2 environments, and none is chosen",
        "name one of: a, b\n  or say which: `environment: a` in fairway.yaml, or FAIRWAY_ENV",
        {"cdktf.json": "{}", "environments/a.yaml": LAB, "environments/b.yaml": LAB},
    ),
    Mistake("review", "no environment is chosen", "fairway init"),
    Mistake(
        "review demo plan.json",
        "`demo` is an environment, and not a plan",
        "review it alone: fairway review demo",
    ),
    Mistake(
        "diagram demo -o picture.png",
        "picture.png: a diagram is Markdown or SVG",
        "use a name that ends in .md or .svg",
    ),
    Mistake(
        "report done-aaaaaa -o .",
        ". is a directory",
        "name a file in it, for example result",
    ),
    Mistake(
        "targets sync --from stacks.d",
        "stacks.d holds no synthesized stack with clusters",
        "synthesize it first: fairway synth",
        {"stacks.d/stacks/lab-network/cdk.tf.json": "{}"},
    ),
    # A project's own file.
    Mistake(
        "targets",
        "no host is named",
        "write its name or address",
        project({**HOST, "ssh": {"host": "", "user": "me", "shared": "/data"}}),
    ),
    Mistake(
        "targets",
        "this holds a space",
        "remove it",
        project({**HOST, "ssh": {"host": "box 1", "user": "me", "shared": "/data"}}),
    ),
    Mistake(
        "submit job.yaml --dry-run",
        "this is not the address of a receiver",
        "write an address that begins with https://, or secret:NAME",
        {"job.yaml": JOB + "notify: {webhook: 'ftp://example.com/x'}\n"},
    ),
    # Command lines.
    Mistake("cost demo --by team", "--by, --since and --csv apply to runs only", "add --runs"),
    Mistake(
        "schedule create job.yaml --target spot",
        "no time is given",
        "--every 6h, or --cron '30 2 * * *'",
        {**project(POOL), "job.yaml": JOB},
    ),
    Mistake(
        "ssh box nd-0 nvidia-smi",
        "a shell opens on one node, not on 2",
        "fairway ssh box nd-0 -- nvidia-smi",
        project(HERE),
    ),
    Mistake(
        "submit job.yaml --target local",
        "this starts 1,001 tasks",
        "add --yes to start them",
        {"job.yaml": JOB + SWEPT % "{start: 0, stop: 1001, step: 1}"},
    ),
    # Sweeps and templates.
    Mistake(
        "submit job.yaml --dry-run",
        "the list has more than 3 values",
        "split the sweep",
        {"job.yaml": JOB + SWEPT % "[1, 2, 3, 4]"},
    ),
    Mistake(
        "submit job.yaml --dry-run",
        "`d/*` matches more than 3 files",
        "use a narrower pattern",
        {
            "job.yaml": JOB + "sweep: {points: {files: d/*}}\n",
            **{f"d/{number}": "" for number in range(4)},
        },
    ),
    Mistake(
        "submit job.yaml --dry-run",
        "`my_points` has no function `pionts`",
        "did you mean `points`?",
        {
            "job.yaml": JOB + "sweep: {points: {python: 'my_points:pionts'}}\n",
            "my_points.py": "def points(): return [{'x': 1}]\n",
        },
    ),
    Mistake(
        "submit job.yaml --dry-run",
        "this template is too complex: ",
        "split it into shorter expressions",
        {"job.yaml": JOB + "setup: echo {{ " + "(" * 400 + "1" + ")" * 400 + " }}\n"},
    ),
    # What a job takes along.
    Mistake(
        "submit job.yaml --target local",
        ": this is too large for code (2 files or 256 MiB at most); the largest: data",
        'code: {path: src, exclude: ["data"]}',
        {"job.yaml": JOB, "data/a": "1" * 99, "data/b": "1" * 99},
    ),
    Mistake(
        "submit job.yaml --target spot",
        "`secrets.TOKEN`: the target `spot` has no vault",
        "give the environment a `vault:` section, and deploy it",
        {**project(POOL), "job.yaml": JOB + "secrets: {TOKEN: 'keyvault:token'}\n"},
    ),
    Mistake(
        "note done-aaaaaa " + "x" * 10_001,
        "a note of 10,001 characters is too long",
        "10,000 at most",
    ),
    # Plans.
    Mistake(
        "review lab-network=plan.json",
        "lab-network: `azurerm_subnet.x` has the actions ['move']",
        "its Terraform is newer than Fairway supports: plan with an older one",
        {"plan.json": plan(resource_changes=[MOVED])},
    ),
    Mistake(
        "review lab-network=plan.json",
        "the plan of lab-network is incomplete",
        "plan again without `-target`, or once more after this one is applied",
        {"plan.json": plan(complete=False)},
        code=0,
    ),
    # Runs.
    Mistake(
        "retry left-aaaaaa --failed",
        "no task of left-aaaaaa failed",
        "leave out --failed for those that were cancelled or lost",
    ),
    Mistake(
        "rerun torn-aaaaaa",
        "torn-aaaaaa/job.json: missing or damaged",
        "submit the job again from its file",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[each.said for each in MISTAKES])
def test_it_is_said_with_what_to_type(
    mistake: Mistake,
    fairway: RunFairway,
    make_run: MakeRun,
    store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (axes, sweep_files):
        if "more than 3" in mistake.said:
            monkeypatch.setattr(module, "MOST_POINTS", 3)
    if "too large for code" in mistake.said:
        monkeypatch.setattr(snapshot, "MOST_FILES", 2)
    monkeypatch.delenv("FAIRWAY_ENVIRONMENT", raising=False)
    make_run("done-aaaaaa")
    make_run("left-aaaaaa", [{"state": "cancelled"}], state="cancelled")
    (make_run("torn-aaaaaa").folder / "job.json").write_text("{")
    for name, text in mistake.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    code, out, err = fairway(tmp_path, *mistake.words.split(" "))
    assert code == mistake.code, out + err
    assert mistake.said in out + err
    assert mistake.type_this in out + err
    assert "Traceback" not in err
    assert sorted(run.id for run in store.unsorted()) == [
        "done-aaaaaa",
        "left-aaaaaa",
        "torn-aaaaaa",
    ]


@pytest.mark.parametrize(
    ("denied", "hint"),
    [
        ("deep", 'leave it out: code: {exclude: ["deep"]}'),
        ("deep/key.pem", 'leave it out: code: {exclude: ["deep/key.pem"]}'),
        (".", "see who owns it: ls -ld {folder}"),
    ],
)
def test_code_that_may_not_be_read_is_named_with_what_leaves_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str, hint: str
) -> None:
    file = tmp_path / "deep/key.pem"
    file.parent.mkdir()
    file.touch()
    wanted, real, bytes_of = tmp_path / denied, os.scandir, type(tmp_path).read_bytes

    def refused(path: Path) -> None:
        if path == wanted:
            raise PermissionError(13, "Permission denied", str(path))

    def scandir(path: Path) -> Any:
        refused(path)
        return real(path)

    def read_bytes(path: Path) -> bytes:
        refused(path)
        return bytes_of(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(type(tmp_path), "read_bytes", read_bytes)
    with pytest.raises(UserError) as caught:
        snapshot.collect(tmp_path)
    (finding,) = caught.value.findings
    assert finding.message == f"{wanted}: Permission denied"
    assert finding.hint == hint.replace("{folder}", str(tmp_path))
    assert "deep" not in denied or snapshot.collect(tmp_path, ["deep"]).files == []


@pytest.mark.parametrize("command", ["logs", "show", "cancel", "wait"])
def test_command_without_its_run_names_the_last_ones(
    fairway: RunFairway, make_run: MakeRun, store: RunStore, command: str
) -> None:
    for number in range(5):
        make_run(f"job-{number}", created=1e9 + number)
    code, out, err = fairway(store.base.parent, command)
    assert (code, out) == (2, "")
    assert "[no-run]" in err
    assert "job-4, job-3, job-2\n" in err


@pytest.mark.parametrize(("going", "code"), [(1, 0), (2, 2)])
def test_cancel_by_the_beginning_of_an_id_means_the_run_that_goes_on(
    fairway: RunFairway, make_run: MakeRun, store: RunStore, going: int, code: int
) -> None:
    """Of several, those are named that it can act on."""
    for number in range(4):
        state = {"state": "queued"} if number < going else {}
        state |= {"engine": "ssh"} if number < going else {}
        make_run(f"mlp-{number}", **state)
    found, out, err = fairway(store.base.parent, "cancel", "mlp")
    assert found == code
    assert out == ("mlp-0 cancelled\n" if going == 1 else "")
    assert ("one of: mlp-0, mlp-1\n" in err) == (going == 2)
    assert fairway(store.base.parent, "show", "mlp")[0] == 2
