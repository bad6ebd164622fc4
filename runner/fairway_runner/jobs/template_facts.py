"""What is said of templates, as plain data: the same for `--json` and for people."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_runner.jobs.templates import all_templates, find_template, front_matter

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_runner.jobs.templates import FrontMatter


def template_list(folder: Path) -> list[dict[str, str]]:
    """Name, description and folder of every template that a job in `folder` can name.

    A template that cannot be read is in the list too, with the reason as its description.
    """
    listed = []
    for name, file in all_templates(folder).items():
        try:
            description = _front_matter(file).description
        except UserError as error:
            description = f"cannot be used: {error}"
        listed.append({"name": name, "description": description, "folder": str(file.parent)})
    return listed


def template_facts(name: str, folder: Path) -> dict[str, Any]:
    """One template: its description, needs and options, and a job file that uses it.

    UserError where a job in `folder` can name no such template.
    """
    try:
        file = find_template(name, folder)
    except FieldError as error:
        raise UserError.of("unknown-template", str(error), error.hint) from None
    front = _front_matter(file)
    options = {
        option_name: option.model_dump(exclude_defaults=True, mode="json")
        for option_name, option in front.options.items()
    }
    return {
        "name": name,
        "file": str(file),
        "description": front.description,
        "needs": list(front.needs),
        "options": options,
        "job": _example(name, front),
    }


def _front_matter(file: Path) -> FrontMatter:
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError.of(
            "bad-template", f"{file}: cannot be read: {error}", f"ls -l {file}"
        ) from None
    return front_matter(file, source)


def _example(name: str, front: FrontMatter) -> str:
    """A job file with every option at its default; a value in JSON is one in YAML."""
    options = {
        key: option.default if option.default is not None else f"<{option.type}>"
        for key, option in front.options.items()
    }
    job: dict[str, Any] = {"name": "example", "template": name}
    job |= front.example
    job.setdefault("command", "python train.py")
    job |= {"options": options} if options else {}
    return "".join(f"{key}: {_flow(value)}\n" for key, value in job.items())


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    words = isinstance(value, str) and re.fullmatch(r"[A-Za-z./][\w./ -]*", value)
    # YAML takes these for something else than text.
    if words and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "."):
        return str(value)
    return json.dumps(value)
