"""Rules on every resource: tags, valid names, and justified roles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import takes_tags
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.terraform.stack import Resources, every, resources_of_type
from fairway_core.documents import FieldError
from fairway_core.findings import Severity
from fairway_core.naming import OWN_TAGS, name_rule

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

_SUFFIX = re.compile(r"\$\{substr\(sha256\([^$]*\), 0, (?P<length>\d+)\)\}")
# Azure has each name of these types once: of groups in a subscription, of the others globally.
_GROUP = "azurerm_resource_group"
_GLOBAL = ("azurerm_storage_account", "azurerm_key_vault", "azurerm_container_registry")
# Arguments that end like the name of a parent, and say nothing of the place.
_NO_PLACE = ("computer_name", "sku_name")
# What tells one grant from another.
_OF_GRANT = (
    *("scope", "role_definition_name", "role_definition_id", "principal_id"),
    *("count", "for_each"),
)


@check("untagged", Severity.ERROR, Subject.TERRAFORM, select=every)
def untagged(type: str, arguments: Mapping[str, Any]) -> Iterator[Violation]:  # noqa: A002
    """A resource that could carry tags and lacks those by which it is found and billed.

    Wrong:
        azurerm_resource_group.group: {name: demo-rg-data}

    Right:
        azurerm_resource_group.group:
          {name: demo-rg-data, tags: {environment: demo, managed-by: fairway}}
    """
    tags = arguments.get("tags", {})
    missing = [tag for tag in OWN_TAGS if tag not in tags]
    if takes_tags(type) and missing:
        yield Violation(
            f"no tag {' nor '.join(missing)}", "give it the environment's tags", ("tags",)
        )


@check("azure-tags", Severity.ERROR, Subject.TERRAFORM, select=every)
def azure_tags(type: str, arguments: Mapping[str, Any]) -> Iterator[Violation]:  # noqa: A002
    """Tags that Azure would refuse: too many, or a name that it does not take.

    A private DNS zone takes 15 tags, and keeps none whose name has a space or begins with a digit.

    Wrong:
        azurerm_private_dns_zone.blob:
          {name: example.com, tags: {environment: demo, managed-by: fairway, cost centre: "7"}}

    Right:
        azurerm_private_dns_zone.blob:
          {name: example.com, tags: {environment: demo, managed-by: fairway, cost-centre: "7"}}
    """
    from fairway_core.environment.tags import check_number, require_valid_tags

    tags = arguments.get("tags")
    if not isinstance(tags, Mapping) or not takes_tags(type):
        return
    try:
        require_valid_tags({str(name): str(value) for name, value in tags.items()})
        check_number(tags, of_zone=type == "azurerm_private_dns_zone")
    except FieldError as error:
        yield Violation(str(error), error.hint, error.path)


@check("azure-name", Severity.ERROR, Subject.TERRAFORM, select=every)
def azure_name(type: str, arguments: Mapping[str, Any]) -> Iterator[Violation]:  # noqa: A002
    """A name that Azure would refuse: too long, or of characters that it does not take.

    A name that is taken in all of Azure ends in a stable suffix of eight characters, which
    counts.

    Wrong:
        azurerm_storage_account.storage:
          {name: h100-storage, network_rules: {default_action: Deny, ip_rules: [203.0.113.0/24]}}

    Right:
        azurerm_storage_account.storage:
          name: 'h100st${substr(sha256(join("-", ["id", "h100"])), 0, 8)}'
          network_rules: {default_action: Deny, ip_rules: [203.0.113.0/24]}
    """
    rule, name = name_rule(type.removeprefix("azurerm_")), arguments.get("name")
    if rule is None or not isinstance(name, str):
        return
    known = _SUFFIX.sub(lambda match: "x" * int(match["length"]), name)
    if "${" in known:
        return  # known only to Terraform
    if not rule.shortest <= len(known) <= rule.longest:
        yield Violation(
            f"`{name}` has {len(known)} characters",
            f"Azure takes {rule.shortest} to {rule.longest}",
            ("name",),
        )
    if not rule.signs and not rule.accepts(known):
        yield Violation(f"Azure does not accept `{name}`", rule.takes, ("name",))


@check("name-taken", Severity.ERROR, Subject.TERRAFORM)
def name_taken(
    resources: Resources, stack: str, subscription: str, taken: dict[Hashable, str]
) -> Iterator[Violation]:
    """A name that two resources of one kind would have in one place, where Azure has it once.

    Terraform would find that the second already exists, or change the first to be it. Resource
    groups, storage accounts, vaults and registries are compared across the stacks of a program too,
    as is everything in an existing resource group.

    Wrong:
        azurerm_network_security_group.train: {name: lab-nsg, resource_group_name: lab-rg}
        azurerm_network_security_group.tools: {name: lab-nsg, resource_group_name: lab-rg}

    Right:
        azurerm_network_security_group.train: {name: lab-nsg, resource_group_name: lab-rg}
        azurerm_network_security_group.tools: {name: lab-nsg, resource_group_name: lab-tools-rg}
        helm_release.train: {name: prometheus, namespace: train}
        helm_release.tools: {name: prometheus, namespace: tools}
    """
    for (type_, id_), given in every(resources):
        arguments = given["arguments"]
        # Other providers, including azapi, have their own scopes and kinds.
        if not str(type_).startswith("azurerm_") or not isinstance(arguments.get("name"), str):
            continue
        name, place = arguments["name"].lower(), _place(str(type_), arguments)
        in_subscription = ".subscription_id" in name  # in the suffix of a name, see `unique_suffix`
        is_known = "${" not in str(place) and ("${" not in name or in_subscription)
        where = ("", stack)
        if is_known and type_ in _GLOBAL and not in_subscription:
            where = ("", "")
        elif is_known and ("resource_group_name" in arguments or type_ == _GROUP):
            where = (subscription, "")
        address = f"{stack}/{type_}.{id_}" if stack else f"{type_}.{id_}"
        first = taken.setdefault((type_, name, place, where), address)
        if first != address:
            yield Violation(
                f"{first.removeprefix(f'{stack}/')} has the name `{arguments['name']}` already",
                "name one of the two otherwise, or put it in another resource group: a stack or "
                "use_resource_group of a program, with another `environment`",
                (type_, id_, "name"),
            )


def _place(type_: str, arguments: Mapping[str, Any]) -> Hashable:
    """Returns the arguments that may distinguish resources of one name: the group and parents.
    Without a group any id may be that of a parent."""
    ends: tuple[str, ...] = ("_name",)
    if type_ == _GROUP or type_ in _GLOBAL:
        ends = ()
    elif "resource_group_name" not in arguments:
        ends = ("_name", "_id", "scope")
    return frozenset(
        (argument, str(value))
        for argument, value in arguments.items()
        if argument in ("provider", "count", "for_each")
        or (argument.endswith(ends) and argument not in _NO_PLACE)
    )


@check(
    "broad-role",
    Severity.ERROR,
    Subject.TERRAFORM,
    select=resources_of_type("azurerm_role_assignment"),
)
def broad_role(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A role over everything, or one that does not say what it is for.

    Wrong:
        azurerm_role_assignment.nodes:
          {role_definition_name: Contributor, description: Nodes write results}

    Right:
        azurerm_role_assignment.nodes:
          {role_definition_name: Storage Blob Data Contributor, description: Nodes write results}
    """
    role = arguments.get("role_definition_name")
    if role in ("Owner", "Contributor", "User Access Administrator"):
        yield Violation(
            f"`{role}` allows far more than any node needs", "use a role for one service"
        )
    if not arguments.get("description"):
        yield Violation("this role has no description", "describe its purpose in `description`")


