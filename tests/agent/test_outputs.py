"""Output files that a task keeps, and the choice of a sweep's best task."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairway_agent import control, metric_logs, outputs, process_limits
from fairway_agent.outputs import collect, draft_of, drop_excluded, empty_outputs, make_storable
from fairway_agent.spec import Best, Output, RunOutputInput, RunPlan
from fairway_boot.files import AgentError

FILES = ("model/a.npz", "model/b.txt", "model/.tmp", "model/deep/c.tmp", "model/deep/d", "log/e")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Returns a folder with the files that a task wrote."""
    folder = tmp_path / "work"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def below(folder: Path) -> set[str]:
    return {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (Output("model/**", "always", exclude=("*.tmp", "model/deep/*")), {"a.npz", "b.txt"}),
        (Output("model/*.npz", "always", ("model/deep/**",), ("d",)), {"a.npz", "deep/c.tmp"}),
        (Output("model/**", "always", ("model/*.npz",)), {e[6:] for e in FILES if e[0] == "m"}),
        (Output("model/**", "always", exclude=("deep/*",)), {e[6:] for e in FILES if e[0] == "m"}),
        (Output("model/**", "always", exclude=("*",)), set()),
        (Output("model/**", "failure", exclude=("*.tmp",)), set()),
    ],
)
def test_outputs_keep_included_and_leave_out_excluded_files(
    written: Path, tmp_path: Path, output: Output, kept: set[str]
) -> None:
    collect(written, tmp_path / "kept", {"model": output}, succeeded=True)
    assert below(tmp_path / "kept") == {f"model/{name}" for name in kept}


@pytest.mark.parametrize(
    ("output", "is_empty"),
    [
        (Output("model/**", "success"), False),
        (Output("model/*.pt", "success"), True),
        (Output("model/*.pt", "always", also=("log/e",)), False),
        (Output("model/**", "always", exclude=("*",)), True),
        (Output("plots/**", "success"), True),
        (Output("void/**", "success"), True),
        (Output("plots/**", "failure"), False),
    ],
)
def test_outputs_without_a_file_after_success_are_listed(
    written: Path, output: Output, is_empty: bool
) -> None:
    (written / "void").mkdir()
    found = empty_outputs(written, {"model": Output("model/**", "success"), "other": output})
    assert found == (("other",) if is_empty else ())


def test_outputs_excluded_files_are_removed_unless_another_output_keeps_them(written: Path) -> None:
    drop_excluded(written, {"model": Output("model/**", "always")})
    assert below(written) == set(FILES)
    model = Output("model/**", "always", exclude=("*.tmp", "model/deep/*"))
    drop_excluded(written, {"model": model, "deep": Output("model/deep/d", "always")})
    assert below(written) == {"model/a.npz", "model/b.txt", "model/deep/d", "log/e"}
    drop_excluded(written / "gone", {"model": model})


@pytest.mark.parametrize("also", [(), ("model/again",)])
def test_outputs_file_matched_by_two_names_is_kept_once(
    written: Path, tmp_path: Path, also: tuple[str, ...]
) -> None:
    """A link to the latest step gives a file a second name, for example."""
    (written / "model/again").symlink_to("deep")
    collect(written, tmp_path, {"model": Output("model/*/d", "always", also)}, succeeded=True)
    assert below(tmp_path / "model") == {"again/d"}


def test_outputs_that_match_the_same_file_each_keep_it(written: Path, tmp_path: Path) -> None:
    (written / "model/again").symlink_to("deep")
    (written / "model/latest").symlink_to("a.npz")
    outputs = {
        "model": Output("model/**", "always", exclude=("*.tmp",)),
        "best": Output("model/*.npz", "success", also=("model/latest", "model/again")),
        "deep": Output("model/again/d", "always"),
        "log": Output("model/**", "failure"),
    }
    for _ in range(2):  # files kept by an earlier attempt are replaced
        collect(written, tmp_path / "kept", outputs, succeeded=True)
        (written / "model/a.npz").touch()
    kept = {f"model/{name}" for name in ("a.npz", "b.txt", "latest", "deep/d")}
    kept |= {"best/model/a.npz", "best/model/latest", "deep/model/again/d"}
    assert below(tmp_path / "kept") == kept
    assert (tmp_path / "kept/model/latest").is_symlink()


