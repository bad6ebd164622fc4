"""Commands for targets, their nodes and their size."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, Typer

from fairway_boot.files import write_json
from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import UserError
from fairway_runner.quantities import span
from fairway_runner.runs.records import writing

_OfflineOption = Annotated[
    bool, Option("--offline", help="Do not ask for the current number of nodes.")
]

targets = Typer(
    add_completion=False,
    invoke_without_command=True,
    help="List the targets that jobs can run on, or read them from a deployment.",
)


@targets.callback()
def targets_group(
    ctx: Context, offline: _OfflineOption = False, json_: arguments.JsonOption = False
) -> None:
    """List the targets that jobs can run on, or read them from a deployment."""
    if ctx.invoked_subcommand is None:
        list_targets(offline, json_)


@targets.command("list")
def list_targets(offline: _OfflineOption = False, json_: arguments.JsonOption = False) -> None:
    """List the targets, as `fairway targets` alone does."""
    from fairway_cli.ui.catalogue import target_table, warn_of_unready
    from fairway_runner.targets.lookup import all_targets
    from fairway_runner.targets.nodes import target_facts

    known = list(all_targets().values())
    facts = target_facts(known, ask=not offline)
    print(json.dumps(facts, indent=1) if json_ else target_table(facts))
    warn_of_unready(each.target for each in known)


@targets.command()
def sync(
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="DIR|FILE",
            help="A file that a deployment's --outputs-file wrote, or a folder of synthesized "
            "stacks; by default cdktf.out, or what CDKTF_OUTDIR names.",
        ),
    ] = None,
    user: Annotated[
        str | None, Option(metavar="NAME", help="Your account, where access.users gives you one.")
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Read the targets of a deployment; they replace those read before.

    Without --user the account of the last time is kept. Without --from they are those of the
    environment that FAIRWAY_ENVIRONMENT or fairway.yaml chooses, if one of these does.
    """
    from fairway_cli.ui.catalogue import target_table, warn_of_unready
    from fairway_runner.runs.store import RunStore
    from fairway_runner.targets.lookup import SYNCED, KnownTarget, chosen_environment
    from fairway_runner.targets.nodes import as_person, read_targets, replaced, target_facts
    from fairway_stacks.app import usual_outdir

    store = RunStore.here()
    file = store.base / SYNCED.name
    outdir, here = usual_outdir(), Path("cdktf.out")
    if here.is_dir() and not os.environ.get("CDKTF_OUTDIR"):
        outdir = here  # a program's, below the folder of the environments
    read = read_targets(from_ or outdir, None if from_ else chosen_environment())
    found = as_person(read, user, file)
    others = [*replaced(found, file)]
    with writing(f"{file} cannot be written", f"ls -ld {file.parent}"):
        store.make()
        write_json(file, [target.record() for target in found])
    if json_:
        print(json.dumps([target.record() for target in found], indent=1))
    else:
        known = [KnownTarget(target, str(file)) for target in found]
        print(target_table(target_facts(known, ask=False)))
    warn(*others)
    warn_of_unready(found)


@targets.command()
def prepare(
    target: arguments.TargetArgument,
    print_: Annotated[
        bool, Option("--print", help="Print the manifests, for kubectl apply -f.")
    ] = False,
    apply: Annotated[
        bool, Option("--apply", help="Apply the manifests, with your own rights.")
    ] = False,
) -> None:
    """Make what a Kubernetes cluster needs before jobs run there.

    It is the head pod, its account and its rights in the namespace, and nothing else.
    """
    if print_ == apply:
        hint = f"fairway targets prepare {target} --print"
        raise UserError.of("bad-option", "give either --print or --apply", hint)
    engine = arguments.engine_of(target)
    print(engine.manifests() if print_ else engine.prepare().rstrip())


nodes = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List, stop, start, drain, resume, reboot, reimage or report a target's nodes.",
)


@nodes.command("list")
def list_nodes(target: arguments.TargetArgument, json_: arguments.JsonOption = False) -> None:
    """List the nodes of a target, and why a node is unusable."""
    from fairway_cli.ui.catalogue import node_table
    from fairway_runner.targets.nodes import node_facts

    nodes = arguments.engine_of(target).nodes()
    if json_:
        print(json.dumps([node_facts(node) for node in nodes], indent=1))
    elif nodes:
        print(node_table(nodes))
    else:
        print(f"{target} has no nodes now")


