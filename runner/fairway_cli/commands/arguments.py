"""Arguments that several commands share, and their completion in a shell."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option, Typer
from typer.main import get_command

from fairway_core.findings import UserError
from fairway_core.project_folder import find_project
from fairway_runner.quantities import span
from fairway_runner.targets import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic import BaseModel

    from fairway_cli.server.store import RemoteStore
    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.store import RunStore


SERVER_COMMANDS = ("list", "show", "logs", "fetch", "submit", "wait", "cancel")
"""Commands that work with `--server`."""


class _Server:
    """Server that answers the running command; a program has one command line."""

    url: str | None = None
    store: RemoteStore | None = None


def choose_server(url: str, name: str | None, context: Any, *, is_typed: bool) -> None:
    """Lets the server at `url` answer the command of that name. Raises UserError for a command that
    no server answers, if `--server` was typed: with FAIRWAY_SERVER, such commands use this
    machine's runs."""
    if name in SERVER_COMMANDS:
        _Server.url = url
        context.call_on_close(_close_server)
    elif is_typed and name is not None:
        message = f"`fairway {name}` does not work with --server"
        hint = f"leave --server out; these work with it: {', '.join(SERVER_COMMANDS)}"
        raise UserError.of("no-server-command", message, hint)


def remote_store() -> RemoteStore | None:
    """Returns the runs of the chosen server; None if commands use this machine's."""
    if _Server.url is not None and _Server.store is None:
        from fairway_cli.server.store import RemoteStore

        _Server.store = RemoteStore.at(_Server.url)
    return _Server.store


def run_store() -> RunStore:
    """Returns the runs that a command uses: those of the server, or of the current project."""
    if (remote := remote_store()) is not None:
        return remote
    from fairway_runner.runs.store import RunStore

    return RunStore.here()


def _close_server() -> None:
    if _Server.store is not None:
        _Server.store.close()
    _Server.url = _Server.store = None


