"""Every button of the pages has its call of REST, which takes what the form has."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import fairway_web
from fairway_web.api import document

_TEMPLATES = Path(fairway_web.__file__).parent / "templates"
# By template, address and what the button says to it: the calls that do the same.
_CALLS = {
    ("confirm.html.j2", "/runs", "action={{ action }}"): ("cancelRun", "retryRun"),
    ("cost.html.j2", "", ""): ("costOfRuns",),
    ("run.html.j2", "/runs", "action=cancel"): ("cancelRun",),
    ("run.html.j2", "/runs", "action=retry"): ("retryRun",),
    ("run.html.j2", "", ""): ("readLog",),
    ("runs.html.j2", "/", ""): ("listRuns",),
    ("runs.html.j2", "/compare", ""): ("compareRuns",),
    ("runs.html.j2", "/runs", "action=cancel"): ("cancelRun",),
    ("submit.html.j2", "/submit", "action=check"): ("checkJob",),
    ("submit.html.j2", "/submit", "action=submit"): ("submitJob",),
    ("target.html.j2", "/targets/{{ name | urlencode }}", "action={{ each }}"): ("actOnNode",),
}
# It fills the form beside it, and asks for nothing that REST has not: a run's job, a file.
_OF_THE_PAGE = {("submit.html.j2", "/submit", "")}
# What forms call otherwise, or have for themselves.
_NAMES = {"once": "run_id", "confirmed": None}


_OPERATIONS = {
    call["operationId"]: (method, call)
    for item in document()["paths"].values()
    for method, call in item.items()
}


@dataclass
class _Form:
    action: str
    buttons: list[tuple[str, str]] = field(default_factory=list)
    fields: set[str] = field(default_factory=set)


class _Forms(HTMLParser):
    """The forms of a template, with their buttons and the names of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Form] = []
        self.is_open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "form":
            self.found.append(_Form(known.get("action") or ""))
            self.is_open = True
        elif tag == "button":
            assert self.is_open, "a button without a form does nothing without script"
            said = f"{known['name']}={known.get('value')}" if known.get("name") else ""
            form = self.found[-1]
            form.buttons.append((known.get("formaction") or form.action, said))
        elif tag in ("input", "select", "textarea") and self.is_open:
            self.found[-1].fields.add(known["name"] or "")

    def handle_endtag(self, tag: str) -> None:
        self.is_open = self.is_open and tag != "form"


def _unrolled(loop: re.Match[str]) -> str:
    """A loop over fields as what it draws."""
    names = [name for name, *_ in ast.literal_eval(loop[1])]
    return "".join(loop[2].replace("{{ name }}", name) for name in names)


def _forms(file: Path) -> list[_Form]:
    text = file.read_text("utf-8")
    loop = re.compile(r"{% for name, \w+ in (\[.*?\]) %}(.*?){% endfor %}", re.DOTALL)
    text = loop.sub(_unrolled, text)
    parser = _Forms()
    parser.feed(text)
    return parser.found


_BUTTONS = {
    (file.name, action, said): form
    for file in sorted(_TEMPLATES.glob("*.j2"))
    for form in _forms(file)
    for action, said in form.buttons
}


def test_every_button_is_known() -> None:
    assert set(_BUTTONS) == set(_CALLS) | _OF_THE_PAGE


@pytest.mark.parametrize("button", sorted(_CALLS), ids=" ".join)
def test_a_button_has_its_call(button: tuple[str, str, str]) -> None:
    body = set(document()["components"]["schemas"]["Job"]["properties"])
    for name in _CALLS[button]:
        operation: dict[str, Any] = _OPERATIONS[name][1]
        taken = {each["name"] for each in operation.get("parameters", ())}
        taken |= body if "requestBody" in operation else set()
        wanted = {_NAMES.get(each, each) for each in _BUTTONS[button].fields} - {None}
        assert wanted <= taken, name


def test_every_call_that_acts_has_its_button() -> None:
    acting = {name for name, (method, _) in _OPERATIONS.items() if method != "get"}
    # The script is beside what Check finds; the code of a form is there already.
    assert acting - {"renderJob", "sendCode", "sendPiece"} <= {
        name for names in _CALLS.values() for name in names
    }
