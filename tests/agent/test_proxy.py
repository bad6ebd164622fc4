"""The proxy of a machine, for all that jobs start there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from fairway_agent import main
from fairway_agent.allocators.machine import Host
from fairway_agent.batch import main as batch
from fairway_agent.nodes.shared import SshNodes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task import launch
from fairway_agent.task.task import Task

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("http_proxy", "https_proxy", "no_proxy")
EVERY = (*NAMES, *(name.upper() for name in NAMES))


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a machine with a proxy, and nothing of it in the environment yet."""
    for name in EVERY:
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    file = tmp_path / "proxy"
    file.write_text("".join(f"{name}=http://of-the-machine:80\n" for name in EVERY))
    monkeypatch.setattr(main, "PROXY", file)
    return file


def test_proxy_of_the_machine_is_set_for_started_programs() -> None:
    main.use_proxy()
    assert {os.environ[name] for name in EVERY} == {"http://of-the-machine:80"}


def test_proxy_variables_that_are_set_already_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://of-the-job:80")
    monkeypatch.setenv("NO_PROXY", "")
    main.use_proxy()
    assert os.environ["https_proxy"] == "http://of-the-job:80"
    assert os.environ["NO_PROXY"] == ""
    assert os.environ["HTTPS_PROXY"] == "http://of-the-machine:80"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"PATH=/evil\nhttp_proxy\n =x\nLD_PRELOAD=x\n"]
)
def test_proxy_file_sets_no_other_variables(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    before = dict(os.environ)
    main.use_proxy()
    assert dict(os.environ) == before


def test_a_machine_without_one_changes_nothing(file: Path) -> None:
    file.unlink()
    before = dict(os.environ)
    main.use_proxy()
    assert dict(os.environ) == before


def test_proxy_is_set_by_each_entry_program_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On every engine: what runs by the bundle's name, and what Batch starts."""
    (tmp_path / "said_proxy.py").write_text("import os; print(os.environ['HTTPS_PROXY'])")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["bundle", "said_proxy"])
    main.main()
    assert capsys.readouterr().out == "http://of-the-machine:80\n"
    for name in EVERY:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", ["fairway-agent", "unknown"])
    assert batch.main() == 2
    assert os.environ["no_proxy"] == "http://of-the-machine:80"


def _direct(tmp_path: Path, hosts: list[str], **said: str) -> tuple[str | None, str | None]:
    """What a task on these nodes reaches past the proxy."""
    plan = RunPlan("job-aaaaaa", str(tmp_path), environment=said)
    spec = TaskSpec(0, nodes=max(1, len(hosts)))
    mine, run = [Host(host, host) for host in hosts], tmp_path / "runs" / "r"
    run.mkdir(parents=True, exist_ok=True)
    (run / "job.json").write_text("{}")
    task = Task(plan, spec, run, run / "t", 0, nodes=SshNodes(), hosts=mine)
    found = launch.contract(task)
    return found.get("no_proxy"), found.get("NO_PROXY")


def test_nodes_of_a_task_reach_one_another_past_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By names and by addresses: some programs know no ranges, and a name is in none."""
    assert _direct(tmp_path, ["nd-0", "nd-1"]) == (None, None), "there is no proxy"
    monkeypatch.setenv("no_proxy", "localhost,10.0.0.0/8")
    monkeypatch.setenv("NO_PROXY", "nd-1")
    assert _direct(tmp_path, ["nd-0", "nd-1"]) == ("localhost,10.0.0.0/8,nd-0,nd-1", "nd-1,nd-0")
    assert _direct(tmp_path, ["nd-0"], no_proxy="mine") == ("mine", "nd-1,nd-0")
    assert _direct(tmp_path, []) == ("localhost,10.0.0.0/8", "nd-1"), "all of it is here"
    monkeypatch.setenv("NO_PROXY", "*")
    assert _direct(tmp_path, ["nd-0"])[1] == "*"
