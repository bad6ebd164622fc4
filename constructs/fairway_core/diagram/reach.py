"""Who reaches whom: mounts, identities and their roles, endpoints, accounts of pools, backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.diagram.boxes import MACHINES, NODE_POOL, THERE_ALREADY, record_of
from fairway_core.diagram.picture import Arrow, Kind, Node
from fairway_core.diagram.terraform import Resource, text, texts
from fairway_core.json_values import nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.diagram.terraform import Terraform

    Drawn = dict[Resource, Node]

# Where machines are told what to mount.
_START_UP = ("custom_data", "start_task")
# Drawn around boxes, and not as boxes.
_NETWORKS = ("subnet", "virtual_network")
# What an arrow says from resources of some types to what an argument of theirs refers to.
_LINKS = (
    ("runs as", "identity_ids", *MACHINES),
    ("belongs to", "account_name", "batch_pool"),
    ("belongs to", "kubernetes_cluster_id", NODE_POOL),
    ("runs as", "identity_ids", "kubernetes_cluster"),
    ("its nodes run as", "user_assigned_identity_id", "kubernetes_cluster"),
)
_PRINCIPALS = {"ServicePrincipal": "service principal", "User": "user", "Group": "group"}


def arrows(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """The arrows between boxes; adds boxes for principals and scopes that have none yet."""
    yield from _mounts(terraform, drawn)
    yield from _roles(terraform, drawn)
    for label, argument, *types in _LINKS:
        yield from _links(terraform, drawn, label, argument, *types)
    for trusted, cluster in terraform.references("issuer", "federated_identity_credential"):
        for identity in terraform.argument(trusted, "user_assigned_identity_id"):
            yield Arrow(drawn[cluster].id, drawn[identity].id, "pods of jobs act as")
    for bastion in terraform.of("bastion_host"):
        for machine in _logins(terraform, bastion):
            yield Arrow(drawn[bastion].id, drawn[machine].id, "SSH")
    yield from _services(terraform, drawn)
    yield from _backups(terraform, drawn)


def _links(
    terraform: Terraform, drawn: Drawn, label: str, argument: str, *types: str
) -> Iterator[Arrow]:
    """One arrow a reference; `{}` in the label is the name of what is referred to."""
    for resource, other in terraform.references(argument, *types):
        if other in drawn:
            yield Arrow(drawn[resource].id, drawn[other].id, label.format(other.name))


def _mounts(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From machines to the file systems, and to other machines, that their start-up data names."""
    # What Flux reads has the volumes of all pools.
    volumes = [
        blob.arguments.get("source_content")
        for blob in terraform.of("storage_blob")
        if text(blob.arguments.get("name")).endswith("/volumes.yaml")
    ]
    for machine in terraform.of(*MACHINES):
        is_pool, record = machine.type == NODE_POOL, record_of(terraform, machine)
        start_up = [machine.arguments.get(name) for name in _START_UP]
        met: dict[Node, list[str]] = {}
        for other in terraform.referred(volumes if is_pool else start_up, machine.stack):
            node = drawn.get(other, drawn[machine])
            if node is not drawn[machine] and node.kind in (Kind.FILES, Kind.MACHINES):
                met.setdefault(node, []).append(other.name)
        for node, names in met.items():
            paths = record["mounts"].items() if record else ()
            found = (path for mount, path in paths if any(n.endswith(f"-{mount}") for n in names))
            path = next(found, "")
            if path or not is_pool:  # else another pool's
                what = "mounts" if node.kind is Kind.FILES else "reaches"
                yield Arrow(drawn[machine].id, node.id, f"{what} {path}".strip())


