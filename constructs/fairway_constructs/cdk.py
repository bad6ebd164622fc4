"""The CDK for Terraform as Fairway uses it; the one module that names cdktf and cdktn.

cdktf is archived and its fork cdktn keeps the API. Taken is the one that FAIRWAY_CDK names, else
the one that the app has imported, else cdktf. What stands on top is small: base classes whose
attributes are a plain dict, typed references to them, a typed lifecycle, and `Component`, the base
of our constructs. The classes for Azure's resources are generated: `fairway_constructs.azurerm`.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from dataclasses import dataclass, field
from functools import cached_property, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.addresses import Addresses, short_id
from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import PROVIDER_SOURCE, PROVIDER_VERSION
from fairway_constructs.bindings.blocks import Timeouts, terraform_value
from fairway_constructs.node import prepare_node
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from constructs import Node

    from fairway_constructs.placement import Placement

_LIBRARIES = ("cdktf", "cdktn")


def library() -> str:
    """The package of the CDK; UserError for one that is not, or not installed."""
    used = [name for name in _LIBRARIES if name in sys.modules]
    chosen = os.environ.get("FAIRWAY_CDK") or (used or _LIBRARIES)[0]
    if chosen not in _LIBRARIES:
        raise UserError.of(
            "unknown-cdk", f"FAIRWAY_CDK is `{chosen}`", f"use one of: {', '.join(_LIBRARIES)}"
        )
    if find_spec(chosen) is None:
        raise UserError.of("no-cdk", f"{chosen} is not installed", f"pip install {chosen}")
    return chosen


prepare_node(os.environ)

import jsii  # noqa: E402
from constructs import Construct, IConstruct, IValidation  # noqa: E402

if TYPE_CHECKING:
    from cdktf import App as CdktfApp
    from cdktf import (
        Aspects,
        CloudBackend,
        Fn,
        IAspect,
        IResolvable,
        ITerraformDependable,
        NamedCloudWorkspace,
        TerraformBackend,
        TerraformDataSource,
        TerraformElement,
        TerraformHclModule,
        TerraformProvider,
        TerraformProviderGeneratorMetadata,
        TerraformRemoteState,
        TerraformResource,
        TerraformResourceLifecycle,
        Token,
    )
    from cdktf import TerraformOutput as Output
    from cdktf import TerraformStack as Stack
else:
    _cdk = import_module(library())
    CdktfApp, Output, Stack = _cdk.App, _cdk.TerraformOutput, _cdk.TerraformStack
    Aspects, Fn, IAspect, Token = _cdk.Aspects, _cdk.Fn, _cdk.IAspect, _cdk.Token
    CloudBackend, NamedCloudWorkspace = _cdk.CloudBackend, _cdk.NamedCloudWorkspace
    IResolvable, ITerraformDependable = _cdk.IResolvable, _cdk.ITerraformDependable
    TerraformDataSource, TerraformElement = _cdk.TerraformDataSource, _cdk.TerraformElement
    TerraformBackend, TerraformRemoteState = _cdk.TerraformBackend, _cdk.TerraformRemoteState
    TerraformHclModule = _cdk.TerraformHclModule
    TerraformProvider, TerraformResource = _cdk.TerraformProvider, _cdk.TerraformResource
    TerraformProviderGeneratorMetadata = _cdk.TerraformProviderGeneratorMetadata
    TerraformResourceLifecycle = _cdk.TerraformResourceLifecycle

__all__ = [
    "App",
    "Aspect",
    "Aspects",
    "Backend",
    "CloudBackend",
    "Component",
    "Construct",
    "DataSource",
    "Fn",
    "IAspect",
    "IConstruct",
    "IResolvable",
    "ITerraformDependable",
    "Lifecycle",
    "NamedCloudWorkspace",
    "Output",
    "Provider",
    "Resource",
    "Stack",
    "TerraformHclModule",
    "Timeouts",
    "Token",
    "Validation",
    "surroundings",
]

# On every element, so that `required_providers` is written whatever a stack holds.
_AZURERM = TerraformProviderGeneratorMetadata(
    provider_name="azurerm", provider_version_constraint=PROVIDER_VERSION
)


# What was raised while cdktf called us: it comes back as the text of an error of JavaScript's.
_raised: list[UserError] = []


class App(CdktfApp):
    """The root of all stacks; `synth` writes them below `outdir`, and raises what is refused."""

    def synth(self) -> None:
        """Writes `stacks/NAME/cdk.tf.json` of each stack, or `cdk.tf` with `hcl_output`.

        Raises UserError for a dependency on what is in another stack.
        """
        _raised.clear()
        _hand_down(self, Aspects.of(self).all)
        try:
            super().synth()
            # cdktf itself asks the variable alone, and would leave JSON in `cdk.tf`.
            if self.hcl_output and os.environ.get("SYNTH_HCL_OUTPUT") not in ("true", "1"):
                self._write_hcl()
        except RuntimeError:
            if _raised:
                raise UserError([each for error in _raised for each in error.findings]) from None
            raise

    def _write_hcl(self) -> None:
        for stack in self.node.find_all():
            if isinstance(stack, Stack):
                written = stack.to_hcl_terraform()
                folder = Path(self.outdir, "stacks", stack.node.id)
                folder.joinpath("cdk.tf").write_text(written["hcl"], encoding="utf-8")
                metadata = json.dumps(written["metadata"], indent=1)
                folder.joinpath("metadata.json").write_text(metadata, encoding="utf-8")


def _hand_down(scope: IConstruct, aspects: Sequence[IAspect]) -> None:
    """Gives stacks the aspects of what is around them: cdktf asks only those of stacks."""
    for child in scope.node.children:
        if isinstance(child, Stack):
            own = Aspects.of(child)
            has = own.all if aspects else []  # from a synthesis before this one
            for aspect in aspects:
                if not any(aspect is each for each in has):
                    own.add(aspect)
        else:
            _hand_down(child, [*aspects, *Aspects.of(child).all])


def refuse(error: UserError) -> None:
    """Lets `App.synth` raise this, where cdktf has called us and would pass on its text alone."""
    _raised.append(error)


@checked
@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Terraform's `lifecycle` block.

    `ignore_changes` takes attribute names or "all"; `replace_triggered_by` takes
    resources of the same stack, or addresses such as "terraform_data.x.output".
    """

    prevent_destroy: bool = False
    create_before_destroy: bool = False
    ignore_changes: Sequence[str] | Literal["all"] = ()
    replace_triggered_by: Sequence[Resource | str] = ()

    def to_terraform(self) -> TerraformResourceLifecycle:
        """Returns the block as cdktf takes it, without settings that are false or empty.

        Raises UserError for an expression where Terraform wants an address.
        """
        changes = self.ignore_changes
        return TerraformResourceLifecycle(
            prevent_destroy=self.prevent_destroy or None,
            create_before_destroy=self.create_before_destroy or None,
            ignore_changes=changes if changes == "all" else list(changes) or None,
            replace_triggered_by=[
                _trigger_address(trigger) for trigger in self.replace_triggered_by
            ]
            or None,
        )


