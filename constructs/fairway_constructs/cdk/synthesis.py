"""The app, and what looks at its tree as it is written: aspects and validations."""

from __future__ import annotations

import json
import os
import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_constructs.cdk.elements import DataSource, Resource
from fairway_constructs.cdk.library import App as CdktfApp
from fairway_constructs.cdk.library import (
    Aspects,
    IAspect,
    IConstruct,
    IValidation,
    Stack,
    jsii,
    raised,
    refuse,
)
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_CIRCLE = re.compile(r"Cannot add dependency (\S+) to (\S+), because it would cause a circular")


class App(CdktfApp):
    """The root of all stacks; `synth` writes them below `outdir`, and raises what is refused."""

    def __init__(
        self, *, outdir: str | Path | None = None, hcl_output: bool = False, **options: Any
    ) -> None:
        if outdir:
            try:  # with the folders above it, which cdktf does not make
                Path(outdir).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"{outdir}: {error.strerror}"
                raise UserError.of("no-outdir", message, "name another `outdir`") from None
        folder = None if outdir is None else str(outdir)
        super().__init__(outdir=folder, hcl_output=hcl_output, **options)

    def synth(self) -> None:
        """Writes `stacks/NAME/cdk.tf.json` of each stack, or `cdk.tf` with `hcl_output`.

        Raises UserError for a dependency on what is in another stack, for two stacks that refer to
        each other, and for two of one id, of which cdktf would write the last alone.
        """
        raised.clear()
        paths: dict[str, str] = {}
        for stack in _hand_down(self, Aspects.of(self).all):
            node = stack.node  # each attribute is a question to Node.js
            id_, path = node.id, node.path
            first = paths.setdefault(id_, path)
            if first != path:
                message = f"two stacks are called `{id_}`: {first} and {path}"
                raise UserError.of("id-taken", message, "give one of the two another id")
        try:
            super().synth()
            if self.hcl_output or os.environ.get("SYNTH_HCL_OUTPUT") in ("true", "1"):
                self._write_hcl()
        except RuntimeError as error:
            if raised:
                found = [each for refused in raised for each in refused.findings]
                raise UserError(found) from None
            if circle := _CIRCLE.search(str(error)):
                raise UserError.of(
                    "circular-stacks",
                    f"the stacks `{circle[1]}` and `{circle[2]}` refer to each other",
                    "make in the later one what refers to both, such as the `People` or the "
                    "`Identity` that gets a role there",
                ) from None
            raise

    def _write_hcl(self) -> None:
        """Puts our HCL in place of what cdktf writes: JSON, or HCL that Terraform does not take."""
        from fairway_constructs.hcl import to_hcl

        for stack in self.node.find_all():
            if isinstance(stack, Stack):
                document = _typed_document(stack)
                folder = Path(self.outdir, "stacks", stack.node.id)
                folder.joinpath("cdk.tf").write_text(to_hcl(document), encoding="utf-8")
                asked = {section: document[section] for section in ("//", "terraform")}
                metadata = json.dumps(asked, indent=1)
                folder.joinpath("metadata.json").write_text(metadata, encoding="utf-8")


def _typed_document(stack: Stack) -> dict[str, Any]:
    """The document of a stack, with what says of nested values whether they are blocks."""
    document: dict[str, Any] = stack.to_terraform()
    for each in stack.node.find_all():
        if isinstance(each, Resource | DataSource):
            *data, type_, name = each.terraform_address.split(".")
            named = document["data" if data else "resource"][type_]
            if name in named:  # nobody has given it another address since
                named[name] = _typed(named[name], each._attributes)
    return document


def _typed(written: Any, made: Any) -> Any:
    """The values as written, in the classes of those from which they were made."""
    if isinstance(written, dict) and isinstance(made, dict):
        return type(made)({name: _typed(each, made.get(name)) for name, each in written.items()})
    if isinstance(written, list) and isinstance(made, list) and len(written) == len(made):
        return [_typed(*pair) for pair in zip(written, made, strict=True)]
    return written


def _hand_down(scope: IConstruct, aspects: Sequence[IAspect]) -> Iterator[Stack]:
    """Yields the stacks, which get the aspects of what is around them: cdktf asks only theirs."""
    for child in scope.node.children:
        if isinstance(child, Stack):
            if aspects:
                own = Aspects.of(child)
                has = own.all  # from a synthesis before this one
                for aspect in aspects:
                    if not any(aspect is each for each in has):
                        own.add(aspect)
            yield child
        else:
            yield from _hand_down(child, [*aspects, *Aspects.of(child).all])


@jsii.implements(IAspect)
class Aspect:
    """The base of what visits every construct below another, as the stack is written.

    >>> class NoSpot(Aspect):
    ...     def visit(self, node):
    ...         if isinstance(node, Resource) and node.given("priority") == "Spot":
    ...             raise UserError.of("spot", f"{node.terraform_address} is of Spot nodes")
    >>> Aspects.of(stack).add(NoSpot())  # doctest: +SKIP
    """

    def __init_subclass__(cls) -> None:
        if "visit" in vars(cls):
            cls.visit = _reported(cls.visit)  # type: ignore[method-assign, assignment]

    def visit(self, node: IConstruct) -> None:
        """Called with each construct, resource and stack."""
        raise NotImplementedError


def _reported(visit: Callable[[Any, IConstruct], None]) -> Callable[[Any, IConstruct], None]:
    """Has what `visit` raises end the synthesis: jsii takes an error without a text for none."""

    @wraps(visit)
    def reported(self: Any, node: IConstruct) -> None:
        try:
            visit(self, node)
        except UserError as error:
            refuse(error)
            raise
        except Exception as error:
            if str(error):
                raise
            raise RuntimeError(repr(error)) from error

    return reported


@jsii.implements(IValidation)
class Validation:
    """The base of what looks at a stack as it is written, once aspects are done."""

    def validate(self) -> list[str]:
        """Returns the faults of the tree, each with its hint."""
        raise NotImplementedError
