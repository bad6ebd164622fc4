"""`fairway nodes`: the nodes of a target, and what can be done to one."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Argument, Option, Typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, TargetArgument
from fairway_cli.lazy import group_with_default

app = Typer(
    cls=group_with_default("list"),
    add_completion=False,
    no_args_is_help=True,
    help="List, stop, start, drain, resume, reboot, reimage or report a target's nodes, or copy"
    " their logs.",
)

_NodesArgument = Annotated[
    list[str], Argument(metavar="NODE…", help="Names from `fairway nodes list TARGET`.")
]


@app.command("list")
def list_(
    target: TargetArgument, json_: JsonOption = False, _deadline: DeadlineOption = None
) -> None:
    """List the nodes of a target, and why a node is unusable."""
    from fairway_cli.ui.catalogue import print_nodes
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target
    from fairway_runner.targets.nodes import node_facts

    nodes = engine_for(find_target(target)).nodes()
    if json_:
        print(json.dumps([node_facts(node) for node in nodes], indent=1))
    elif nodes:
        print_nodes(nodes)
    else:
        print(f"{target} has no nodes now")


@app.command()
def stop(
    target: TargetArgument,
    force: Annotated[bool, Option("--force", help="Stop them even if that loses runs.")] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Stop the machines of a plain cluster or VM; you then pay for their disks only."""
    from fairway_runner.live import operations
    from fairway_runner.targets.lookup import find_target

    operations.stop(find_target(target), force=force)
    if json_:
        print(json.dumps({"target": target, "action": "stop"}))
        return
    print(f"{target} is stopped; start it again: fairway nodes start {target}")


@app.command()
def start(
    target: TargetArgument, json_: JsonOption = False, _deadline: DeadlineOption = None
) -> None:
    """Start the machines of a plain cluster or VM again."""
    from fairway_runner.live import operations
    from fairway_runner.targets.lookup import find_target

    operations.start(find_target(target))
    if json_:
        print(json.dumps({"target": target, "action": "start"}))
        return
    print(f"{target} is started; its nodes take some minutes to boot")


def _add(action: str, done: str, help_: str) -> None:
    def act(
        target: TargetArgument,
        nodes: _NodesArgument,
        json_: JsonOption = False,
        _deadline: DeadlineOption = None,
    ) -> None:
        from fairway_runner.engines.engine import engine_for
        from fairway_runner.targets.lookup import find_target

        engine = engine_for(find_target(target))
        for node in nodes:
            engine.act_on_node(action, node)
            if not json_:
                print(f"{node} {done}", flush=True)
        if json_:
            print(json.dumps([{"node": node, "action": action} for node in nodes], indent=1))

    app.command(action, help=help_)(act)


_add(
    "drain",
    "drains: it gets no new work, and finishes what it runs",
    "Give nodes no new work; what runs there finishes.",
)
_add("resume", "gets work again", "Give drained nodes work again.")
_add("reboot", "restarts", "Restart nodes.")
_add(
    "reimage",
    "is reinstalled from its image",
    "Reinstall nodes from their image; what is on their disks is lost.",
)


def _categories() -> list[str]:
    from fairway_core.catalog.guest_health import impact_categories

    return impact_categories()


@app.command()
def report(
    target: TargetArgument,
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
        Option(
            metavar="TEXT",
            help="What you saw; by default the reason for the drain.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str, Option(metavar="SPAN", help="How long to wait for Azure's answer.")
    ] = "10m",
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """File a Guest Health Report, so that Azure takes the node's broken host out of service.

    Drain the node first, and file the report while its VM is there. The subscription must be
    onboarded to Guest Health Reporting (preview).
    """
    from fairway_cli.commands.arguments import span
    from fairway_runner.live.management import signed_in_to
    from fairway_runner.live.operations import file_report, follow_report
    from fairway_runner.targets.lookup import find_target
    from fairway_runner.targets.nodes import report_of

    seconds = span("--timeout", timeout)
    found = report_of(find_target(target), node, category, description)
    with signed_in_to(found.machine.subscription) as azure:
        name = file_report(azure, found)
        if not json_:
            print(f"{node}: reported to Azure as {name}", flush=True)
        said = follow_report(azure, name, seconds)
    if json_:
        print(json.dumps({"report": name, "answer": said}, indent=1))
    _require_removed(name, said, timeout)
    if not json_:
        print(f"Azure has taken the host of {node} out of service")


def _require_removed(name: str, said: str | None, timeout: str) -> None:
    """UserError where Azure's last word is another one."""
    from fairway_core.catalog.guest_health import final_answers
    from fairway_core.findings import UserError

    if said == "NodeRemovedFromService":
        return
    if said and said in final_answers():
        message = f"{final_answers()[said]} ({said}): report {name}"
        raise UserError.of("report-refused", message, "try again later", exit_code=5)
    message = f"Azure has not decided on the report {name} after {timeout}: {said or 'no answer'}"
    hint = "keep the node drained; Azure continues to examine its host"
    raise UserError.of("no-answer", message, hint, exit_code=5)