def _trigger_address(trigger: Resource | str) -> str:
    """The resource's bare address: cdktf would write "${…}", which Terraform rejects here."""
    if isinstance(trigger, Resource):
        return trigger.terraform_address
    if "${" in trigger:
        raise UserError.of(
            "no-address",
            f"replace_triggered_by takes an address, not the expression {trigger}",
            'pass the resource, or its address: "terraform_data.x.output"',
        )
    return trigger


@dataclass(frozen=True)
class Surroundings:
    """The position of a construct: its stack, and the constructs around it, outermost first.

    `short` is whether resources of a `Component` have short addresses there; `ids` are of what
    was made in it so far.
    """

    stack: Stack
    addresses: Addresses
    path: tuple[str, ...]
    around: tuple[IConstruct, ...]
    short: bool
    ids: set[str] = field(default_factory=set)

    def within(self, construct: IConstruct, id: str) -> Surroundings:  # noqa: A002
        """Returns the surroundings inside `construct`, whose id in these is `id`."""
        path, around = (*self.path, id), (*self.around, construct)
        return Surroundings(self.stack, self.addresses, path, around, self.short)

    @property
    def placed(self) -> tuple[Construct, Placement]:
        """The nearest scope that has a placement, with it; UserError where there is none."""
        for scope in (*reversed(self.around), self.stack):
            if place := vars(scope).get("_place"):
                return scope, place  # type: ignore[return-value]  # an interface in cdktf's types
        raise UserError.of(
            "no-environment",
            f"{'/'.join([self.stack.node.id, *self.path])} has no resource group to go to",
            "make the stack an `EnvironmentStack`, or call `place_in_group(stack, …)` first",
        )


