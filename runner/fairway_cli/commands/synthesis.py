"""Commands that make Terraform, and what it needs, from an environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.collector import gc_paused
from fairway_core.findings import UserError

STACKS = "FAIRWAY_STACKS"


def synth(
    environment: arguments.EnvironmentArgument = None,
    hcl: Annotated[
        bool, Option("--hcl", help="Write HCL, to read and edit by hand, in place of JSON.")
    ] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Generate Terraform for an environment, one directory per stack in cdktf.out.

    cdktf.out is beside the nearest cdktf.json, or here where there is none, unless CDKTF_OUTDIR
    names another folder; what other environments have left there is removed. `"app": "fairway
    synth"` in cdktf.json lets `cdktf diff`, `cdktf deploy` and `cdktf destroy` run this. With
    FAIRWAY_STACKS=state it writes the account that holds the state of the others, and nothing
    else. With `--hcl` a stack is `cdk.tf` in place of `cdk.tf.json`, to read, to edit and to keep
    without a CDK.
    """
    from fairway_constructs.node import start_node_ahead

    ahead = start_node_ahead()
    from fairway_core.environment.selection import environment_file
    from fairway_stacks.app import write_stacks

    with gc_paused():
        file, choice = environment_file(environment), os.environ.get(STACKS, "")
        if choice not in ("", "state"):
            message = f"{STACKS}: no stacks `{choice}`"
            raise UserError.of("unknown-stacks", message, "set it to `state`, or unset it")
        stacks = write_stacks(file, warn=warn, state=choice == "state", hcl=hcl)
        facts, here = [], Path.cwd()
        for stack in stacks:
            name, count, folder = stack.name, stack.resources, stack.folder
            facts.append({"stack": name, "resources": count, "folder": str(folder)})
            if not json_:
                near = folder.relative_to(here) if folder.is_relative_to(here) else folder
                print(f"{name}: {count} resources -> {near}")
        if json_:
            print(json.dumps(facts, indent=1))
    ahead.join()


def diagram(
    environment: arguments.EnvironmentArgument = None,
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", metavar="FILE", help="FILE.md or FILE.svg; by default Markdown here."
        ),
    ] = None,
) -> None:
    """Draw an environment: networks, clusters, file systems and connections.

    Markdown holds the picture as Mermaid text, which GitHub draws on pull requests; SVG needs
    Graphviz. An existing file is replaced. Nothing is deployed, and Azure is not asked.
    """
    from fairway_core.diagram import draw, markdown
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file
    from fairway_runner.output_file import require_writable, write_diagram
    from fairway_stacks.extension import left_out

    if output is not None:
        require_writable(output)
    file = environment_file(environment)
    picture = draw(load_environment(file), file.stem)
    warn(*left_out("drawn"))
    if output is None:
        print(markdown(picture), end="")
    else:
        print(write_diagram(picture, output))


def lock(
    platform: Annotated[
        list[str] | None, Option(metavar="OS_ARCH", help="Only for this platform. Repeatable.")
    ] = None,
    mirror: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Take providers from this folder, as terraform providers mirror does.",
        ),
    ] = None,
    upgrade: Annotated[
        bool, Option("--upgrade", help="Lock the newest version that Fairway supports.")
    ] = False,
    check: Annotated[
        bool, Option("--check", help="Only check that there is one; write nothing.")
    ] = False,
) -> None:
    """Lock the provider that plans and deployments may run.

    Writes terraform.lock.hcl beside cdktf.json, with the provider's version and its hashes on
    every platform: commit it. With it Terraform runs no other provider, whatever a branch or a
    state names. With --check it writes nothing, and exits with 2 if the file is missing or
    locks the azurerm of another registry; workflows run this before they sign in. Exits with 4 if
    the provider cannot be downloaded.
    """
    from fairway_stacks.plan.provider_lock import PLATFORMS, check_lock, write_lock
    from fairway_stacks.plan.stacks import files_can_be_written

    if check:
        print(check_lock())
        return
    with files_can_be_written():
        print(write_lock(platform or PLATFORMS, mirror, upgrade=upgrade))


def bindings(
    types: Annotated[
        list[str],
        Argument(
            metavar="TYPE…",
            help="A resource, such as azurerm_container_app, or data.TYPE for a data source.",
        ),
    ],
    into: Annotated[
        Path, Option(metavar="DIR", help="The package to write: a new folder, or one of before.")
    ],
    schema: Annotated[
        Path | None,
        Option(metavar="FILE", help="What `terraform providers schema -json` has printed."),
    ] = None,
) -> None:
    """Write typed Python classes for resources that the construct library lacks.

    Any resource or data source of azurerm becomes a module of the package DIR, made from the
    schema of the provider that the project locks, which Terraform downloads if it has to. Prints
    the import of each class. Classes are used like those of fairway_constructs.azurerm; run this
    again for another version of the provider.
    """
    from fairway_stacks.own_bindings import write_bindings
    from fairway_stacks.plan.stacks import files_can_be_written

    with files_can_be_written():
        print("\n".join(write_bindings(types, into, schema)))
