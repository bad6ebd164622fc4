"""Messages about mistakes in job files and command lines: the mistake, its place, and a hint."""

import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pages
import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_cli.ui.catalogue import node_table
from fairway_cli.ui.progress import watch_tasks
from fairway_runner.engines.engine import Node
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit import snapshot
from fairway_runner.targets.lookup import find_target


def test_messages_for_wrong_command_lines_match_the_golden_page(
    fairway: RunFairway, make_run_in: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case has file lines `NAME| text`, then the command after `$`."""
    monkeypatch.delenv("FAIRWAY_ENVIRONMENT", raising=False)

    def answer(case: str) -> tuple[int, str]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        store = RunStore(folder / ".fairway")
        make_run_in(store, "done-aaaaaa", [{"log": "nothing"}], metrics={"loss": "loss=([0-9])"})
        make_run_in(store, "left-aaaaaa", [{"state": "cancelled"}], state="cancelled")
        torn = make_run_in(store, "torn-aaaaaa")
        (torn.folder / "job.json").write_text("{")
        *files, command = case.splitlines()
        for line in files:
            name, _, text = line.partition("|")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("a") as file:
                file.write(text.removeprefix(" ") + "\n")
        code, out, errors = fairway(folder, *shlex.split(command.removeprefix("$ ")))
        assert len(list(store.unsorted())) == 3, "nothing was submitted"
        printed = re.sub(r"sha256:\w+", "sha256:DIGEST", out + errors)
        return code, printed.replace(f"{folder}/", "").replace(str(folder), ".")

    pages.hold("commands", answer)


@pytest.mark.parametrize(
    ("denied", "hint"),
    [
        ("deep", 'leave it out: code: {exclude: ["deep"]}'),
        ("deep/key.pem", 'leave it out: code: {exclude: ["deep/key.pem"]}'),
        (".", "see who owns it: ls -ld {folder}"),
    ],
)
def test_code_without_read_permission_is_named_with_an_exclude_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str, hint: str
) -> None:
    file = tmp_path / "deep/key.pem"
    file.parent.mkdir()
    file.touch()
    wanted = tmp_path / denied

    def denying(real: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def call(path: Path) -> Any:
            if path == wanted:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        return call

    monkeypatch.setattr(os, "scandir", denying(os.scandir))
    monkeypatch.setattr(type(tmp_path), "read_bytes", denying(type(tmp_path).read_bytes))
    finding = refused(lambda: snapshot.collect(tmp_path))
    assert finding.message == f"{wanted}: Permission denied"
    assert finding.hint == hint.replace("{folder}", str(tmp_path))
    assert "deep" not in denied or snapshot.collect(tmp_path, ["deep"]).files == []


@pytest.mark.parametrize("command", ["logs", "show", "cancel", "wait", "top"])
def test_command_without_a_run_id_suggests_the_latest_runs(
    here: RunFairway, make_run: MakeRun, command: str
) -> None:
    for number in range(5):
        make_run(f"job-{number}", created=1e9 + number)
    ends(here(command), 2, "[no-run]", "job-4, job-3, job-2\n", printed="")


@pytest.mark.parametrize(("going", "code"), [(1, 0), (2, 2)])
def test_cancel_by_id_prefix_selects_the_only_unfinished_run(
    here: RunFairway, make_run: MakeRun, going: int, code: int
) -> None:
    """With several matches, the message names only the runs that can be cancelled."""
    for number in range(4):
        state = {"state": "queued"} if number < going else {}
        state |= {"engine": "ssh"} if number < going else {}
        make_run(f"mlp-{number}", **state)
    found, out, err = here("cancel", "mlp")
    assert found == code
    assert out == ("mlp-0 cancelled\n" if going == 1 else "")
    assert ("one of: mlp-0, mlp-1\n" in err) == (going == 2)
    assert here("show", "mlp")[0] == 2


EVIL = "\x1b]0;pwn\x07\nforged"


@pytest.mark.parametrize(
    "words", ["list", "show job", "fetch job", "best job --min", "compare job"]
)
def test_control_characters_in_names_of_a_run_are_not_printed(
    here: RunFairway, make_run: MakeRun, words: str
) -> None:
    facts = {"log": "loss=1\n", "params": {EVIL: 1}}
    metrics = {EVIL: "loss=(.*)"}
    run = make_run("job-aaaaaa", [facts], job_file=f"{EVIL}.yaml", metrics=metrics)
    state = run.folder / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "reason": EVIL}))
    (run.folder / "provenance.json").write_text(json.dumps({"passed_over": {"nd": EVIL}}))
    outputs = run.folder / "tasks" / "0" / "outputs" / "model"
    outputs.mkdir(parents=True)
    (outputs / EVIL).write_text("1")
    (outputs / "caf\udce9").write_text("1")  # in Latin-1, as old programs write names
    code, out, err = here(*words.split())
    assert code == 0, err
    assert not {"\x1b", "\x07"} & {*out}
    assert not [line for line in out.splitlines() if line.startswith("forged")]
    assert ("\npassed  nd: " in out) is words.startswith("show")
    out.encode("utf-8")
    watch_tasks(run, watched := io.StringIO())
    assert len(watched.getvalue().splitlines()) == 1
    assert not {"\x1b", "\x07"} & {*watched.getvalue()}


def test_control_characters_and_markup_of_a_node_are_not_interpreted() -> None:
    reason = "[bold] Not responding [root@now]"
    out = node_table([Node("n1", EVIL, reason=reason, facts={"gpus": EVIL})])
    assert "\x1b]" not in out
    assert "\nforged" not in out
    assert "[bold] Not responding [root@now]" in out


def test_messages_for_wrong_job_fields_match_the_golden_page(
    tmp_path: Path, here: RunFairway
) -> None:
    def answer(line: str) -> tuple[int, str]:
        more = "" if line.startswith("command:") else "command: echo\n"
        more += "" if "params:" in line else "params: {lr: 1}\n"
        (tmp_path / "job.yaml").write_text(f"name: x\n{more}{line}\n")
        code, _, errors = here("submit", "job.yaml", "--dry-run")
        return code, errors.replace(f"{tmp_path}/", "").replace(str(tmp_path), ".")

    pages.hold("jobs", answer)


def test_messages_for_faulty_job_files_match_the_golden_page(
    tmp_path: Path, here: RunFairway
) -> None:
    """Each file gives one finding; nothing is started or written."""

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
def test_job_text_keeps_shell_length_syntax_and_refuses_template_comments(
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
def test_target_list_with_an_empty_name_is_refused(
    tmp_path: Path, here: RunFairway, names: str
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\ncommand: echo\n")
    done = here("submit", "job.yaml", "--dry-run", "--target", names)
    ends(done, 2, f"--target: a name is missing in `{names}`")
    code, out, _ = here("submit", "job.yaml", "--dry-run", "-t", "local, local")
    assert (code, "it would start 1 task on local" in out) == (0, True)
