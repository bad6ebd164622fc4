"""Options that all commands of a kind share; they are parsed as Typer parses them."""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
import typer
from typer.testing import CliRunner

from fairway_cli.commands.arguments import complete_settings
from fairway_cli.main import Commands, app, take_plainly
from fairway_core.findings import UserError
from fairway_runner.engines import outage
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.runs.store import Run, RunStore

# These only act; print a script, a log, a page or a drawing; or prompt on a terminal.
TELL_NO_FACTS = {
    *("deploy", "destroy", "dev connect", "diagram", "exec", "init", "lock", "schema", "serve"),
    *("bindings", "comment", "ssh", "ssh-config", "targets prepare", "tunnel"),
}

# Matches the source of a function that calls a service.
ASKS = re.compile(
    r"run_store\(|engine_of|engine_for|find_target\(|signed_in_to|Storage\("
    r"|fairway_runner\.live"
)

# These use runs and targets, and call no service.
ASK_NOTHING = {"render", "tag", "note", "ssh-config", "targets sync"}


def _commands() -> Iterator[tuple[str, Any]]:
    """Yields each command with its name, including commands of groups."""
    for name in Commands.names():
        command = Commands.imported(name)
        below = getattr(command, "commands", {})
        for each, found in below.items():
            yield f"{name} {each}", found
        if not below or command.invoke_without_command:
            yield name, command


FOUND = dict(_commands())
COMMANDS = {
    name: {option for parameter in command.params for option in parameter.opts}
    for name, command in FOUND.items()
}


def _asks(function: Any) -> bool:
    """Returns True if a function, or one of its module that it calls, calls a service."""
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    own = [each for each in named if getattr(each, "__module__", "") == function.__module__]
    texts = map(inspect.getsource, [function, *filter(inspect.isfunction, own)])
    return any(map(ASKS.search, texts))


ASKING = sorted(
    name
    for name, command in FOUND.items()
    if name not in ASK_NOTHING and _asks(inspect.unwrap(command.callback))
)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_json_option_exists_for_every_command_that_prints_facts(name: str) -> None:
    assert ("--json" in COMMANDS[name]) == (name not in TELL_NO_FACTS)


@pytest.mark.parametrize("name", ASKING)
def test_deadline_option_exists_for_every_command_that_calls_a_service(name: str) -> None:
    assert "--deadline" in COMMANDS[name]


def test_deadline_option_check_detects_commands_that_call_a_service() -> None:
    assert {"submit", "nodes list", "data put", "schedule create"} <= set(ASKING)


