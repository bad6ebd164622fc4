"""Resources and data sources: their arguments are a plain dict, and references to them are typed.

The classes for Azure's resources are generated: `fairway_constructs.azurerm`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.arguments import called, check_plain, checked
from fairway_constructs.azurerm import PROVIDER_VERSION
from fairway_constructs.bindings.blocks import terraform_value
from fairway_constructs.cdk.component import (
    Component,
    Signature,
    context_of,
    create,
    short_id,
)
from fairway_constructs.cdk.library import (
    Stack,
    TerraformDataSource,
    TerraformElement,
    TerraformProviderGeneratorMetadata,
    TerraformResource,
    TerraformResourceLifecycle,
    jsii,
    refuse,
)
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.validation import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_constructs.cdk.library import (
        Construct,
        IConstruct,
        ITerraformDependable,
        Node,
        TerraformProvider,
    )

# On every element, so that `required_providers` is always written.
AZURERM = TerraformProviderGeneratorMetadata(
    provider_name="azurerm", provider_version_constraint=PROVIDER_VERSION
)


class Arguments:
    """The arguments of a Terraform block, which attributes of the same names change.

    `TYPE` is the block's name in messages.
    """

    TYPE: ClassVar[str]

    _attributes: dict[str, Any]
    _arguments: frozenset[str] = frozenset()

    def _take(self, attributes: Mapping[str, object]) -> None:
        """Stores the given arguments, and the names of all possible ones. Raises UserError for a
        class without a type, and for arguments that are no mapping."""
        name = type(self).__name__
        if not hasattr(self, "TYPE"):
            hint = 'write in it the type, such as TYPE = "azurerm_container_app_environment"'
            raise UserError.of("no-type", f"{name} does not say of which type it is", hint)
        if not isinstance(attributes, Mapping):
            message = f"the arguments of {name} are {describe(attributes)}"
            raise UserError.of("wrong-argument", message, 'write a mapping: {"name": "…"}')
        for name, value in attributes.items():
            self._check(name, value)
        self._attributes = terraform_value(attributes)
        self._arguments = frozenset(attributes)

    def __setattr__(self, name: str, value: object) -> None:
        """Sets an argument, as `set_argument` does, or an attribute that is not one of Terraform's.

        An attribute of a program's own begins with an underscore, or is one of its subclass.
        Raises UserError for any other: it would be missing in Terraform.
        """
        arguments = self._arguments  # none before creation
        if name.rstrip("_") in arguments:
            self.set_argument(name, value)
        elif name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif self._has_no_class:
            self.set_argument(name, value)
        elif (near := did_you_mean(name, arguments, most=0)) or "TYPE" in vars(type(self)):
            hint = near or f"for an attribute of your own write `_{name}`"
            raise UserError.of("no-argument", f"{self.TYPE} has no argument `{name}`", hint)
        else:
            super().__setattr__(name, value)

    def _check(self, name: str, value: object) -> None:
        """Raises UserError for a value that a generated class does not allow, or that Terraform
        has no form of; blocks are not checked."""
        owner = next(each for each in type(self).__mro__ if "TYPE" in vars(each))
        if owner.__module__.startswith("fairway_constructs.azurerm."):
            types = owner.__init__.__annotations__  # type: ignore[misc]  # of this very class
            check_plain(self.TYPE, name, value, types.get(f"{name}_") or types.get(name, ""))
            return
        try:
            json.dumps(terraform_value(value), allow_nan=False, default=_token)
        except (TypeError, ValueError) as error:
            message = f"Terraform has no form of the value of `{name}` of {self.TYPE}: {error}"
            hint = "write text, numbers, lists and mappings"
            raise UserError.of("wrong-argument", message, hint) from None

    @property
    def _has_no_class(self) -> bool:
        """True if no class declares the arguments: any is accepted."""
        return type(self).__init__.__module__.startswith("fairway_constructs.cdk.")

    def set_argument(self, name: str, value: object) -> None:
        """Sets an argument to another value; None omits it.

        Raises UserError if the resource has no such argument, or one of another type.
        """
        name = name.rstrip("_")
        if self._has_no_class:
            self._arguments |= {name}
        elif name not in self._arguments:
            raise UserError.of(
                "no-argument",
                f"`{name}` of {self.TYPE} is Azure's to say, and no argument",
                did_you_mean(name, sorted(self._arguments)) or "assign to an argument of its class",
            )
        self._check(name, value)
        self._attributes.pop(name, None)
        self._attributes |= terraform_value({name: value})

    def given(self, name: str) -> Any:
        """Returns the current value of an argument, or None."""
        return self._attributes.get(name)


def _token(value: object) -> None:
    """Raises TypeError for a value that is not one of the CDK's own."""
    kind = type(value)
    of_library = hasattr(kind, "__jsii_type__") or kind.__module__.startswith("jsii.")
    if not (of_library or hasattr(value, "creation_stack")):
        raise TypeError(f"a {kind.__name__}")


