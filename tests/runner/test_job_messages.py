"""Messages about mistakes in job files and command lines: what, where, and what to type."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pages
import pytest
from endings import ends, refused
from typer.testing import CliRunner

from fairway_cli.main import app
from fairway_core.findings import UserError
from fairway_runner.jobs.job_file import load_job
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunFairway


def test_messages_of_mistakes_in_job_files(tmp_path: Path, here: RunFairway) -> None:
    def answer(line: str) -> tuple[int, str]:
        more = "" if line.startswith("command:") else "command: echo\n"
        more += "" if "params:" in line else "params: {lr: 1}\n"
        (tmp_path / "job.yaml").write_text(f"name: x\n{more}{line}\n")
        code, _, errors = here("submit", "job.yaml", "--dry-run")
        return code, errors.replace(f"{tmp_path}/", "").replace(str(tmp_path), ".")

    pages.hold("jobs", answer)


def test_messages_of_faulty_job_files(tmp_path: Path, here: RunFairway) -> None:
    """One finding a file, and nothing is started or written."""

    def answer(text: str) -> tuple[int, str]:
        (tmp_path / "job.yaml").write_text(f"{text}\n")
        code, out, errors = here("submit", "job.yaml")
        assert out == ""
        assert len(re.findall(r"error: .* \[[a-z0-9-]+\]$", errors, re.MULTILINE)) == 1, errors
        assert all(each.isprintable() or each in "\n\t" for each in errors)
        assert not (tmp_path / ".fairway").exists()
        return code, errors.replace(f"{tmp_path}/", "").replace(str(tmp_path), ".")

    pages.hold("job-files", answer)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("command: {}", "command"),
        ("command: echo\nsetup: {}", "setup"),
        ("command: echo\nsetup: {{command: echo, release: {}}}", "setup.release"),
        ("command: echo\nfinally: {{command: {}}}", "finally.command"),
        ("command: echo\nenv: {{A: {}}}", "env.A"),
    ],
)
def test_a_length_in_a_text_of_a_job_is_kept_and_a_comment_refused(
    tmp_path: Path, field: str, path: str
) -> None:
    file, length = tmp_path / "job.yaml", "s=a#; echo ${#s} ${s%#}"
    file.write_text(f"name: x\n{field.format(json.dumps(length))}\n")
    assert length in repr(load_job(file).resolve(find_target("local")))
    file.write_text(f"name: x\n{field.format(json.dumps('echo {# a #}'))}\n")
    found = refused(lambda: load_job(file).resolve(find_target("local")))
    assert (found.id, found.path) == ("bad-template", path)
    assert found.location.line == file.read_text().count("\n")


@pytest.mark.parametrize("names", ["", "local,", ",local", "local,,local"])
def test_a_name_that_is_missing_among_targets(tmp_path: Path, here: RunFairway, names: str) -> None:
    (tmp_path / "job.yaml").write_text("name: x\ncommand: echo\n")
    done = here("submit", "job.yaml", "--dry-run", "--target", names)
    ends(done, 2, f"--target: a name is missing in `{names}`")
    code, out, _ = here("submit", "job.yaml", "--dry-run", "-t", "local, local")
    assert (code, "it would start 1 task on local" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["submit", "job.yaml", "--nodes", "3"], "-s nodes=VALUE"),
        (["render", "job.yaml", "--processes-per-node=3"], "-s processes_per_node=VALUE"),
        (["run", "job.yaml"], "type: fairway submit JOB"),
        (["ps"], "type: fairway list"),
        (["stop", "x"], "type: fairway cancel RUN"),
    ],
)
def test_command_name_of_another_tool_hints_at_the_right_command(
    words: list[str], hint: str
) -> None:
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UserError)
    assert done.exception.exit_code == 2
    (found,) = done.exception.findings
    assert hint in found.hint
