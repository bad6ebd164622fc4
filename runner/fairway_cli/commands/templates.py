"""`fairway templates`: the launchers that a job can name, and what each takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Argument

from fairway_cli.commands.arguments import JsonOption, complete_templates


def command(
    name: Annotated[
        str | None,
        Argument(
            metavar="[NAME]",
            help="Explain this template.",
            autocompletion=complete_templates,
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """List the launcher templates, or explain one: requirements, options, usage.

    Your own go into a folder job_templates/, as NAME.sh.j2; they win over those of Fairway.
    """
    from fairway_runner.jobs.templates import template_facts, template_list

    if name is None:
        listed = template_list(Path.cwd())
        if json_:
            print(json.dumps(listed, indent=1))
            return
        from fairway_cli.ui.catalogue import print_list

        print_list(listed)
        return
    facts = template_facts(name, Path.cwd())
    if json_:
        print(json.dumps(facts, indent=1))
        return
    from fairway_cli.ui.catalogue import print_explanation

    print_explanation(facts)
