"""Who reaches whom: mounts, identities and their roles, endpoints, accounts of pools, backups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.checks.blocks import first
from fairway_core.diagram.boxes import MACHINES, NODE_POOL, target_of
from fairway_core.diagram.picture import Arrow, Kind, Node
from fairway_core.diagram.terraform import Address, Resource, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.diagram.terraform import Terraform

    Drawn = dict[Resource, Node]

# Where machines are told what to mount.
_START_UP = ("custom_data", "start_task")
# Drawn around boxes, and not as boxes.
_NETWORKS = ("subnet", "virtual_network")


def arrows(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """The arrows between boxes; adds boxes for principals and scopes that have none yet."""
    yield from _mounts(terraform, drawn)
    yield from _roles(terraform, drawn)
    yield from _to_others(terraform, drawn, MACHINES, "identity_ids", "runs as")
    yield from _to_others(terraform, drawn, ("batch_pool",), "account_name", "belongs to")
    yield from _to_others(terraform, drawn, (NODE_POOL,), "kubernetes_cluster_id", "belongs to")
    kubernetes = ("kubernetes_cluster",)
    yield from _to_others(terraform, drawn, kubernetes, "identity_ids", "runs as")
    kubelet = "user_assigned_identity_id"
    yield from _to_others(terraform, drawn, kubernetes, kubelet, "its nodes run as")
    for trusted in terraform.of("federated_identity_credential"):
        for cluster in terraform.argument(trusted, "issuer"):
            for identity in terraform.argument(trusted, kubelet):
                yield Arrow(drawn[cluster].id, drawn[identity].id, "pods of jobs act as")
    for bastion in terraform.of("bastion_host"):
        for machine in _logins(terraform, bastion):
            yield Arrow(drawn[bastion].id, drawn[machine].id, "SSH")
    yield from _services(terraform, drawn)
    yield from _backups(terraform, drawn)


def _to_others(
    terraform: Terraform, drawn: Drawn, types: Sequence[str], argument: str, label: str
) -> Iterator[Arrow]:
    """From resources of the types to what an argument of theirs refers to."""
    for resource in terraform.of(*types):
        for other in terraform.argument(resource, argument):
            if other in drawn:
                yield Arrow(drawn[resource].id, drawn[other].id, label)


def _mounts(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From machines to the file systems, and to other machines, that their start-up data names."""
    targets = terraform.targets()
    # What Flux reads has the volumes of all pools.
    volumes = [
        blob.arguments.get("source_content")
        for blob in terraform.of("storage_blob")
        if text(blob.arguments.get("name")).endswith("/volumes.yaml")
    ]
    for machine in terraform.of(*MACHINES):
        record = target_of(machine, targets)
        start_up = [machine.arguments.get(name) for name in _START_UP]
        if machine.type == NODE_POOL:
            start_up = volumes
        met: dict[Node, list[str]] = {}
        for other in terraform.referred(start_up, machine.address.stack):
            node = drawn.get(other)
            if node is None or node == drawn[machine]:
                continue
            if node.kind in (Kind.FILES, Kind.MACHINES):
                met.setdefault(node, []).append(other.name)
        for node, names in met.items():
            paths = record["mounts"] if record else {}
            path = next((path for mount, path in paths.items() if _called(mount, names)), "")
            if machine.type == NODE_POOL and not path:
                continue  # another pool's
            what = "mounts" if node.kind is Kind.FILES else "reaches"
            yield Arrow(drawn[machine].id, node.id, f"{what} {path}".strip())


def _called(mount: str, names: list[str]) -> bool:
    return any(name.endswith(f"-{mount}") for name in names)


