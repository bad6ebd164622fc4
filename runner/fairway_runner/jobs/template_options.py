"""Options of a template: what its front matter declares, and what a job sets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from fairway_core.documents import FieldError, Model
from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.jobs.params import Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.documents import Document

OptionType = Literal["int", "float", "text", "bool", "choice"]

_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "text": "text",
    "bool": "true or false",
}


class Option(Model):
    """One option of a template; without a `default` a job must set it.

    `choices` are the values of the type `choice`, which are text.

    >>> Option(type="choice", choices=("static", "c10d"), default="c10d", help="how").expected
    'one of `static`, `c10d`'
    """

    type: OptionType
    help: str
    default: Scalar | None = None
    choices: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.type == "choice") != bool(self.choices):
            hint = "`choices` are for the type `choice` only"
            raise FieldError("the type and the choices do not fit", hint, ("type",))
        if self.default is not None and self.accept(self.default) is None:
            from fairway_core.validation import describe

            message = f"the default must be {self.expected}, found {describe(self.default)}"
            raise FieldError(message, "change the default, or the type", ("default",))
        return self

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.type == "choice":
            return "one of " + ", ".join(f"`{choice}`" for choice in self.choices)
        return _NAMES[self.type]

    def accept(self, value: Scalar) -> Scalar | None:
        """The value as one of this option's type, or None where it is not.

        Text that holds a number or a truth value counts as it: `{{ params.x }}` makes text.
        """
        if self.type in ("text", "choice"):
            fits = isinstance(value, str) and (self.type == "text" or value in self.choices)
            return value if fits else None
        if isinstance(value, str):
            value = _read(value)
        if self.type == "bool" or isinstance(value, bool):
            return value if self.type == "bool" and isinstance(value, bool) else None
        if self.type == "float" and isinstance(value, int | float):
            return float(value)
        return value if isinstance(value, int) else None


def resolve_options(
    given: Mapping[str, Scalar],
    declared: Mapping[str, Option],
    template: str,
    document: Document,
) -> dict[str, Scalar]:
    """Every declared option with the job's value or its default.

    UserError with a finding for each that is unknown, missing or not of its type, at its
    line of the job's `document`.
    """
    findings = [
        _unknown(name, declared, template, document) for name in given if name not in declared
    ]
    values: dict[str, Scalar] = {}
    for name, option in declared.items():
        value = option.accept(given[name]) if name in given else option.default
        if value is not None:
            values[name] = value
        elif name in given:
            findings.append(_unfit(name, given[name], option, document))
        else:
            findings.append(_missing(name, option, template, document))
    if findings:
        raise UserError(findings)
    return values


def _unknown(
    name: str, declared: Mapping[str, Option], template: str, document: Document
) -> Finding:
    hint = did_you_mean(name, declared) or f"see them with: fairway templates {template}"
    if not declared:
        hint = f"the template `{template}` has no options: remove it"
    message = f"the template `{template}` has no option `{name}`"
    location = document.location(("options", name), of_key=True)
    return Finding("unknown-option", message, hint, f"options.{name}", location=location)


def _unfit(name: str, value: Scalar, option: Option, document: Document) -> Finding:
    from fairway_core.validation import describe

    hint = ""
    if option.type == "choice":
        hint = did_you_mean(str(value), option.choices)
    elif option.type == "text":
        hint = f"put it in quotes: {document.quoted(('options', name), value)}"
    message = f"`options.{name}`: expected {option.expected}, found {describe(value)}"
    location = document.location(("options", name))
    return Finding("bad-option", message, hint, f"options.{name}", location=location)


def _missing(name: str, option: Option, template: str, document: Document) -> Finding:
    message = f"the template `{template}` needs the option `{name}`: {option.help}"
    hint = f"add it under `options:`, {option.expected}"
    return Finding("missing-option", message, hint, "options", location=document.location(()))


def _read(text: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)
