"""Pages that are made on this machine: their templates."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairway_runner.quantities import duration, money, number
from fairway_runner.runs.facts import iso
from fairway_runner.runs.varying import shown


def html_templates(package: str, folder: str) -> Environment:
    """The templates in a folder of a package: what they are given is escaped, and must be there."""
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"money": money}
    environment.filters |= {"number": number, "shown": shown, "duration": duration, "iso": iso}
    return environment
