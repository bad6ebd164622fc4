"""Which files of a task are kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fairway_agent.outputs import collect, drop_excluded, empty
from fairway_agent.spec import Output, TaskSpec

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("model/a.npz", "model/b.txt", "model/.tmp", "model/deep/c.tmp", "model/deep/d", "log/e")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What a task wrote."""
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
    found = empty(written, {"model": Output("model/**", "success"), "other": output})
    assert found == (("other",) if is_empty else ())


def test_outputs_excluded_files_are_removed_unless_another_output_keeps_them(written: Path) -> None:
    drop_excluded(written, {"model": Output("model/**", "always")})
    assert below(written) == set(FILES)
    model = Output("model/**", "always", exclude=("*.tmp", "model/deep/*"))
    drop_excluded(written, {"model": model, "deep": Output("model/deep/d", "always")})
    assert below(written) == {"model/a.npz", "model/b.txt", "model/deep/d", "log/e"}
    drop_excluded(written / "gone", {"model": model})


def test_outputs_file_matched_by_two_names_is_kept_once(written: Path, tmp_path: Path) -> None:
    """As where a link says which step is the latest one."""
    (written / "model/again").symlink_to("deep")
    collect(written, tmp_path, {"model": Output("model/*/d", "always")}, succeeded=True)
    assert below(tmp_path / "model") == {"again/d"}


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


def test_what_it_keeps_is_in_the_line_of_a_task() -> None:
    for output in (
        Output("a/**", "always"),
        Output("a/*", "always", ("b",), ("*.tmp",)),
        Output("a/**", "success", required=True),
    ):
        spec = TaskSpec(0, outputs={"a": output})
        assert TaskSpec.from_json(json.loads(spec.line())) == spec
