"""The stack that provides the surroundings of constructs: provider, resource group, names, tags."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import provider
from fairway_constructs.cdk import NoTags, Signature, Stack, Validation, context_of, refuse
from fairway_constructs.scope import azure_scope_of, set_azure_scope, use_resource_group
from fairway_core.catalog.limits import require_region
from fairway_core.checks.check import CheckContext
from fairway_core.checks.runner import require_known
from fairway_core.findings import Severity, UserError
from fairway_core.naming import Naming, check_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

    from fairway_constructs.azure_scope import AzureScope
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_core.environment.keys import SshKey
    from fairway_core.environment.tags import TagArgument
    from fairway_core.environment.values import Location, StackId, Zone
    from fairway_core.naming import NameParts
    from fairway_core.resource_ids import ResourceGroupId

_FEATURES = provider.Features(
    # Containers are created through the management plane: the account's data plane is closed.
    storage=provider.FeaturesStorage(data_plane_available=False),
    # A deleted vault can be recovered until its retention ends.
    key_vault=provider.FeaturesKeyVault(purge_soft_delete_on_destroy=False),
    # `protect` decides whether a volume may be destroyed, as for all resources with data.
    netapp=provider.FeaturesNetapp(prevent_volume_destruction=False),
    # A change of the model must never restart nodes in the middle of a job.
    virtual_machine_scale_set=provider.FeaturesVirtualMachineScaleSet(
        roll_instances_when_required=False, reimage_on_manual_upgrade=False
    ),
)


@checked
class EnvironmentStack(Stack):
    """A stack whose constructs find provider, resource group, names and tags by themselves.

    Everything in it goes into one new resource group, `group_name`, or into `resource_group`, the
    id of an existing one. Names begin with `environment`, by default the stack's id, which is also
    a tag; `naming` overrides names by a pattern such as "{type}-{environment}-{name}", or by a
    function from `NameParts` to a name. Machines accept the `ssh_keys`. The provider uses no keys
    of storage accounts, and never accesses their data plane. With `protect` neither Terraform nor
    Azure deletes resources that hold data.

    With `short_addresses` a resource's address has its id, `azurerm_virtual_network.vnet`, and two
    constructs of one class need different names; otherwise an address is made from the path of the
    resource. Neither ever depends on the order of statements.

    When the stack is written, it is checked like that of an environment file: `app.synth()` raises
    UserError for resources that are open to the internet, broken or unprotected, unless
    `ignore_checks` names the rule.

    >>> stack = EnvironmentStack(app, "lab", location="westeurope", zone=2)
    >>> Network(stack, address_space="10.40.0.0/16")
    """

    __signature__ = Signature()
    tags = NoTags()

    def __init__(
        self,
        scope: Construct,
        id: StackId,
        *,
        location: Location,
        zone: Zone | None = None,
        tags: TagArgument | None = None,
        environment: str | None = None,
        role: str = "",
        group_name: str | None = None,
        resource_group: ResourceGroupId | None = None,
        proxy: MachineProxy | None = None,
        ssh_keys: Sequence[SshKey] = (),
        protect: bool = True,
        naming: Naming | Callable[[NameParts], str] | str | None = None,
        deletes_deployed: bool = False,
        short_addresses: bool = False,
        checks: bool = True,
        ignore_checks: Collection[str] = (),
    ) -> None:
        require_known(ignore_checks)
        if checks and "unknown-region" not in ignore_checks:
            require_region("location", location, 'if it does: ignore_checks=["unknown-region"]')
        super().__init__(scope, id)
        self.short_addresses = short_addresses
        # A key is deleted with its vault: Azure deletes no key through the management plane.
        templates = provider.FeaturesTemplateDeployment(
            delete_nested_items_during_deletion=deletes_deployed
        )
        features = replace(_FEATURES, template_deployment=templates)
        provider.AzurermProvider(self, features=features, storage_use_azuread=True)
        use_resource_group(
            self,
            environment=environment or id,
            role=role,
            location=location,
            zone=zone,
            tags=tags,
            name=group_name,
            existing=resource_group,
            proxy=proxy,
            ssh_keys=ssh_keys,
            protect=protect,
            naming=_naming(naming),
        )

        if checks:
            self.node.add_validation(_Checks(self, frozenset(ignore_checks)))

    @property
    def azure(self) -> AzureScope:
        """The stack's resource group and region, with names and tags."""
        return azure_scope_of(self)

    @azure.setter
    def azure(self, azure: AzureScope) -> None:
        set_azure_scope(self, azure)


def _naming(given: Naming | Callable[[NameParts], str] | str | None) -> Naming:
    """Returns the program's naming; a function may not return one name for two resources."""
    naming = Naming(given, given) if isinstance(given, str) else given or Naming()
    chosen = naming.function if isinstance(naming, Naming) else naming
    if chosen is None:
        assert isinstance(naming, Naming), "a function is chosen"
        for pattern in (naming.pattern, naming.unique):
            check_pattern(pattern)
        return naming
    taken = dict[tuple[str, str, str], tuple[str, str]]()

    def distinct(of: NameParts) -> str:
        name, own = chosen(of), (of.kind, of.name)
        if not isinstance(name, str):
            message = f"`naming` gives a {of.kind} a {type(name).__name__} for its name"
            raise UserError.of("bad-name", message, "return text in every case, such as of.default")
        kind = "key_vault" if of.kind.endswith("key_vault") else of.kind
        first = taken.setdefault((of.environment, kind, name.lower()), own)
        if first != own:
            both = " and ".join(" ".join(filter(None, each)) for each in (first, own))
            message = f"`naming` gives two resources the name `{name}`: {both}"
            hint = "make it of `kind` and `name` too, or of `default`, which is"
            raise UserError.of("name-taken", message, hint)
        return name

    return Naming(function=distinct)


class _Checks(Validation):
    """The rules on Terraform, as a validation of the construct tree."""

    def __init__(self, stack: Stack, ignore: frozenset[str]) -> None:
        self._stack, self._ignore = stack, ignore
        # The address of each name in the app.
        self._taken: dict[Hashable, str] = vars(stack.node.root).setdefault("_taken", {})

    def validate(self) -> list[str]:
        """Returns the errors of the stack, each with its hint."""
        from fairway_core.checks import check_clusters, check_stack

        inside, document = context_of(self._stack), self._stack.to_terraform()
        opened = {**inside.addresses.opened, "protect": inside.scope_and_azure[1].protect}
        name = self._stack.node.id
        found = check_clusters(inside.addresses.clusters, ignore=self._ignore)
        found += check_stack(
            document, CheckContext(**opened), ignore=self._ignore, name=name, taken=self._taken
        )
        errors = [
            replace(each, message=f"{name}: {each.path}: {each.message}")
            for each in found
            if each.severity is Severity.ERROR
        ]
        if errors:
            refuse(UserError(errors))
        # A plain cdktf app shows only these.
        return [str(UserError([each])) for each in errors]
