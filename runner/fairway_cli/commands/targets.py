"""`fairway targets`: where jobs can be sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Context, Option, Typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, TargetArgument

_HELP = "List the targets that jobs can run on, or read them from a deployment."
_OfflineOption = Annotated[
    bool, Option("--offline", help="Do not ask for the current number of nodes.")
]

app = Typer(add_completion=False, invoke_without_command=True, help=_HELP)


@app.callback()
def targets(
    context: Context,
    offline: _OfflineOption = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """List the targets that jobs can run on, or read them from a deployment.

    `local` is this machine. Others come from fairway.yaml, and from what `fairway targets
    sync` has read of an environment.
    """
    if context.invoked_subcommand is None:
        list_(offline, json_)


@app.command("list")
def list_(
    offline: _OfflineOption = False, json_: JsonOption = False, _deadline: DeadlineOption = None
) -> None:
    """List the targets, as `fairway targets` alone does."""
    from fairway_cli.ui.catalogue import print_targets, warn_of_unready
    from fairway_runner.targets.lookup import all_targets
    from fairway_runner.targets.nodes import target_facts

    known = list(all_targets().values())
    facts = target_facts(known, ask=not offline)
    if json_:
        print(json.dumps(facts, indent=1))
    else:
        print_targets(facts)
    warn_of_unready(each.target for each in known)


@app.command()
def sync(
    from_: Annotated[
        Path,
        Option(
            "--from",
            metavar="DIR|FILE",
            help="The synthesized stacks, or a file that a deployment's --outputs-file wrote.",
        ),
    ] = Path("cdktf.out"),
    user: Annotated[
        str | None, Option(metavar="NAME", help="Your account, where access.users gives you one.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Read the targets of a deployment; they replace those read before.

    Without --user the account of the last time is kept.
    """
    from fairway_cli.ui.catalogue import print_targets, warn_of_unready
    from fairway_core.project_folder import find_project
    from fairway_runner.targets.lookup import SYNCED
    from fairway_runner.targets.nodes import target_facts
    from fairway_runner.targets.sync import as_person, read_targets, write_targets

    file = find_project()[0] / SYNCED
    found = as_person(read_targets(from_), user, file)
    write_targets(found, file)
    if json_:
        print(json.dumps([target.record() for target in found], indent=1))
    else:
        from fairway_runner.targets.lookup import KnownTarget

        print_targets(target_facts([KnownTarget(target, str(file)) for target in found], ask=False))
    warn_of_unready(found)


@app.command()
def prepare(
    target: TargetArgument,
    print_: Annotated[
        bool, Option("--print", help="Print the manifests, for kubectl apply -f.")
    ] = False,
    apply: Annotated[
        bool, Option("--apply", help="Apply the manifests, with your own rights.")
    ] = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Make what a Kubernetes cluster needs before jobs run there.

    It is the head pod, its account and its rights in the namespace, and nothing else.
    """
    from fairway_core.findings import UserError
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    if print_ == apply:
        hint = f"fairway targets prepare {target} --print"
        raise UserError.of("bad-option", "give either --print or --apply", hint)
    engine = engine_for(find_target(target))
    print(engine.manifests() if print_ else engine.prepare().rstrip())
