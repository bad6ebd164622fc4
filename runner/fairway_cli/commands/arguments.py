"""Arguments that several commands take, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from fairway_cli.commands import completion

_RUN_HELP = "Run ID, or any unique prefix."

EnvironmentArgument = Annotated[
    str | None,
    Argument(
        metavar="[ENVIRONMENT]",
        help="A file or a name; by default FAIRWAY_ENVIRONMENT, then the project's own.",
        show_default=False,
        autocompletion=completion.environments,
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
RunArgument = Annotated[
    str, Argument(metavar="RUN", help=_RUN_HELP, autocompletion=completion.runs)
]
RunsArgument = Annotated[
    list[str], Argument(metavar="RUN…", help=_RUN_HELP, autocompletion=completion.runs)
]
TargetArgument = Annotated[
    str,
    Argument(
        metavar="TARGET",
        help="Name of a target; `fairway targets` lists them.",
        autocompletion=completion.targets,
    ),
]
TargetOption = Annotated[
    str, Option("--target", "-t", help="Where to run.", autocompletion=completion.targets)
]
TargetsOption = Annotated[
    list[str] | None,
    Option(
        "--target",
        "-t",
        metavar="TARGET",
        help="Where to run; of several, as in nd,spot, the first that has room. Repeatable. By"
        " default what the job says, or local.",
        autocompletion=completion.targets,
    ),
]
SetOption = Annotated[
    list[str] | None,
    Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Set a field of the job by its dotted path, such as params.epochs=2. Repeatable.",
        autocompletion=completion.settings,
    ),
]
TagOption = Annotated[
    list[str] | None,
    Option(
        "--tag",
        metavar="TAG",
        help="Tag to find the run by, as with `fairway list --tag`. Repeatable.",
        autocompletion=completion.tags,
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
JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]


def _choose_deadline(context: Context, text: str | None) -> str | None:
    """Lets it hold for every service that the command asks, and for no later command."""
    from fairway_runner.engines import outage

    outage.choose(None if text is None else span("--deadline", text))
    context.call_on_close(lambda: outage.choose(None, offered=False))
    return text


DeadlineOption = Annotated[
    str | None,
    Option(
        "--deadline",
        metavar="SPAN",
        help="How long to keep retrying a failing service; by default 10m.",
        callback=_choose_deadline,
        show_default=False,
    ),
]


def target_names(given: list[str] | None) -> list[str]:
    """The targets that were named, in their order: several by commas, or by the option again."""
    from fairway_core.findings import UserError

    names = [name.strip() for words in given or () for name in words.split(",")]
    if not all(names):
        message = f"--target: a name is missing in `{','.join(given or ())}`"
        raise UserError.of("bad-value", message, "write --target FIRST,SECOND")
    return names


def states(given: list[str] | None) -> tuple[str, ...]:
    """The states that were asked for; UserError for a word that is none."""
    from fairway_agent.state_files import STATES
    from fairway_core.findings import UserError
    from fairway_core.suggestions import did_you_mean

    known = sorted(STATES)
    for state in given or ():
        if state not in known:
            message = f"`{state}` is not a state of a run"
            raise UserError.of("unknown-state", message, did_you_mean(state, known))
    return tuple(given or ())


def span(option: str, text: str) -> float:
    """The seconds of a span such as 10m; UserError that names the option where it is none."""
    from fairway_runner.quantities import span as seconds

    return seconds(option, text)
