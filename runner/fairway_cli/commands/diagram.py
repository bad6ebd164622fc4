"""`fairway diagram`: a picture of an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import EnvironmentArgument


def command(
    environment: EnvironmentArgument = None,
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
    from fairway_cli.ui.reviews import warn
    from fairway_core.diagram import draw, markdown
    from fairway_core.environment.selection import environment_file
    from fairway_runner.output_file import require_writable, write_diagram
    from fairway_stacks.app import stack_documents

    if output is not None:
        require_writable(output)
    file = environment_file(environment)
    picture = draw(stack_documents(file, warn=warn), file.stem)
    if output is None:
        print(markdown(picture), end="")
    else:
        print(write_diagram(picture, output))