def surroundings(scope: Construct) -> Surroundings:
    """Returns the surroundings inside `scope`; asks cdktf only once for each scope."""
    known: Surroundings | None = vars(scope).get("_inside")
    if known is None:
        known = _foreign(scope)
        vars(scope)["_inside"] = known
    return known


def _foreign(scope: Construct) -> Surroundings:
    """Returns the surroundings of a scope that is a stack, or a construct of another class than
    ours."""
    if isinstance(scope, Stack):
        short = getattr(scope, "short_addresses", False)
        return Surroundings(scope, Addresses(), (), (), short=short)
    stack, scopes = Stack.of(scope), scope.node.scopes
    around = tuple(scopes[scopes.index(stack) + 1 :])
    path = tuple(each.node.id for each in around)
    inside = surroundings(stack)
    return Surroundings(stack, inside.addresses, path, around, short=inside.short)


def _create(made: Construct, name: str, scope: Construct, id: str, *settings: object) -> None:  # noqa: A002
    """Makes it as the constructor of cdktf's class does, but without holding each argument against
    its annotation: that took longer than all else that Python does there.

    Raises UserError for a scope that is none, and for an id that another in it has already.
    """
    if not isinstance(scope, Construct):
        raise UserError.of(
            "wrong-argument",
            f"the scope of {name} is a {type(scope).__name__}, and no construct",
            "pass a stack, or a construct",
        )
    try:
        jsii.create(type(made), made, [scope, id, *settings])
    except RuntimeError:
        known: Surroundings | None = vars(scope).get("_inside")
        if known is None or id not in known.ids:
            raise
        where = "/".join([known.stack.node.id, *known.path])
        raise UserError.of(
            "id-taken",
            f"there is a `{id}` in {where} already",
            "give one of the two another id or name",
        ) from None
    surroundings(scope).ids.add(id)


class Signature:
    """The arguments of a class, where cdktf's metaclass would show `*args`."""

    def __get__(self, made: object, owner: type) -> inspect.Signature:
        signature = inspect.signature(owner.__init__)  # type: ignore[misc]  # of this very class
        _, *arguments = signature.parameters.values()
        return signature.replace(parameters=arguments, return_annotation=inspect.Signature.empty)


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


class Component(Construct):
    """The base of Fairway's constructs: a part of a stack, with its resources below it in the tree.

    What it is made in says where its resources go and what they are called, see `place`.

    >>> class Room(Component):
    ...     def __init__(self, scope, id):
    ...         super().__init__(scope, id)
    ...         self.group = ResourceGroup(self, "group", name=id, location="westeurope")
    >>> Room(stack, "here"), Room(stack, "there")  # doctest: +SKIP
    """

    __signature__ = Signature()

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("fairway_constructs."):
            checked(cls)

    def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
        _create(self, type(self).__name__, scope, id)
        self._inside = surroundings(scope).within(self, id)

    @property
    def short_addresses(self) -> bool:
        """True if the stack has asked for short addresses."""
        return self._inside.short

    @property
    def place(self) -> Placement:
        """The resource group and region of what is made in it, with names and tags."""
        return self._inside.placed[1]

    @cached_property
    def node(self) -> Node:
        """Its place in the tree; `node.add_dependency(other)` holds for all that is below it."""
        return super().node