@nodes.command()
def stop(
    target: arguments.TargetArgument,
    force: Annotated[bool, Option("--force", help="Stop them even if that loses runs.")] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Stop the machines of a plain cluster or VM; you then pay for their disks only."""
    from fairway_runner.live import operations
    from fairway_runner.targets.lookup import find_target

    operations.stop(find_target(target), force=force)
    stopped = f"{target} is stopped; start it again: fairway nodes start {target}"
    print(json.dumps({"target": target, "action": "stop"}) if json_ else stopped)


@nodes.command()
def start(target: arguments.TargetArgument, json_: arguments.JsonOption = False) -> None:
    """Start the machines of a plain cluster or VM again."""
    from fairway_runner.live import operations
    from fairway_runner.targets.lookup import find_target

    operations.start(find_target(target))
    started = f"{target} is started; its nodes take some minutes to boot"
    print(json.dumps({"target": target, "action": "start"}) if json_ else started)


def _add_action(action: str, done: str, help_: str) -> None:
    def act(
        target: arguments.TargetArgument,
        nodes: Annotated[
            list[str], Argument(metavar="NODE…", help="Names from `fairway nodes list TARGET`.")
        ],
        json_: arguments.JsonOption = False,
    ) -> None:
        engine = arguments.engine_of(target)
        for node in nodes:
            engine.act_on_node(action, node)
            if not json_:
                print(f"{node} {done}", flush=True)
        if json_:
            print(json.dumps([{"node": node, "action": action} for node in nodes], indent=1))

    nodes.command(action, help=help_)(act)


_add_action(
    "drain",
    "drains: it gets no new work, and finishes what it runs",
    "Give nodes no new work; what runs there finishes.",
)
_add_action("resume", "gets work again", "Give drained nodes work again.")
_add_action("reboot", "restarts", "Restart nodes.")
_add_action(
    "reimage",
    "is reinstalled from its image",
    "Reinstall nodes from their image; what is on their disks is lost.",
)


def _categories() -> list[str]:
    from fairway_core.catalog.faults import impact_categories

    return impact_categories()


@nodes.command()
def report(
    target: arguments.TargetArgument,
    node: Annotated[str, Argument(metavar="NODE", help="A name from `fairway nodes list TARGET`.")],
    category: Annotated[
        str,
        Option(
            metavar="CATEGORY",
            help="What is wrong, in Azure's words: HpcMissingGpu, IBPortDown, XID79FallenOffBus, …",
            autocompletion=_categories,
        ),
    ] = "HpcGenericFailure",
    description: Annotated[
        str | None,
        Option(metavar="TEXT", help="What you saw; by default the reason for the drain."),
    ] = None,
    timeout: Annotated[
        str, Option(metavar="SPAN", help="How long to wait for Azure's answer.")
    ] = "10m",
    json_: arguments.JsonOption = False,
) -> None:
    """File a Guest Health Report, so that Azure takes the node's broken host out of service.

    Drain the node first, and file the report while its VM is there. The subscription must be
    onboarded to Guest Health Reporting (preview).
    """
    from fairway_core.catalog.faults import terminal_states
    from fairway_runner.live.management import signed_in_to
    from fairway_runner.live.operations import file_report, follow_report, report_of
    from fairway_runner.targets.lookup import find_target

    seconds = span("--timeout", timeout)
    found = report_of(find_target(target), node, category, description)
    with signed_in_to(found.machine.subscription) as azure:
        name = file_report(azure, found)
        if not json_:
            print(f"{node}: reported to Azure as {name}", flush=True)
        said = follow_report(azure, name, seconds)
    if json_:
        print(json.dumps({"report": name, "answer": said}, indent=1))
    if said == "NodeRemovedFromService":
        if not json_:
            print(f"Azure has taken the host of {node} out of service")
        return
    if said and said in terminal_states():
        message = f"{terminal_states()[said]} ({said}): report {name}"
        raise UserError.of("report-refused", message, "try again later", exit_code=5)
    message = f"Azure has not decided on the report {name} after {timeout}: {said or 'no answer'}"
    hint = "keep the node drained; Azure continues to examine its host"
    raise UserError.of("no-answer", message, hint, exit_code=5)


pool = Typer(
    add_completion=False, no_args_is_help=True, help="Change the number of nodes of a target."
)


@pool.callback()
def pool_group() -> None:
    """Change the number of nodes of a target."""


@pool.command()
def resize(
    target: arguments.TargetArgument,
    nodes: Annotated[int, Argument(metavar="NODES", min=0, help="The new number of nodes.")],
    json_: arguments.JsonOption = False,
) -> None:
    """Request a number of nodes, within the limits of the environment."""
    arguments.engine_of(target).resize(nodes)
    asked = f"requested {nodes} nodes for {target}; check progress: fairway nodes list {target}"
    print(json.dumps({"target": target, "requested_nodes": nodes}) if json_ else asked)
