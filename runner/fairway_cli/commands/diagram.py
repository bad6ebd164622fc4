"""`fairway diagram`: a picture of an environment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    environment: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT", help="A file, or the name of one of ours: demo.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="FILE.md or FILE.svg; by default Markdown here."
        ),
    ] = None,
) -> None:
    """Draw an environment: its networks, clusters, file systems, and who reaches whom.

    Markdown holds the picture as Mermaid text, which GitHub draws on pull requests; SVG is
    made by Graphviz. An earlier file is replaced; nothing is deployed, and nothing is asked
    of Azure.
    """
    from fairway_core.diagram import draw, markdown
    from fairway_core.environment.selection import environment_file
    from fairway_runner.environments.diagram_file import require_writable, write_diagram
    from fairway_runner.environments.synthesis import SynthesisFailed, synthesized

    if output is not None:
        require_writable(output)
    try:
        stacks = synthesized(environment)
    except SynthesisFailed as error:
        print(error.said, end="", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    picture = draw(stacks, environment_file(environment).stem)
    if output is None:
        print(markdown(picture), end="")
    else:
        print(write_diagram(picture, output))
