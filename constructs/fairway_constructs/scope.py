"""The `AzureScope` and the tags that a scope gives to the constructs in it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fairway_constructs.arguments import checked
from fairway_constructs.azure_scope import AzureScope
from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.azurerm.data_resource_group import DataResourceGroup
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.cdk import Aspect, Aspects, Component, Output, Resource, context_of
from fairway_core.environment.tags import require_own_tags, require_valid_tags
from fairway_core.findings import UserError
from fairway_core.naming import Naming, unique_suffix
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_constructs.cdk import Construct, IConstruct
    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_core.environment.keys import SshKey
    from fairway_core.environment.tags import TagArgument
    from fairway_core.environment.values import Location, Zone
    from fairway_core.resource_ids import ResourceGroupId


T = TypeVar("T")


def azure_scope_of(scope: Construct) -> AzureScope:
    """Returns the `AzureScope` of the nearest enclosing scope with one, such as an
    `EnvironmentStack`.

    Raises UserError if there is none.
    """
    return context_of(scope).scope_and_azure[1]


def set_azure_scope(scope: Construct, azure: AzureScope) -> None:
    """Sets the `AzureScope` of the constructs that are created in `scope` from now on."""
    vars(scope)["_azure_scope"] = azure


def once(scope: Construct, id: str, make: Callable[[Construct, str], T]) -> T:
    """Returns the one construct of this kind in an environment; `make` gets the scope of the
    environment, and the id.
    """
    inside = context_of(scope)
    owner, azure = inside.scope_and_azure
    return inside.addresses.shared((id, azure.environment), lambda: make(owner, id))


@checked
def use_resource_group(
    scope: Construct,
    id: str = "group",
    *,
    environment: str,
    role: str = "",
    location: Location,
    zone: Zone | None = None,
    tags: TagArgument | None = None,
    name: str | None = None,
    existing: ResourceGroupId | None = None,
    proxy: MachineProxy | None = None,
    ssh_keys: Sequence[SshKey] = (),
    protect: bool = True,
    naming: Naming | None = None,
) -> AzureScope:
    """Creates a resource group for everything that is created in `scope` from now on.

    Its `name` is by default made from the environment and the role; the environment's name and the
    tool's are added to `tags`. With `existing`, the id of an existing group, none is created. Names
    follow `naming`, or that of the enclosing scope. An `EnvironmentStack` calls it for itself; with
    it a group of constructs may have its own resource group.

    >>> use_resource_group(Construct(stack, "second"), environment="h200",
    ...                    location="southcentralus")
    """
    if naming is None:
        naming = Naming()
        with suppress(UserError):
            naming = azure_scope_of(scope).naming
    tags = {**(tags or {}), "environment": environment, "managed-by": "fairway"}
    group: _ExistingGroup | ResourceGroup
    if existing:
        group = _ExistingGroup(scope, id, existing)
    else:
        name = name or naming.name("resource_group", environment, role, region=location)
        group = ResourceGroup(scope, id, name=name, location=location, tags=tags)
    azure = AzureScope(
        environment=environment,
        resource_group=group.name,
        location=location,
        zone=zone,
        tags=tags,
        group_id=group.id,
        shared=existing is not None,
        proxy=proxy,
        ssh_keys=ssh_keys,
        protect=protect,
        naming=naming,
    )
    set_azure_scope(scope, azure)
    return azure


class _ExistingGroup(Component):
    """An existing resource group, which stays when everything in it is destroyed.

    The plan fails if Terraform deploys to another subscription than the group's.
    """

    def __init__(self, scope: Construct, id: str, group_id: str) -> None:
        super().__init__(scope, id)
        self.id = group_id
        self.name = parts_of("resource group", group_id)["name"]
        found = DataResourceGroup(self, "group", name=self.name).reference("id")
        precondition(
            self,
            "resource_group",
            # Azure ignores case in ids.
            f'lower({found}) == "{group_id.lower()}"',
            f"{self.name} is in another subscription than Terraform deploys to: correct its "
            "id, or choose the subscription with ARM_SUBSCRIPTION_ID",
            value=group_id,
            description="Existing resource group",
        )


def precondition(
    scope: Component, name: str, condition: str, message: str, *, value: str, description: str
) -> None:
    """Creates an output whose precondition is the Terraform expression `condition`: unless it
    holds, Terraform fails with `message`.
    """
    output = Output(
        scope, name, value=value, description=description, static_id=scope.short_addresses
    )
    # An override: cdktf accepts a precondition of an output, but does not write it.
    output.add_override(
        "precondition", {"condition": f"${{{condition}}}", "error_message": message}
    )


def client_config(scope: Construct) -> DataClientConfig:
    """Returns the principal that runs Terraform, and its subscription; read once per stack."""
    inside = context_of(scope)
    return inside.addresses.shared("current", lambda: DataClientConfig(inside.stack, "current"))


def subscription_of(scope: Construct) -> str:
    """Returns the resource id of the subscription that is deployed to."""
    return f"/subscriptions/{client_config(scope).subscription_id}"


def id_in_group(scope: Construct, type: str, name: str) -> str:
    """Returns the id of the resource with that type and name in the group of `scope`: it is known
    before the resource is created, and while it is being replaced.
    """
    group = f"{subscription_of(scope)}/resourceGroups/{azure_scope_of(scope).resource_group}"
    return f"{group}/providers/{type}/{name}"


def unique_name(scope: Construct, kind: str, *parts: str) -> str:
    """Returns a name of that kind with these parts, completed from the subscription's id."""
    azure = azure_scope_of(scope)
    suffix = unique_suffix(client_config(scope).subscription_id, azure.environment)
    return azure.name(kind, *parts, suffix=suffix)


@checked
class Tags:
    """Tags of all resources below a construct or a stack that support tags.

    >>> Tags.of(stack).add("cost-centre", "4711")
    """

    def __init__(self, scope: Construct) -> None:
        self._scope = scope

    @classmethod
    def of(cls, scope: Construct) -> Tags:
        """Returns the tags of the resources below `scope`."""
        return cls(scope)

    def add(self, name: str, value: str) -> None:
        """Adds a tag, also to resources created later; it replaces an existing tag of that name,
        but none that Fairway sets."""
        require_own_tags({name: value})
        require_valid_tags({name: value})
        Aspects.of(self._scope).add(_Tag(name, value))


class _Tag(Aspect):
    def __init__(self, name: str, value: str) -> None:
        self._tag = {name: value}

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, Resource) and node.takes_tags:
            # Azure ignores the case of tag names: an existing one keeps its spelling.
            has = {name.lower(): name for name in node.tags_input}
            own = {has.get(name.lower(), name): value for name, value in self._tag.items()}
            node.tags = {**node.tags_input, **own}