def _completing(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns a completion for a function that returns known words: it has those that begin as
    typed. A shell cannot show an error: if one occurs, the words before it remain."""

    def complete(incomplete: str) -> list[str]:
        found: list[str] = []
        with suppress(Exception):
            found.extend(word for word in known() if word.startswith(incomplete))
        return found

    return complete


def _runs_folder() -> Path:
    return find_project()[0] / ".fairway" / "runs"


@_completing
def complete_runs() -> list[str]:
    """Returns the ids of this project's runs, the newest first; without all that reading them
    imports."""
    found = []
    with os.scandir(_runs_folder()) as entries:
        for each in entries:
            with suppress(FileNotFoundError):  # removed meanwhile
                if each.is_dir():
                    found.append((each.stat().st_mtime, each.name))
    # Their names are ASCII: what else is there is no run.
    return [name for _, name in sorted(found, reverse=True) if name[0] != "." and name.isascii()]


@_completing
def complete_sessions() -> list[str]:
    """Returns the ids of sessions, the newest first."""
    from fairway_runner.runs.records import SESSION, legible_facts

    jobs = ((name, _runs_folder() / name / "job.json") for name in complete_runs(""))
    return [name for name, job in jobs if legible_facts(job).get("template") == SESSION]


@_completing
def complete_templates() -> Iterable[str]:
    """Returns the templates that a job in this folder can name."""
    from fairway_runner.jobs.templates import all_templates

    return all_templates(Path.cwd())


@_completing
def complete_targets() -> Iterable[str]:
    """Yields `local`, and the targets of the project."""
    from fairway_runner.targets.lookup import all_targets

    yield LOCAL
    yield from (name for name in all_targets() if name != LOCAL)


@_completing
def complete_environments() -> Iterable[str]:
    """Returns the environments of the project, and those that come with Fairway."""
    from fairway_core.environment.selection import known_environments

    return known_environments()


def complete_metrics(ctx: Context, incomplete: str) -> list[str]:
    """Completes metrics of the run that the command line names."""
    known = _completing(lambda: run_store().find(_argument(ctx, "run") or "").record.metrics)
    return known(incomplete)


def complete_settings(ctx: Context, incomplete: str) -> list[str]:
    """Completes fields for `-s`: those of a job, and those in the named job file or run."""
    return _completing(lambda: _settings(ctx))(incomplete)


def _settings(ctx: Context) -> Iterable[str]:
    from fairway_core.documents import read
    from fairway_runner.jobs.job import Job

    known = set(_fields(Job))
    if run := _argument(ctx, "run"):
        known |= set(_paths(read(run_store().find(run).folder / "job.yaml").data))
    elif job := _argument(ctx, "job"):
        known |= set(_paths(read(job).data))
    return sorted(f"{path}=" for path in known)


def _argument(ctx: Any, name: str) -> str | None:
    """Returns the value of an argument or option on the command line. While an option has no value
    yet, the arguments before it have not been assigned."""
    if given := ctx.params.get(name):
        return str(given)
    command = getattr(ctx, "command", None)
    every = getattr(command, "params", ())
    places = [each.name for each in every if each.param_type_name == "argument"]
    return next(iter(ctx.args), None) if places[:1] == [name] else None


def _fields(model: type[BaseModel], before: str = "") -> Iterator[str]:
    from pydantic import BaseModel

    for name, field in model.model_fields.items():
        path = before + (field.alias or name)
        yield path
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{path}.")


def _paths(data: object, before: str = "") -> Iterator[str]:
    if not isinstance(data, dict):
        yield before.rstrip(".")
        return
    for key, value in data.items():
        yield from _paths(value, f"{before}{key}.")


@_completing
def complete_tags() -> Iterable[str]:
    """Returns the tags that this project's runs have."""
    return sorted({tag for run in run_store().unsorted() for tag in run.tags})


def complete_columns(incomplete: str) -> list[str]:
    """Completes the columns for a list of this project's runs; those before the last comma stay."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + each for each in _complete_column(last)]


@_completing
def _complete_column() -> Iterable[str]:
    from fairway_runner.runs.query import FACTS

    yield from FACTS
    metrics = {name for run in run_store().unsorted() for name in run.record.metrics}
    yield from (f"metric:{name}" for name in sorted(metrics))


@_completing
def complete_groups() -> Iterable[str]:
    """Returns the words by which the costs of runs can be grouped."""
    from fairway_runner.runs.usage import BY

    return BY


_RUN_HELP = "Run ID, or any unique prefix."

EnvironmentArgument = Annotated[
    str | None,
    Argument(
        metavar="[ENVIRONMENT]",
        help="A file or a name; by default FAIRWAY_ENVIRONMENT, then the project's own.",
        autocompletion=complete_environments,
    ),
]
AllowOption = Annotated[
    list[str] | None,
    Option(
        metavar="ADDRESS",
        help="Address of a resource that may be destroyed; also in FAIRWAY_ALLOW. Repeatable.",
    ),
]
JobArgument = Annotated[str, Argument(metavar="JOB", help="The job file.")]
RunArgument = Annotated[str, Argument(metavar="RUN", help=_RUN_HELP, autocompletion=complete_runs)]
RunsArgument = Annotated[
    list[str], Argument(metavar="RUN…", help=_RUN_HELP, autocompletion=complete_runs)
]
TargetArgument = Annotated[
    str,
    Argument(
        metavar="TARGET",
        help="Name of a target; `fairway targets` lists them.",
        autocompletion=complete_targets,
    ),
]
TargetOption = Annotated[
    str, Option("--target", "-t", help="Where to run.", autocompletion=complete_targets)
]
TargetsOption = Annotated[
    list[str] | None,
    Option(
        "--target",
        "-t",
        metavar="TARGET",
        help="Where to run; of several, as in nd,spot, the first that has room. Repeatable. By"
        " default what the job says, or local.",
        autocompletion=complete_targets,
    ),
]
SetOption = Annotated[
    list[str] | None,
    Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Set a field of the job by its dotted path, such as params.epochs=2. Repeatable.",
        autocompletion=complete_settings,
    ),
]
TagOption = Annotated[
    list[str] | None,
    Option(
        "--tag",
        metavar="TAG",
        help="Tag to find the run by, as with `fairway list --tag`. Repeatable.",
        autocompletion=complete_tags,
    ),
]
NoteOption = Annotated[str | None, Option("--note", metavar="TEXT", help="What the run is about.")]
StateOption = Annotated[
    list[str] | None,
    Option("--state", metavar="STATE", help="Only runs in this state. Repeatable."),
]
WatchOption = Annotated[bool, Option("--watch", help="Follow the run and exit with its code.")]
PricesOption = Annotated[
    Path | None, Option(metavar="FILE", help="Your own prices; see docs/cost.md.")
]
TaskOption = Annotated[
    str | None,
    Option("--task", metavar="TASK", help="Only this task: its number, from 0, or finally."),
]
ForceOption = Annotated[bool, Option("--force", help="Replace files that differ.")]
JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]


def _choose_deadline(context: Context, text: str | None) -> str | None:
    """Sets the deadline for every service that the command asks, and for no later command."""
    from fairway_runner.engines import outage

    outage.choose(None if text is None else span("--deadline", text))
    context.call_on_close(lambda: outage.choose(None, offered=False))
    return text


_DEADLINE = Option(
    "--deadline",
    metavar="SPAN",
    help="How long to keep retrying a failing service; by default 10m.",
    callback=_choose_deadline,
)


def deadline_option() -> Any:
    """Returns `--deadline`, an option of each command that asks a service; its function does not
    get it."""
    alone = Typer(add_completion=False)

    @alone.command()
    def ask(deadline: Annotated[str | None, _DEADLINE] = None) -> None: ...

    found = get_command(alone).params[0]
    found.expose_value = False
    return found


def target_names(given: list[str] | None) -> list[str]:
    """Returns the named targets in order: separated by commas, or from a repeated option. Raises
    UserError for an empty name."""
    names = [name.strip() for words in given or () for name in words.split(",")]
    if not all(names):
        message = f"--target: a name is missing in `{','.join(given or ())}`"
        raise UserError.of("bad-value", message, "write --target FIRST,SECOND")
    return names


def states(given: list[str] | None) -> tuple[str, ...]:
    """Returns the requested states. Raises UserError for an unknown word."""
    from fairway_runner.runs.query import require_states

    require_states(given or ())
    return tuple(given or ())


def engine_of(target: str) -> Engine:
    """Returns the engine of the target of that name. Raises UserError if there is none."""
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    return engine_for(find_target(target))