def _pool(folder: Path) -> None:
    (folder / "fairway.yaml").write_text(
        "targets:\n"
        "- {version: 1, name: spot, environment: lab, engine: batch, vm_size: Standard_D2s_v5,\n"
        "   nodes: {min: 0, max: 8}, storage: {account_url: 'https://lab.invalid'},\n"
        "   batch: {endpoint: 'https://lab.invalid', pool: spot, identity: none}}\n"
    )


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Deadline of each call in seconds, recorded in place of calling the service."""
    found: list[float] = []

    def resize(engine: BatchEngine, nodes: int) -> None:
        found.append(engine.deadline)
        assert engine.account.calls.deadline == engine.deadline

    monkeypatch.setattr(BatchEngine, "resize", resize)
    return found


def test_deadline_option_applies_to_a_single_command(
    here: Callable[..., tuple[int, str, str]], deadlines: list[float], tmp_path: Path
) -> None:
    code, _, err = here("pool", "resize", "local", "3", "--deadline", "soon")
    assert (code, deadlines) == (2, [])
    assert "--deadline" in err
    _pool(tmp_path)
    resize = ("pool", "resize", "spot", "3")
    assert here(*resize, "--deadline", "2m")[0] == 0
    code, out, _ = here(*resize, "--json")
    assert (code, json.loads(out)) == (0, {"target": "spot", "requested_nodes": 3})
    assert deadlines == [120, 600]
    assert (outage.Choice.seconds, outage.Choice.offered) == (None, False)


def test_json_option_of_cancel_and_retry_prints_run_and_state(
    here: Callable[..., tuple[int, str, str]],
    make_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("job-a", [{"state": "failed"}], "failed")
    code, out, _ = here("cancel", "job-a", "--json")
    assert (code, json.loads(out)) == (0, [{"run_id": "job-a", "state": "failed"}])
    make_run("job-b", [{"state": "failed"}], "failed")
    stuck = UserError.of("not-ended", "job-a was told to end", exit_code=5)
    monkeypatch.setattr(Run, "cancel", Mock(side_effect=[stuck, None]))
    code, out, err = here("cancel", "job-a", "job-b", "--json")
    assert (code, json.loads(out)) == (5, [{"run_id": "job-b", "state": "failed"}])
    assert "job-a was told to end" in err
    assert here("cancel", "job-a", "nosuch", "--json")[:2] == (2, "")
    monkeypatch.setattr("fairway_runner.submit.rerun.retry", lambda _run, **_options: [0])
    code, out, _ = here("retry", "job-a", "--json")
    assert (code, json.loads(out)) == (0, {"run_id": "job-a", "tasks": 1})


def test_completion_of_settings_uses_the_job_model_and_the_job_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ncommand: echo\nparams: {rate: 1, model: {depth: 2}}\n")
    named = SimpleNamespace(params={"job": str(file)})
    assert complete_settings(named, "params.") == ["params.model.depth=", "params.rate="]
    assert complete_settings(named, "checkpoint.d") == ["checkpoint.directory="]
    assert "processes_per_node=" in complete_settings(SimpleNamespace(params={}), "p")
    assert "finally=" in complete_settings(SimpleNamespace(params={}), "f")
    file = tmp_path / "job.yaml"
    file.write_text("[broken")
    assert complete_settings(SimpleNamespace(params={"job": str(file)}), "") == []
    assert complete_settings(object(), "") == []


TYPED = [
    ("submit job.yaml -s params.", "params.rate="),
    ("rerun train-a -s params.", "params.rate="),
    ("dev start spot -s nod", "nodes="),
    ("templates open", "openmpi"),
    *((f"{name} la", "lab") for name in ("check", "cost", "deploy", "diagram", "plan", "synth")),
    ("doctor --environment la", "lab"),
    *((f"{name} sp", "spot") for name in ("doctor", "ssh", "ssh-config", "nodes list", "data ls")),
    *((f"{name} sp", "spot") for name in ("targets prepare", "pool resize", "dev start", "dev")),
    *((f"{name} -t sp", "spot") for name in ("submit job.yaml", "list", "schedule list")),
    *((f"{name} tr", "train-a") for name in ("show", "logs", "wait", "cancel", "best", "compare")),
    *((f"{name} tr", "train-a") for name in ("clean", "submit --resume", "exec")),
    ("dev stop ", "dev-a"),
    ("best train-a -m ", "loss"),
    ("best train-a --metric l", "loss"),
    ("report train-a --throughput ", "loss"),
    ("list --columns metric:", "metric:loss"),
    ("che", "check"),
    ("check --str", "--strict"),
    ("tag train-a wi", "wide"),
]


@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_completion_offers_names_to_the_shell(
    store: RunStore,
    make_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    expected: str,
) -> None:
    """The shell is in a folder below the project's folder."""
    folder, here = store.base.parent, store.base.parent / "below"
    job = "name: a\ncommand: echo\nparams: {rate: 1}\n"
    here.mkdir()
    (here / "job.yaml").write_text(job)
    (folder / "cdktf.json").write_text("{}")
    (folder / "environments").mkdir()
    (folder / "environments" / "lab.yaml").write_text("name: lab\n")
    _pool(folder)
    run = make_run("train-a", metrics={"loss": "loss=(.*)"}, tags=["wide"])
    (run.folder / "job.yaml").write_text(job)
    (make_run("dev-a").folder / "job.json").write_text('{"template": "dev"}')
    monkeypatch.chdir(here)
    environment = {"_FAIRWAY_COMPLETE": "complete_bash", "COMP_WORDS": f"fairway {typed}"}
    environment["COMP_CWORD"] = str(len(typed.split(" ")))
    done = CliRunner().invoke(app, [], env=environment, prog_name="fairway")
    assert expected in done.output.split()


def _command(
    words: Annotated[list[str], typer.Argument()],
    name: Annotated[str | None, typer.Option("--name")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=9)] = 5,
    share: Annotated[float, typer.Option("--share")] = 0.5,
    loud: Annotated[bool, typer.Option("--loud")] = False,
    level: Annotated[str, typer.Option("--level", parser=len)] = "info",
) -> dict[str, Any]:
    return locals()


def _read(arguments: list[str], *, plainly: bool) -> object:
    """Parses the arguments and returns the values, or the error that Typer raises."""
    app = typer.Typer(add_completion=False)
    app.command()(_command)
    command = typer.main.get_command(app)
    if plainly:
        take_plainly(command)
    try:
        return command.main(arguments, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - whatever Typer raises
        return type(error).__name__, str(error)


_GOOD = [
    ["one"],
    ["one", "two", "--name", "", "--tag", "a", "--tag", "b"],
    ["one", "--limit", "9", "--share", "0.25", "--loud"],
    ["one", "--limit", "0007", "--share", "1e-3", "--level", "four"],
    ["--", "--name"],
]
_BAD = [
    [],
    ["one", "--name"],
    ["one", "--limit", "0"],
    ["one", "--limit", "10"],
    ["one", "--limit", "many"],
    ["one", "--limit", "1.5"],
    ["one", "--limit", ""],
    ["one", "--share", "half"],
    ["one", "--loud=yes"],
    ["one", "--nmae", "x"],
]


@pytest.mark.parametrize("arguments", [*_GOOD, *_BAD], ids=lambda given: " ".join(given) or "none")
def test_argument_values_are_parsed_and_refused_as_typer_does(arguments: list[str]) -> None:
    read = _read(arguments, plainly=True)
    assert isinstance(read, dict) is (arguments in _GOOD)
    assert read == _read(arguments, plainly=False)
    assert not isinstance(read, dict) or type(read["words"]) is list