def _roles(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From identities to what they have a role on: one arrow a role, whatever its parts."""
    parts: dict[tuple[str, str, str], list[str]] = {}
    for grant in terraform.of("role_assignment"):
        source, role = _principal(terraform, grant, drawn), _role(terraform, grant)
        around = [one for one in terraform.argument(grant, "scope") if one.type in _NETWORKS]
        if around:  # no box: it is drawn around others
            _add_line(drawn, source, f"{role} on {around[0].name}")
            continue
        target, part = _scope(terraform, grant, drawn)
        listed = parts.setdefault((source.id, target.id, role), [])
        if part:
            listed.append(part)
    for (source_id, target_id, role), names in parts.items():
        label = f"{role}: {', '.join(names)}" if names else role
        yield Arrow(source_id, target_id, label)


def _role(terraform: Terraform, grant: Resource) -> str:
    """The role by its name in Azure, one of our own as it is called in Terraform."""
    named = terraform.argument(grant, "role_definition_id")
    own = named[0].address.name if named else "a role"
    return text(grant.arguments.get("role_definition_name")) or own


def _add_line(drawn: Drawn, node: Node, line: str) -> None:
    """One more line in a box, which may be that of several resources."""
    for resource, known in drawn.items():
        if known.id == node.id and line not in known.lines:
            drawn[resource] = replace(known, lines=(*known.lines, line))


def _principal(terraform: Terraform, grant: Resource, drawn: Drawn) -> Node:
    for one in terraform.argument(grant, "principal_id"):
        if one in drawn:
            return drawn[one]
        return drawn.setdefault(one, Node(one.id, Kind.IDENTITY, one.name, (_words(one),)))
    id_ = text(grant.arguments.get("principal_id"))
    if "azurerm_client_config" in id_:
        lines = ("user or service principal", "deployed this first")
        return _outside(drawn, "principal", "the deployer", Kind.IDENTITY, lines)
    what = _PRINCIPALS.get(text(grant.arguments.get("principal_type")), "user or group")
    return _outside(drawn, "principal", id_, Kind.IDENTITY, (what, "named in the environment file"))


_PRINCIPALS = {"ServicePrincipal": "service principal", "User": "user", "Group": "group"}


def _scope(terraform: Terraform, grant: Resource, drawn: Drawn) -> tuple[Node, str]:
    """The box that the role is for, and the part of it where it is not for the whole."""
    for one in terraform.argument(grant, "scope"):
        node = drawn.setdefault(one, Node(one.id, Kind.SERVICE, one.name, (_words(one),)))
        return node, one.name if one.name != node.title else ""
    scope = text(grant.arguments.get("scope"))
    title = "the subscription" if "/resourceGroups/" not in scope else scope.rpartition("/")[2]
    account, _, container = scope.partition("/blobServices/default/containers/")
    if container:
        return _account_there_already(drawn, account), container
    return _outside(drawn, "scope", title, Kind.SERVICE, _THERE), ""


_THERE = ("there already",)


def _account_there_already(drawn: Drawn, account: str) -> Node:
    return _outside(drawn, "scope", account.rpartition("/")[2], Kind.SERVICE, _THERE)


def _outside(drawn: Drawn, what: str, title: str, kind: Kind, lines: tuple[str, ...]) -> Node:
    """The box of something that the stacks name and do not make."""
    one = Resource(Address("", what, title), {})
    return drawn.setdefault(one, Node(one.id, kind, title, lines))


def _words(resource: Resource) -> str:
    return resource.type.replace("_", " ")


def _logins(terraform: Terraform, bastion: Resource) -> list[Resource]:
    """The machines in subnets whose rules let SSH in from the bastion's subnet."""
    ranges = {
        prefix
        for subnet in terraform.argument(bastion, "subnet_id")
        for prefix in subnet.arguments.get("address_prefixes", ())
    }
    opened = {
        subnet
        for association in terraform.of("subnet_network_security_group_association")
        for rules in terraform.argument(association, "network_security_group_id")
        if _lets_ssh_in(rules, ranges)
        for subnet in terraform.argument(association, "subnet_id")
    }
    return [
        machine
        for machine in terraform.of("linux_virtual_machine", "linux_virtual_machine_scale_set")
        if opened & set(_subnets(terraform, machine))
    ]


def _subnets(terraform: Terraform, machine: Resource) -> Iterator[Resource]:
    for one in (machine, *terraform.argument(machine, "network_interface_ids")):
        yield from terraform.argument(one, "subnet_id")


def _lets_ssh_in(rules: Resource, ranges: set[str]) -> bool:
    return any(
        rule.get("access") == "Allow"
        and rule.get("direction") == "Inbound"
        and "22" in (rule.get("destination_port_range"), *_listed(rule, "destination_port_ranges"))
        and ranges & {rule.get("source_address_prefix"), *_listed(rule, "source_address_prefixes")}
        for rule in rules.arguments.get("security_rule", ())
    )


def _listed(rule: dict[str, object], name: str) -> list[str]:
    value = rule.get(name)
    return value if isinstance(value, list) else []


def _services(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """Private endpoints, imports of Lustre, and keys in vaults."""
    for endpoint in terraform.of("private_endpoint"):
        for other in terraform.argument(endpoint, "private_connection_resource_id"):
            if other in drawn:
                yield Arrow(drawn[endpoint].id, drawn[other].id, "")
        connection = first(endpoint.arguments.get("private_service_connection"))
        service = text(connection.get("private_connection_resource_id"))
        if "/storageAccounts/" in service:
            yield Arrow(drawn[endpoint].id, _account_there_already(drawn, service).id, "")
    for system in terraform.of("managed_lustre_file_system"):
        for container in terraform.argument(system, "container_id"):
            yield Arrow(drawn[system].id, drawn[container].id, f"imports {container.name}")
    for account in terraform.of("storage_account"):
        for vault in terraform.argument(account, "key_vault_key_id"):
            yield Arrow(drawn[account].id, drawn[vault].id, "encrypted with its key")


def _backups(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From machines to the vaults that keep their backups."""
    for protected in terraform.of("backup_protected_vm"):
        # The machine is named by a text of Azure's; what it must be made before says which.
        referred = terraform.referred(dict(protected.arguments), protected.address.stack)
        machines = [one for one in referred if one.type in MACHINES]
        for vault in terraform.argument(protected, "recovery_vault_name"):
            for machine in machines:
                yield Arrow(drawn[machine].id, drawn[vault].id, "backed up")
