"""The app, and the inspection of its tree during synthesis: aspects and validations."""

from __future__ import annotations

import os
import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_constructs.arguments import refused
from fairway_constructs.cdk.elements import DataSource, Resource
from fairway_constructs.cdk.library import App as CdktfApp
from fairway_constructs.cdk.library import Aspects as CdktfAspects
from fairway_constructs.cdk.library import (
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

    from fairway_constructs.cdk.library import Construct

_CIRCLE = re.compile(r"Cannot add dependency (\S+) to (\S+), because it would cause a circular")


class App(CdktfApp):
    """The root of all stacks; `synth` writes them below `outdir`, and raises the errors found.

    >>> app = App(outdir="cdktf.out")
    >>> lab = EnvironmentStack(app, "lab", location="westeurope")
    >>> app.synth()
    """

    def __init__(
        self, *, outdir: str | Path | None = None, hcl_output: bool = False, **options: Any
    ) -> None:
        if outdir:
            try:  # with its parents, which cdktf does not create
                Path(outdir).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"{outdir}: {error.strerror}"
                raise UserError.of("no-outdir", message, "name another `outdir`") from None
        folder = None if outdir is None else str(outdir)
        super().__init__(outdir=folder, hcl_output=hcl_output, **options)

    def synth(self) -> None:
        """Writes `stacks/NAME/cdk.tf.json` of each stack, or `cdk.tf` with `hcl_output`.

        Raises UserError for a dependency on a resource in another stack, for two stacks that refer
        to each other, and for two with one id, of which cdktf would write only the last.
        """
        raised.clear()
        paths: dict[str, str] = {}
        for stack in _hand_down(self, CdktfAspects.of(self).all):
            node = stack.node  # each attribute is a query to Node.js
            id_, path = node.id, node.path
            first = paths.setdefault(id_, path)
            if first != path:
                message = f"two stacks are called `{id_}`: {first} and {path}"
                raise UserError.of("id-taken", message, "give one of the two another id")
        try:
            super().synth()
            hcl = self.hcl_output or os.environ.get("SYNTH_HCL_OUTPUT") in ("true", "1")
            if hcl:
                # In place of cdktf's output: JSON, or HCL that Terraform does not accept.
                from fairway_constructs.hcl import write_hcl

                for stack in [each for each in self.node.find_all() if isinstance(each, Stack)]:
                    folder = Path(self.outdir, "stacks", stack.node.id)
                    write_hcl(typed_document(stack.to_terraform(), stack), folder)
            _remove_other_language(Path(self.outdir), hcl=hcl)
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


def _remove_other_language(outdir: Path, *, hcl: bool) -> None:
    """Removes stacks of an earlier synthesis in the other language: Terraform would read both."""
    written, others = "cdk.tf.json", ["cdk.tf", "metadata.json"]
    if hcl:
        written, others = "cdk.tf", ["cdk.tf.json"]
    for file in outdir.glob(f"stacks/*/{written}"):
        for other in others:
            file.with_name(other).unlink(missing_ok=True)


def typed_document(document: dict[str, Any], stack: Stack) -> dict[str, Any]:
    """Returns the document of a stack, in classes that tell nested blocks from other values."""
    for each in stack.node.find_all():
        if isinstance(each, Resource | DataSource):
            *data, type_, name = each.terraform_address.split(".")
            named = document["data" if data else "resource"][type_]
            if name in named:  # its address was not overridden
                named[name] = _typed(named[name], each._attributes)
    return document


def _typed(written: Any, made: Any) -> Any:
    """Returns the written values in the classes of the values from which they were made."""
    if isinstance(written, dict) and isinstance(made, dict):
        return type(made)({name: _typed(each, made.get(name)) for name, each in written.items()})
    if isinstance(written, list) and isinstance(made, list) and len(written) == len(made):
        return [_typed(*pair) for pair in zip(written, made, strict=True)]
    return written


def _hand_down(scope: IConstruct, aspects: Sequence[IAspect]) -> Iterator[Stack]:
    """Yields the stacks, and adds their scopes' aspects to them: cdktf only uses their own."""
    for child in scope.node.children:
        if isinstance(child, Stack):
            if aspects:
                own = CdktfAspects.of(child)
                has = own.all  # from a synthesis before this one
                for aspect in aspects:
                    if not any(aspect is each for each in has):
                        own.add(aspect)
            yield child
        else:
            yield from _hand_down(child, [*aspects, *CdktfAspects.of(child).all])


@jsii.implements(IAspect)
class Aspect:
    """The base of classes that visit every construct below another, when the stack is written.

    >>> class NoSpot(Aspect):
    ...     def visit(self, node):
    ...         if isinstance(node, Resource) and node.given("priority") == "Spot":
    ...             raise UserError.of("spot", f"{node.terraform_address} is of Spot nodes")
    >>> Aspects.of(stack).add(NoSpot())
    """

    def __init_subclass__(cls) -> None:
        if "visit" in vars(cls):
            cls.visit = _reported(cls.visit)  # type: ignore[method-assign, assignment]

    def visit(self, node: IConstruct) -> None:
        """Inspects or changes a construct, resource or stack; called with each."""
        raise NotImplementedError


def _reported(visit: Callable[[Any, IConstruct], None]) -> Callable[[Any, IConstruct], None]:
    """Makes any error from `visit` end the synthesis: jsii ignores an error without a text."""

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


class _Visitor(Aspect):
    """An aspect of a class that is not derived from `Aspect`."""

    def __init__(self, aspect: IAspect) -> None:
        self._aspect = aspect

    def visit(self, node: IConstruct) -> None:
        self._aspect.visit(node)


class Aspects:
    """The aspects of a construct, which visit it and all below it when the stack is written.

    >>> class NoSpot(Aspect):
    ...     def visit(self, node):
    ...         if isinstance(node, Resource) and node.given("priority") == "Spot":
    ...             raise UserError.of("spot", f"{node.terraform_address} is of Spot nodes")
    >>> Aspects.of(stack).add(NoSpot())
    """

    def __init__(self, scope: Construct) -> None:
        self._of = CdktfAspects.of(scope)

    @classmethod
    def of(cls, scope: Construct) -> Aspects:
        """Returns the aspects of `scope`."""
        return cls(scope)

    @property
    def all(self) -> list[IAspect]:
        """The aspects so far."""
        return self._of.all

    def add(self, aspect: IAspect) -> None:
        """Adds an aspect: an object with a method `visit`, which is called with each construct.

        Raises UserError for another object.
        """
        if not callable(getattr(aspect, "visit", None)):
            message = f"`{type(aspect).__name__}` is no aspect: it has no method `visit`"
            raise refused("wrong-argument", message, "derive its class from az.Aspect")
        self._of.add(aspect if isinstance(aspect, Aspect) else _Visitor(aspect))


@jsii.implements(IValidation)
class Validation:
    """The base of classes that check a stack when it is written, after the aspects."""

    def validate(self) -> list[str]:
        """Returns the errors in the tree, each with its hint."""
        raise NotImplementedError