class _Element(TerraformElement):
    """Common base of resources and data sources; a class of cdktf's own comes after it."""

    TYPE: ClassVar[str]
    __signature__ = Signature()

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        **settings: object,
    ) -> None:
        self._attributes: dict[str, Any] = terraform_value(attributes)
        self._arguments = frozenset(attributes)
        given = {name: value for name, value in settings.items() if value is not None}
        _create(self, self.TYPE, scope, id, {"terraformResourceType": self.TYPE, **given})
        self._outside = surroundings(scope)
        self._inside = self._outside.within(self, id)
        kind = "data." if isinstance(self, TerraformDataSource) else ""
        self.terraform_address = f"{kind}{self.TYPE}.{_address(self, scope, id)}"
        self._outside.addresses.take(self.terraform_address, "/".join(self._inside.path))

    @cached_property
    def node(self) -> Node:
        """Its place in the tree."""
        return super().node

    def __setattr__(self, name: str, value: object) -> None:
        """Sets an argument, as `set_argument` does, or what is no argument of Terraform's."""
        if name.rstrip("_") in vars(self).get("_arguments", ()):
            self.set_argument(name, value)
        else:
            super().__setattr__(name, value)

    def set_argument(self, name: str, value: object) -> None:
        """Gives an argument another value; None leaves it out.

        Raises UserError where the resource has no such argument.
        """
        name = name.rstrip("_")
        if name not in self._arguments:
            raise UserError.of(
                "no-argument",
                f"`{name}` of {self.TYPE} is Azure's to say, and no argument",
                did_you_mean(name, sorted(self._arguments)) or "assign to an argument of its class",
            )
        self._attributes.pop(name, None)
        self._attributes |= terraform_value({name: value})

    def given(self, name: str) -> Any:
        """The value that an argument has so far; None where it has none."""
        return self._attributes.get(name)

    @property
    def takes_tags(self) -> bool:
        """True if Azure keeps tags of the resource."""
        return "tags" in self._arguments

    @property
    def tags_input(self) -> dict[str, str]:
        """The tags that it has so far, to make others of."""
        return dict(self._attributes.get("tags") or {})

    def reference(self, path: str) -> str:
        """A reference to any attribute, for example "identity[0].principal_id"."""
        # As `get_string_attribute`, without the checks that cdktf makes before it asks.
        return str(jsii.invoke(self, "getStringAttribute", [path]))

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        _add_dependencies(self)  # type: ignore[arg-type]  # all elements are of one of the two
        return self._attributes

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        section = "data" if isinstance(self, TerraformDataSource) else "resource"
        return _hcl_attributes(section, self.TYPE, self._attributes)


class Resource(_Element, TerraformResource):
    """A managed resource; the generated classes name their type and arguments.

    `attributes` maps Terraform's names to plain values, blocks or None, which is left out.
    """

    PROVIDER: ClassVar[TerraformProviderGeneratorMetadata | None] = _AZURERM

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: TerraformProvider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            attributes,
            terraformGeneratorMetadata=self.PROVIDER,
            lifecycle=lifecycle.to_terraform() if lifecycle else None,
            dependsOn=list(depends_on) or None,
            provider=provider,
        )

    def _comes_after(self) -> Iterator[Resource]:
        """Resources made before this one and destroyed after it; asked as the stack is written."""
        yield from ()


class DataSource(_Element, TerraformDataSource):
    """A data source: like `Resource`, but read and never made."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: TerraformProvider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            attributes,
            terraformGeneratorMetadata=_AZURERM,
            dependsOn=list(depends_on) or None,
            provider=provider,
        )


def _address(element: TerraformElement, scope: Construct, id: str) -> str:  # noqa: A002
    """The last part of an element's address, short where it can be."""
    if isinstance(scope, Stack):
        return short_id(id)
    if isinstance(scope, Component) and surroundings(scope).short:
        jsii.invoke(element, "overrideLogicalId", [short_id(id)])
        return short_id(id)
    return element.friendly_unique_id