@pytest.mark.parametrize("earlier", ["folder", "link", "file"])
@pytest.mark.parametrize("path", ["deep", "deep/d"])
def test_outputs_replace_what_an_earlier_attempt_kept_at_their_place(
    written: Path, tmp_path: Path, path: str, earlier: str
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (place := tmp_path / "kept/model" / path).parent.mkdir(parents=True)
    if earlier == "link":
        place.symlink_to(elsewhere)
    else:
        place.mkdir() if earlier == "folder" else place.touch()
    collect(written, tmp_path / "kept", {"model": Output("model/deep/d", "always")}, succeeded=True)
    assert (tmp_path / "kept/model/deep/d").read_text() == "model/deep/d"
    assert [*elsewhere.iterdir()] == []


def test_outputs_file_excluded_by_one_name_is_kept_by_another(
    written: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").touch()
    (written / "model/data").symlink_to(tmp_path / "data")
    (written / "model/latest").symlink_to("deep")
    (written / "model/deep/link").symlink_to("d")
    left_out = ("model/latest/*", "model/data/*", "link", "*.tmp")
    drop_excluded(written, {"model": Output("model/*/*", "always", exclude=left_out)})
    assert below(written / "model/deep") == {"d"}
    assert (tmp_path / "data/x").exists()


def test_outputs_of_linked_folders_elsewhere_are_copied(written: Path, tmp_path: Path) -> None:
    """A link may lead to checkpoints or a data set, and what is kept be on another disk."""
    (data := tmp_path / "data").mkdir()
    (data / "x").write_text("x")
    (written / "data").symlink_to(data)
    (written / "model/ckpt").symlink_to(data)
    outputs = {"data": Output("data/**", "always"), "model": Output("model/*/[dx]", "always")}
    other = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=other) as folder:
        collect(written, Path(folder), outputs, succeeded=True)
        assert below(Path(folder)) == {"data/x", "model/ckpt/x", "model/deep/d"}
    assert (data / "x").read_text() == "x"
    assert not (written / "model/deep/d").exists()


LOSS = "loss=([0-9.]+)"
LOGS = [
    ("succeeded", "loss=1\nloss=3\n"),
    ("failed", "loss=0\n"),
    ("succeeded", "loss=2\n"),
    ("succeeded", "loss=2.\n"),
    ("succeeded", ""),
    ("cancelled", "loss=0\n"),
    ("succeeded", "loss=1\nloss=nan\n"),
]


def write_task(run: Path, number: int, state: str, log: str) -> None:
    """Writes a task of a run with its state and log."""
    folder = run / "tasks" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"state": state, "attempt": 0}))
    (folder / "log.txt").write_text(log)


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """Returns the folder of a run beside that of a sweep, a-1."""
    sweep = tmp_path / "runs" / "a-1"
    for number, (state, log) in enumerate(LOGS):
        write_task(sweep, number, state, log)
    (sweep / "plan.json").write_text(RunPlan("a-1", "code", tasks=len(LOGS)).text())
    folder = tmp_path / "runs" / "b-1"
    folder.mkdir()
    return folder


def plan(*, lower: bool = True, pattern: str = LOSS) -> RunPlan:
    """Returns the plan of a run with an input of the best task."""
    entry = RunOutputInput("m", "runs/a-1/tasks/*/outputs/m", best=Best("loss", pattern, lower))
    return RunPlan(
        "b-1", "code", run_inputs=(entry, RunOutputInput("n", "runs/a-1/tasks/0/outputs/n"))
    )


@pytest.mark.parametrize(("lower", "found"), [(True, (2, 2.0)), (False, (0, 3.0))])
def test_best_is_decided_by_the_last_value_of_succeeded_tasks(
    waiting: Path, found: tuple[int, float], *, lower: bool
) -> None:
    assert control.read(waiting).best == {}
    assert outputs.decide_best(waiting, plan(lower=lower)) == {"m": found}
    assert control.read(waiting).best == {"m": found}
    path = f"runs/a-1/tasks/{found[0]}/outputs/m"
    assert plan().run_inputs[0].path_for({"m": found}) == path


