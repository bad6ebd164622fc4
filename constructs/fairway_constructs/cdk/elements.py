"""Resources and data sources: their arguments are a plain dict, and references to them are typed.

The classes for Azure's resources are generated: `fairway_constructs.azurerm`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import PROVIDER_VERSION
from fairway_constructs.bindings.blocks import terraform_value
from fairway_constructs.cdk.component import (
    Component,
    Signature,
    create,
    short_id,
    surroundings,
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_constructs.cdk.library import (
        Construct,
        IConstruct,
        ITerraformDependable,
        Node,
        TerraformProvider,
    )

# On every element, so that `required_providers` is written whatever a stack holds.
AZURERM = TerraformProviderGeneratorMetadata(
    provider_name="azurerm", provider_version_constraint=PROVIDER_VERSION
)


class Arguments:
    """The arguments of a block of Terraform's, which attributes of the same names change.

    `TYPE` is what messages call the block.
    """

    TYPE: ClassVar[str]

    _attributes: dict[str, Any]
    _arguments: frozenset[str] = frozenset()

    def _take(self, attributes: Mapping[str, object]) -> None:
        """Has those that the block is made with, and those that it may have."""
        self._attributes = terraform_value(attributes)
        self._arguments = frozenset(attributes)

    def __setattr__(self, name: str, value: object) -> None:
        """Sets an argument, as `set_argument` does, or what is no argument of Terraform's.

        Raises UserError for what is only spelt nearly as an argument is.
        """
        arguments = self._arguments  # none before it is made
        if name.rstrip("_") in arguments:
            self.set_argument(name, value)
        elif name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif self._has_no_class:
            self.set_argument(name, value)
        elif near := did_you_mean(name, arguments, most=0):
            raise UserError.of("no-argument", f"{self.TYPE} has no argument `{name}`", near)
        else:
            super().__setattr__(name, value)

    @property
    def _has_no_class(self) -> bool:
        """True where nobody has said which arguments there are: all are taken."""
        return type(self).__init__.__module__.startswith("fairway_constructs.cdk.")

    def set_argument(self, name: str, value: object) -> None:
        """Gives an argument another value; None leaves it out.

        Raises UserError where the resource has no such argument.
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
        self._attributes.pop(name, None)
        self._attributes |= terraform_value({name: value})

    def given(self, name: str) -> Any:
        """The value that an argument has so far; None where it has none."""
        return self._attributes.get(name)


class _Element(Arguments, TerraformElement):
    """Common base of resources and data sources; a class of cdktf's own comes after it."""

    __signature__ = Signature()

    terraform_address = ""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        **settings: object,
    ) -> None:
        self._take(attributes)
        given = {name: value for name, value in settings.items() if value is not None}
        create(self, self.TYPE, scope, id, {"terraformResourceType": self.TYPE, **given})
        self._outside = surroundings(scope)
        self._inside = self._outside.within(self, id)
        kind = "data." if isinstance(self, TerraformDataSource) else ""
        self.terraform_address = f"{kind}{self.TYPE}.{_address(self, scope, id)}"
        self._outside.addresses.take(self.terraform_address, "/".join(self._inside.path))

    @cached_property
    def node(self) -> Node:
        """Its place in the tree."""
        return super().node

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
        return hcl_attributes(section, self.TYPE, self._attributes)


class Resource(_Element, TerraformResource):
    """A managed resource; the generated classes name their type and arguments.

    `attributes` maps Terraform's names to plain values, blocks or None, which is left out.
    """

    PROVIDER: ClassVar[TerraformProviderGeneratorMetadata | None] = AZURERM

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
            terraformGeneratorMetadata=AZURERM,
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


def hcl_attributes(section: str, type: str, attributes: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
    """The arguments as `cdktf synth --hcl` takes them."""
    from fairway_constructs.hcl import cdktf_attributes, shape_of

    return cdktf_attributes(attributes, shape_of(section, type))


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