class _Element(Arguments, TerraformElement):
    """The common base of resources and data sources; it precedes a class of cdktf's own."""

    __signature__ = Signature()

    terraform_address = ""

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            cls.__init__ = called(cls.__init__)  # type: ignore[method-assign]

    def __init__(
        self, scope: Construct, id: str, attributes: Mapping[str, object], **settings: object
    ) -> None:
        self._take(attributes)
        given = {name: value for name, value in settings.items() if value is not None}
        create(self, self.TYPE, scope, id, {"terraformResourceType": self.TYPE, **given})
        self._outside = context_of(scope)
        self._inside = self._outside.within(self, id)
        kind = "data." if isinstance(self, TerraformDataSource) else ""
        self.terraform_address = f"{kind}{self.TYPE}.{_address(self, scope, id)}"
        self._outside.addresses.take(self.terraform_address, "/".join(self._inside.path))

    @cached_property
    def node(self) -> Node:
        """The element's node in the tree."""
        return super().node

    @property
    def takes_tags(self) -> bool:
        """True if the resource supports tags."""
        return "tags" in self._arguments

    @property
    def tags_input(self) -> dict[str, str]:
        """A copy of the resource's current tags, from which others can be made; only resources that
        support tags have it."""
        if not self.takes_tags:
            raise AttributeError(f"Azure keeps no tags of {self.TYPE}")
        return dict(self._attributes.get("tags") or {})

    def reference(self, path: str) -> str:
        """Returns a reference to any attribute, for example "identity[0].principal_id"."""
        # Like `get_string_attribute`, without cdktf's checks before the query.
        return str(jsii.invoke(self, "getStringAttribute", [path]))

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        _add_dependencies(self)  # type: ignore[arg-type]  # all elements are of one of the two
        return self._attributes

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        section = "data" if isinstance(self, TerraformDataSource) else "resource"
        return hcl_attributes(section, self.TYPE, self._attributes)


class Resource(_Element, TerraformResource):
    """A managed resource; the generated classes name their type and arguments.

    `attributes` maps Terraform's names to plain values, blocks or None, which is omitted.

    >>> class ContainerAppEnvironment(Resource):
    ...     TYPE = "azurerm_container_app_environment"
    >>> apps = ContainerAppEnvironment(stack, "apps", {"name": "cae", **stack.azure.common})
    >>> apps.reference("default_domain")
    """

    PROVIDER: ClassVar[TerraformProviderGeneratorMetadata | None] = AZURERM

    def __init__(
        self,
        scope: Construct,
        id: str,
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
        """Yields resources created before this one and destroyed after it; called at synthesis."""
        yield from ()


class DataSource(_Element, TerraformDataSource):
    """A data source: like `Resource`, but read and never created.

    >>> class DataUserAssignedIdentity(DataSource):
    ...     TYPE = "azurerm_user_assigned_identity"
    >>> found = {"name": "team", "resource_group_name": "team-rg"}
    >>> DataUserAssignedIdentity(stack, "team", found).reference("principal_id")
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        attributes: Mapping[str, object],
        *,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: TerraformProvider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            attributes,
            terraformGeneratorMetadata=AZURERM,
            dependsOn=list(depends_on) or None,
            provider=provider,
        )


def _address(element: TerraformElement, scope: Construct, id: str) -> str:
    """Returns the last part of an element's address, short if possible."""
    if isinstance(scope, Stack):
        return short_id(id)
    if isinstance(scope, Component) and context_of(scope).short:
        jsii.invoke(element, "overrideLogicalId", [short_id(id)])
        return short_id(id)
    return element.friendly_unique_id


def _add_dependencies(element: Resource | DataSource) -> None:
    """Adds to `depends_on` the dependencies from `node.add_dependency`, of the element or its
    scopes, and those of `_comes_after`.

    cdktf itself ignores them. Queries take time, so constructs of ours whose `node` was never read
    are not queried.
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
    """Yields the addresses of a construct's resources. Raises UserError for another stack's."""
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


def hcl_attributes(section: str, type: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments in the form of `cdktf synth --hcl`."""
    from fairway_constructs.hcl import cdktf_attributes, shape_of

    return cdktf_attributes(attributes, shape_of(section, type))


@checked
@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Terraform's `lifecycle` block.

    `ignore_changes` takes attribute names or "all"; `replace_triggered_by` takes
    resources of the same stack, or addresses such as "terraform_data.x.output".

    >>> Lifecycle(prevent_destroy=True, ignore_changes=["tags"])
    """

    prevent_destroy: bool = False
    create_before_destroy: bool = False
    ignore_changes: Sequence[str] | Literal["all"] = ()
    replace_triggered_by: Sequence[Resource | str] = ()

    def to_terraform(self) -> TerraformResourceLifecycle:
        """Returns the block in cdktf's form, without settings that are false or empty.

        Raises UserError for an expression if Terraform requires an address.
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
    """Returns the resource's bare address: Terraform rejects cdktf's form, "${…}", here."""
    if isinstance(trigger, Resource):
        return trigger.terraform_address
    if "${" in trigger:
        raise UserError.of(
            "no-address",
            f"replace_triggered_by takes an address, not the expression {trigger}",
            'pass the resource, or its address: "terraform_data.x.output"',
        )
    return trigger
