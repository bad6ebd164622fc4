"""Templates as people read them."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any


def print_list(listed: list[dict[str, str]]) -> None:
    """A line a template, under the folder it comes from."""
    width = max((len(each["name"]) for each in listed), default=0)
    for folder, templates in groupby(listed, key=lambda each: each["folder"]):
        print(folder)
        for each in templates:
            print(f"  {each['name']:<{width}}  {each['description']}")
    print("\nmore of one: fairway templates NAME")


def print_explanation(facts: dict[str, Any]) -> None:
    """What a template does, needs and takes, and a job file that uses it."""
    print(facts["description"])
    print(f"\nfile     {facts['file']}")
    if facts["needs"]:
        print(f"needs    {', '.join(facts['needs'])} on the main host's PATH")
    for name, option in facts["options"].items():
        kind = " | ".join(option["choices"]) if option.get("choices") else option["type"]
        default = f"default {json.dumps(option['default'])}" if "default" in option else "required"
        print(f"\n  {name}  ({kind}, {default})\n      {option['help']}")
    print("\nA job that uses it:\n")
    print("".join(f"  {line}\n" for line in facts["job"].splitlines()), end="")