def _roles(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From identities to what they have a role on: one arrow a role, whatever its parts."""
    parts: dict[tuple[str, str, str], list[str]] = {}
    for grant in terraform.of("role_assignment"):
        source, role = _principal(terraform, grant, drawn), _role(terraform, grant)
        around = [one for one in terraform.argument(grant, "scope") if one.type in _NETWORKS]
        if around:  # no box: it is drawn around others
            line = f"{role} on {around[0].name}"
            source.lines += () if line in source.lines else (line,)
            continue
        target, part = _scope(terraform, grant, drawn)
        parts.setdefault((source.id, target.id, role), []).extend([part] if part else ())
    for (source_id, target_id, role), names in parts.items():
        yield Arrow(source_id, target_id, f"{role}: {', '.join(names)}" if names else role)


def _role(terraform: Terraform, grant: Resource) -> str:
    """The role by its name in Azure, one of our own as it is called in Terraform."""
    named = terraform.argument(grant, "role_definition_id")
    own = named[0].key if named else "a role"
    return text(grant.arguments.get("role_definition_name")) or own


def _principal(terraform: Terraform, grant: Resource, drawn: Drawn) -> Node:
    for one in terraform.argument(grant, "principal_id"):
        return _box(drawn, one, Kind.IDENTITY)
    id_ = text(grant.arguments.get("principal_id"))
    if "azurerm_client_config" in id_:
        lines = ("user or service principal", "deployed this first")
        return _outside(drawn, "principal", "the deployer", Kind.IDENTITY, *lines)
    what = _PRINCIPALS.get(text(grant.arguments.get("principal_type")), "user or group")
    return _outside(drawn, "principal", id_, Kind.IDENTITY, what, "named in the environment file")


def _scope(terraform: Terraform, grant: Resource, drawn: Drawn) -> tuple[Node, str]:
    """The box that the role is for, and the part of it where it is not for the whole."""
    for one in terraform.argument(grant, "scope"):
        node = _box(drawn, one, Kind.SERVICE)
        return node, one.name if one.name != node.title else ""
    scope = text(grant.arguments.get("scope"))
    id_, _, container = scope.partition("/blobServices/default/containers/")
    title = id_.rpartition("/")[2] if "/resourceGroups/" in id_ else "the subscription"
    return _outside(drawn, "scope", title, Kind.SERVICE, THERE_ALREADY), container


def _box(drawn: Drawn, one: Resource, kind: Kind) -> Node:
    """The box of a resource, which may have had none."""
    return drawn.setdefault(one, Node(one.id, kind, one.name, (one.type.replace("_", " "),)))


def _outside(drawn: Drawn, what: str, title: str, kind: Kind, *lines: str) -> Node:
    """The box of something that the stacks name and do not make."""
    one = Resource("", what, title)
    return drawn.setdefault(one, Node(one.id, kind, title, lines))


def _logins(terraform: Terraform, bastion: Resource) -> Iterator[Resource]:
    """The machines in subnets whose rules let SSH in from the bastion's subnet."""
    own = terraform.argument(bastion, "subnet_id")
    ranges = {prefix for subnet in own for prefix in subnet.arguments.get("address_prefixes", ())}
    associations = "subnet_network_security_group_association"
    opened = {
        subnet
        for one, rules in terraform.references("network_security_group_id", associations)
        if any(_lets_ssh_in(rule, ranges) for rule in rules.arguments.get("security_rule", ()))
        for subnet in terraform.argument(one, "subnet_id")
    }
    for machine in terraform.of("linux_virtual_machine", "linux_virtual_machine_scale_set"):
        placed = (machine, *terraform.argument(machine, "network_interface_ids"))
        if any(opened.intersection(terraform.argument(one, "subnet_id")) for one in placed):
            yield machine


def _lets_ssh_in(rule: Mapping[str, Any], ranges: set[str]) -> bool:
    ports = texts([rule.get("destination_port_range"), rule.get("destination_port_ranges")])
    sources = texts([rule.get("source_address_prefix"), rule.get("source_address_prefixes")])
    allows = rule.get("access") == "Allow" and rule.get("direction") == "Inbound"
    return allows and "22" in ports and not ranges.isdisjoint(sources)


def _services(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """Private endpoints, imports of Lustre, and keys in vaults."""
    argument = "private_connection_resource_id"
    for endpoint in terraform.of("private_endpoint"):
        nodes = [drawn[one] for one in terraform.argument(endpoint, argument) if one in drawn]
        for service in texts(list(nested(endpoint.arguments, argument))):
            if "/storageAccounts/" in service:
                title = service.rpartition("/")[2]
                nodes.append(_outside(drawn, "scope", title, Kind.SERVICE, THERE_ALREADY))
        yield from (Arrow(drawn[endpoint].id, node.id, "") for node in nodes)
    imports = ("imports {}", "container_id", "managed_lustre_file_system")
    keys = ("encrypted with its key", "key_vault_key_id", "storage_account")
    for link in (imports, keys):
        yield from _links(terraform, drawn, *link)


def _backups(terraform: Terraform, drawn: Drawn) -> Iterator[Arrow]:
    """From machines to the vaults that keep their backups."""
    for protected, vault in terraform.references("recovery_vault_name", "backup_protected_vm"):
        # The machine is named by a text of Azure's; what it must be made before says which.
        for one in terraform.referred(dict(protected.arguments), protected.stack):
            if one.type in MACHINES:
                yield Arrow(drawn[one].id, drawn[vault].id, "backed up")