def _add_dependencies(element: Resource | DataSource) -> None:
    """Adds what `node.add_dependency` was told, of it or of what is around it, to `depends_on`,
    and what it comes after.

    cdktf itself makes nothing of that. To ask costs time, so nothing is asked of constructs of
    ours whose `node` was never read.
    """
    outside = element._outside
    found = [
        address
        for construct in (*outside.around, element)
        if "node" in vars(construct) or not isinstance(construct, Component | Resource | DataSource)
        for dependency in construct.node.dependencies
        for address in _addresses(dependency, outside.stack)
        if address != element.terraform_address
    ]
    if isinstance(element, Resource):
        found += [each.terraform_address for each in element._comes_after()]
    if found:
        element.depends_on = list(dict.fromkeys([*(element.depends_on or []), *found]))


def _addresses(construct: IConstruct, stack: Stack) -> Iterator[str]:
    """The addresses of a construct's resources; UserError where they are in another stack."""
    for each in construct.node.find_all():
        if isinstance(each, Resource | DataSource):
            if each._outside.stack is not stack:
                error = UserError.of(
                    "dependency-across-stacks",
                    f"{stack.node.id} cannot wait for {each.terraform_address} of another stack",
                    "call `add_dependency` of the stack with the other stack",
                )
                refuse(error)
                raise error
            yield each.terraform_address


class Provider(TerraformProvider):
    """The azurerm provider's configuration in a stack; `AzurermProvider` names its arguments."""

    __signature__ = Signature()

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        alias: str | None = None,
    ) -> None:
        self._attributes: dict[str, Any] = terraform_value(attributes)
        self._alias = alias
        settings = {
            "terraformResourceType": "azurerm",
            "terraformProviderSource": PROVIDER_SOURCE,
            "terraformGeneratorMetadata": _AZURERM,
        }
        _create(self, "the provider", scope, id, settings)

    @property  # type: ignore[misc]  # cdktf's own has a setter, which does nothing
    @jsii.member(jsii_name="alias")
    def alias(self) -> str | None:
        """The name by which `provider=` tells this configuration from the stack's default."""
        return self._alias

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._attributes

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        return _hcl_attributes("provider", "azurerm", self._attributes)


class Backend(TerraformBackend):
    """Any backend with any settings: cdktf's own classes take those that were known when they were
    written."""

    def __init__(self, stack: Stack, kind: str, settings: Mapping[str, Any]) -> None:
        self._kind, self._settings = kind, settings
        super().__init__(stack, "backend", kind)

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._settings

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        from fairway_constructs.hcl import BACKEND, cdktf_attributes

        return cdktf_attributes(self._settings, BACKEND)

    @jsii.member(jsii_name="getRemoteStateDataSource")
    def get_remote_state_data_source(
        self, scope: Construct, name: str, _: str
    ) -> TerraformRemoteState:
        """The state by the same settings, for a stack that reads its outputs."""
        return _RemoteState(scope, name, self._kind, self._settings)


class _RemoteState(TerraformRemoteState):
    def __init__(self, scope: Construct, name: str, kind: str, settings: Mapping[str, Any]) -> None:
        # `http` and `remote` have one state by these settings, and no workspaces.
        workspace = {} if kind in ("http", "remote") else {"workspace": "${terraform.workspace}"}
        jsii.create(type(self), self, [scope, name, kind, workspace])
        self.add_override("config", settings)


def _hcl_attributes(section: str, type: str, attributes: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
    """The arguments as `cdktf synth --hcl` takes them."""
    from fairway_constructs.hcl import cdktf_attributes, shape_of

    return cdktf_attributes(attributes, shape_of(section, type))
