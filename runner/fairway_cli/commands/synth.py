"""`fairway synth`: the Terraform of an environment, as cdktf asks for it."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    environment: Annotated[
        str | None,
        typer.Argument(
            metavar="ENVIRONMENT",
            help="A file, or the name of one; by default FAIRWAY_ENVIRONMENT, or the only one.",
        ),
    ] = None,
) -> None:
    """Write the Terraform of an environment: a folder a stack, below cdktf.out.

    cdktf.out lies beside cdktf.json, unless CDKTF_OUTDIR says otherwise; what other
    environments have left there is taken away. `"app": "fairway synth"` in cdktf.json lets
    `cdktf diff`, `cdktf deploy` and `cdktf destroy` run this.
    """
    import os
    import sys

    from fairway_runner.environments.synthesis import synth_command, synth_variables

    program = synth_command()
    sys.stdout.flush()
    os.execve(program[0], program, synth_variables(environment))  # noqa: S606
