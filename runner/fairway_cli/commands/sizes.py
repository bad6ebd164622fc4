"""`fairway sizes`: the VM sizes of the catalogue."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import JsonOption


def command(
    rdma: Annotated[bool, Option("--rdma", help="Only sizes with InfiniBand.")] = False,
    gpu: Annotated[
        str | None, Option(metavar="NAME", help="Only sizes with this GPU, such as H100.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """List the VM sizes that Fairway knows.

    Shows the GPUs, memory and InfiniBand of each, and whether Azure still offers it.
    """
    from fairway_cli.ui.catalogue import select, size_facts
    from fairway_core.catalog import vm_sizes

    sizes = select(vm_sizes().values(), rdma=rdma, gpu=gpu)
    if json_:
        print(json.dumps([size_facts(size) for size in sizes], indent=1))
    else:
        from fairway_cli.ui.catalogue import print_sizes

        print_sizes(sizes)