def test_best_decision_is_kept_when_metrics_change_later(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's last task is not part of the sweep, and values may be far from the end of a log."""
    monkeypatch.setattr(metric_logs, "_TAIL", 100)
    (waiting.parent / "a-1/finally.jsonl").write_text("{}\n")
    write_task(waiting.parent / "a-1", len(LOGS) - 1, "succeeded", "loss=0\n")
    assert outputs.decide_best(waiting, plan()) == {"m": (2, 2.0)}
    write_task(waiting.parent / "a-1", 4, "succeeded", "loss=0.5\n" + "more\n" * 1000)
    assert outputs.decide_best(waiting, plan()) == {"m": (2, 2.0)}
    (waiting / "control.json").unlink()
    assert outputs.decide_best(waiting, plan()) == {"m": (4, 0.5)}


def test_best_of_a_sweep_with_only_diverged_tasks_is_refused(waiting: Path) -> None:
    for number in range(len(LOGS)):
        write_task(waiting.parent / "a-1", number, "succeeded", "loss=1\nloss=inf\n")
    with pytest.raises(
        AgentError, match="a-1 has no best task: the last `loss` of tasks 0, 1, 2, 3, 4"
    ):
        outputs.decide_best(waiting, plan())


def test_best_without_a_metric_or_with_a_wrong_pattern_is_refused(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        AgentError, match="no task of a-1 that succeeded has printed `loss`"
    ) as caught:
        outputs.decide_best(waiting, plan(pattern="los=(.)"))
    assert caught.value.said.endswith("its pattern is: los=(.)")
    assert control.read(waiting).best == {}
    with pytest.raises(
        AgentError, match=r"the pattern of the metric `loss` is none for Python 3\."
    ):
        outputs.decide_best(waiting, plan(pattern="loss=("))
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.1)
    write_task(waiting.parent / "a-1", 0, "succeeded", "a" * 60 + "!\n")
    with pytest.raises(AgentError, match="the pattern of the metric `loss` was stopped"):
        outputs.decide_best(waiting, plan(pattern="((?:a+)+)$"))


def test_output_names_that_storage_refuses_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    for name in (
        "plain",
        "täst/深.txt",
        "a\nb",
        "a%0Ab",
        "bad\udcff/in",
        ".\x1b[31m",
        "%41",
        "b\\c",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, errors="surrogateescape")
    done = make_storable(tmp_path)
    found = {
        path.relative_to(folder).as_posix(): path.read_text(errors="surrogateescape")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == {
        "plain": "plain",
        "täst/深.txt": "täst/深.txt",
        "a%0Ab_": "a\nb",
        "a%0Ab": "a%0Ab",
        "bad%FF/in": "bad\udcff/in",
        ".%1B[31m": ".\x1b[31m",
        "%41": "%41",
        "b%5Cc": "b\\c",
    }
    assert len(done) == 4
    assert all(each.isprintable() for each in done)
    assert make_storable(tmp_path) == []


def test_output_names_that_get_too_long_when_escaped_keep_their_ends(tmp_path: Path) -> None:
    for first in "ab":
        (tmp_path / f"{first}{chr(0xDCC4) * 200}.npz").write_text(first)
    assert len(make_storable(tmp_path)) == 2
    found = {file.name[0]: file.read_text() for file in tmp_path.glob("*%C4.npz")}
    assert found == {"a": "a", "b": "b"}
    (tmp_path / ("x" * 255)).touch()
    assert make_storable(tmp_path) == []


def test_output_drafts_of_long_names_differ_and_can_be_written(tmp_path: Path) -> None:
    names = [f"{'ü' * 126}{end}" for end in "ab"]  # 253 bytes
    for name in names:
        draft_of(tmp_path / name, ".part.blocks").write_text(name)
    assert {each.read_text() for each in tmp_path.glob(".*.part.blocks")} == {*names}


def test_outputs_that_are_pipes_or_broken_links_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    assert len(make_storable(tmp_path)) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link", "folder"}
    assert make_storable(tmp_path / "gone") == []