@check("grant-taken", Severity.ERROR, Subject.TERRAFORM)
def grant_taken(
    resources: Resources, stack: str, taken: dict[Hashable, str]
) -> Iterator[Violation]:
    """A role that is granted twice to one principal on one resource, where Azure has it once.

    Terraform would stop at the second: `RoleAssignmentExists`.

    Wrong:
        azurerm_role_assignment.nodes:
          {role_definition_name: Reader, scope: /a, principal_id: "1", description: Nodes read}
        azurerm_role_assignment.people:
          {role_definition_name: Reader, scope: /a, principal_id: "1", description: People read}

    Right:
        azurerm_role_assignment.nodes:
          {role_definition_name: Reader, scope: /a, principal_id: "1", description: Nodes read}
        azurerm_role_assignment.people:
          {role_definition_name: Reader, scope: /a, principal_id: "2", description: People read}
    """
    for match, given in resources_of_type("azurerm_role_assignment")(resources):
        said = [str(given["arguments"].get(argument, "")).lower() for argument in _OF_GRANT]
        where = stack if "${" in "".join(said) else ""
        address = ".".join(filter(None, (stack, *map(str, match))))
        first = taken.setdefault(("grant", where, *said), address)
        if first != address:
            message = f"{first.removeprefix(f'{stack}.')} grants the same role already"
            yield Violation(message, "leave out one of the two", match)
