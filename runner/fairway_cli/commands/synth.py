"""`fairway synth`: the Terraform of an environment, as cdktf asks for it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from fairway_cli.commands.arguments import EnvironmentArgument, JsonOption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_stacks.app import WrittenStack

_STACKS = "FAIRWAY_STACKS"


def command(
    environment: EnvironmentArgument = None,
    hcl: Annotated[
        bool, Option("--hcl", help="Write HCL, to read and edit by hand, in place of JSON.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Generate Terraform for an environment, one directory per stack in cdktf.out.

    cdktf.out is beside cdktf.json, unless CDKTF_OUTDIR names another folder; what other
    environments have left there is removed. `"app": "fairway synth"` in cdktf.json lets
    `cdktf diff`, `cdktf deploy` and `cdktf destroy` run this. With FAIRWAY_STACKS=state it
    writes the account that holds the state of the others, and nothing else. With `--hcl` a stack
    is `cdk.tf` in place of `cdk.tf.json`, to read, to edit and to keep without a CDK.
    """
    from fairway_constructs.node import start_node_ahead

    ahead = start_node_ahead()
    from fairway_cli.ui.reviews import warn
    from fairway_core.collector import collector_paused
    from fairway_core.environment.selection import environment_file
    from fairway_stacks.app import write_stacks

    with collector_paused():
        file, state = environment_file(environment), _state_asked_for()
        stacks = write_stacks(file, warn=warn, state=state, hcl=hcl)
        _print(stacks, json_=json_)
    ahead.join()


def _print(stacks: Iterable[WrittenStack], *, json_: bool) -> None:
    """Prints the stacks that were written, and their folders."""
    if json_:
        facts = [
            {"stack": stack.name, "resources": stack.resources, "folder": str(stack.folder)}
            for stack in stacks
        ]
        print(json.dumps(facts, indent=1))
        return
    for stack in stacks:
        print(f"{stack.name}: {stack.resources} resources -> {_shown(stack.folder)}")


def _state_asked_for() -> bool:
    """True if FAIRWAY_STACKS asks for the stack that holds the others' state."""
    from fairway_core.findings import UserError

    choice = os.environ.get(_STACKS, "")
    if choice not in ("", "state"):
        message = f"{_STACKS}: no stacks `{choice}`"
        raise UserError.of("unknown-stacks", message, "set it to `state`, or unset it")
    return choice == "state"


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
