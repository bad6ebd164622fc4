"""An environment as Azure has it after deployment, read from its synthesized stacks.

Every resource has its id in Azure, references are filled in, and role assignments are as the stacks
make them: what a stack forgets to allow is refused.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.roles import Permission, built_in_roles
from fairway_simulator.azure.additions import id_for
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.expressions import fill_in
from fairway_simulator.azure.rights import Assignment, Rights

if TYPE_CHECKING:
    from collections.abc import Mapping

# Azure's types of Terraform's resources that lie directly in a resource group.
_TYPES = {
    "azurerm_batch_account": "Microsoft.Batch/batchAccounts",
    "azurerm_container_registry": "Microsoft.ContainerRegistry/registries",
    "azurerm_key_vault": "Microsoft.KeyVault/vaults",
    "azurerm_kubernetes_cluster": "Microsoft.ContainerService/managedClusters",
    "azurerm_linux_virtual_machine": "Microsoft.Compute/virtualMachines",
    "azurerm_linux_virtual_machine_scale_set": "Microsoft.Compute/virtualMachineScaleSets",
    "azurerm_network_interface": "Microsoft.Network/networkInterfaces",
    "azurerm_storage_account": "Microsoft.Storage/storageAccounts",
    "azurerm_user_assigned_identity": "Microsoft.ManagedIdentity/userAssignedIdentities",
    "azurerm_virtual_network": "Microsoft.Network/virtualNetworks",
}
# Resources inside another resource: the argument with its id, and the path in between.
_INSIDE = {
    "azurerm_key_vault_key": ("key_vault_id", "keys"),
    "azurerm_storage_container": ("storage_account_id", "blobServices/default/containers"),
}
# Resources whose ids have other forms.
_OTHERS = frozenset(
    {
        "azurerm_batch_pool",
        "azurerm_resource_group",
        "azurerm_role_assignment",
        "azurerm_role_definition",
        "azurerm_subnet",
    }
)
# The credential with which Azure accepts a Kubernetes service account as an identity.
_TRUST = "azurerm_federated_identity_credential"
_SUBSCRIPTION = f"/subscriptions/{NOBODY}"
# The first bytes of gzip, in which long boot data is.
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Deployed:
    """A resource: Terraform's type and key, the arguments of the stack, and Azure's id."""

    type: str
    key: str
    arguments: Mapping[str, Any]
    id: str


class Deployment:
    """Resources of an environment's stacks, which are given by their roles.

    `host` is the server of its vaults, each below a folder of its name. Raises KeyError if a stack
    refers to a missing resource, or assigns a role that the catalogue does not know.

    >>> deployed = Deployment({"network": {...}, "data": {...}}, host)  # doctest: +SKIP
    >>> deployed.rights.allow(principal, action, scope)  # doctest: +SKIP
    """

    def __init__(self, stacks: Mapping[str, Mapping[str, Any]], host: str) -> None:
        self._stacks = stacks
        self._host = host
        self._known: dict[tuple[str, str, str], Deployed] = {}

    @cached_property
    def resources(self) -> list[Deployed]:
        return [
            self._resource(stack, type_, key)
            for stack, body in self._stacks.items()
            for type_, of_type in body["resource"].items()
            if type_ in _OTHERS or type_ in _TYPES or type_ in _INSIDE
            for key in of_type
        ]

    def resource(self, type_: str, key: str) -> Deployed:
        return next(each for each in self.resources if (each.type, each.key) == (type_, key))

    @cached_property
    def rights(self) -> Rights:
        given = (each for each in self.resources if each.type == "azurerm_role_assignment")
        return Rights(tuple(self._assignment(each) for each in given))

    def principal_of(self, identity: str) -> str:
        """Returns the object id of an identity, which role assignments name as principal."""
        return id_for(identity.lower())

    @property
    def identity_of_tasks(self) -> str:
        """Returns the id of the identity that the pods of jobs have in Azure."""
        (stack, trusted), *_ = (
            (stack, body["resource"][_TRUST])
            for stack, body in self._stacks.items()
            if _TRUST in body["resource"]
        )
        (key,) = trusted
        found: str = self._filled_in(stack, trusted[key])["user_assigned_identity_id"]
        return found

    def boot_data(self, machine: Deployed) -> str:
        data = base64.b64decode(machine.arguments["custom_data"])
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode()

    def _assignment(self, made: Deployed) -> Assignment:
        arguments = made.arguments
        role = arguments.get("role_definition_name")
        permission = built_in_roles()[role] if role else self._own_role(arguments)
        return Assignment(made.key, arguments["principal_id"], arguments["scope"], permission)

    def _own_role(self, assignment: Mapping[str, Any]) -> Permission:
        wanted = assignment["role_definition_id"]
        (role,) = (
            each
            for each in self.resources
            if each.type == "azurerm_role_definition" and each.id == wanted
        )
        actions = [each for part in role.arguments["permissions"] for each in part["actions"]]
        return Permission(tuple(actions))

    def _resource(self, stack: str, type_: str, key: str) -> Deployed:
        place = (stack, type_, key)
        if place not in self._known:
            arguments = self._filled_in(stack, self._stacks[stack]["resource"][type_][key])
            self._known[place] = Deployed(type_, key, arguments, _id(type_, key, arguments))
        return self._known[place]

    def _filled_in(self, stack: str, value: Any) -> Any:
        return fill_in(value, lambda parts: self._look_up(stack, parts))

    def _look_up(self, stack: str, parts: tuple[str, ...]) -> Any:
        match parts:
            case ("data", "azurerm_client_config", _, _) | ("data", "azurerm_subscription", _, _):
                return NOBODY
            case ("data", "terraform_remote_state", reference, "outputs", name):
                other = reference.rpartition("-")[2]
                return self._filled_in(other, self._stacks[other]["output"][name]["value"])
            case ("data", *rest):
                return "/".join(rest)
            case ("terraform", _):
                return "default"
            case (type_, key, *rest):
                return self._attribute(self._resource(stack, type_, key), rest)
        raise KeyError(".".join(parts))

    def _attribute(self, resource: Deployed, path: list[str]) -> Any:
        name = path[0]
        made = {
            "id": resource.id,
            "role_definition_resource_id": resource.id,
            "principal_id": self.principal_of(resource.id),
            "client_id": id_for(f"{resource.id}/client".lower()),
            "vault_uri": f"https://{self._host}/vaults/{resource.id.rpartition('/')[2]}/",
        }
        if name in made:
            return made[name]
        # Other values that Azure assigns, such as addresses, are made from their name.
        return resource.arguments.get(name, f"{resource.key}-{name}")


def scale_set_body(deployed: Deployed) -> dict[str, Any]:
    """Returns the request body of a scale set, with the fields that anything asks for."""
    arguments = deployed.arguments
    image = arguments.get("source_image_id")
    near = arguments.get("proximity_placement_group_id")
    interfaces = [
        {"properties": {"ipConfigurations": [*map(_ip_configuration, nic["ip_configuration"])]}}
        for nic in arguments["network_interface"]
    ]
    properties: dict[str, Any] = {
        "virtualMachineProfile": {
            "storageProfile": {"imageReference": {"id": image}} if image else {},
            "networkProfile": {"networkInterfaceConfigurations": interfaces},
        }
    }
    if near:
        properties["proximityPlacementGroup"] = {"id": near}
    identities = arguments["identity"]["identity_ids"]
    return {
        "location": arguments["location"],
        "sku": {"name": arguments["sku"], "tier": "Standard", "capacity": arguments["instances"]},
        "zones": arguments.get("zones"),
        "identity": {"type": "UserAssigned", "userAssignedIdentities": dict.fromkeys(identities)},
        "properties": properties,
    }


def machine_body(deployed: Deployed) -> dict[str, Any]:
    """Returns the request body of a VM, with the fields that anything asks for."""
    identities = (deployed.arguments.get("identity") or {}).get("identity_ids") or ()
    return {
        "location": deployed.arguments["location"],
        "identity": {"type": "UserAssigned", "userAssignedIdentities": dict.fromkeys(identities)},
        "properties": {},
    }


def _ip_configuration(configured: Mapping[str, Any]) -> dict[str, Any]:
    return {"properties": {"subnet": {"id": configured["subnet_id"]}}}


def _id(type_: str, key: str, arguments: Mapping[str, Any]) -> str:
    name = arguments.get("name", key)
    group = f"{_SUBSCRIPTION}/resourceGroups/{arguments.get('resource_group_name', 'none')}"
    if type_ in _TYPES:
        return f"{group}/providers/{_TYPES[type_]}/{name}"
    if type_ in _INSIDE:
        outer, between = _INSIDE[type_]
        return f"{arguments[outer]}/{between}/{name}"
    match type_:
        case "azurerm_resource_group":
            return f"{_SUBSCRIPTION}/resourceGroups/{name}"
        case "azurerm_batch_pool":
            account = arguments["account_name"]
            return f"{group}/providers/Microsoft.Batch/batchAccounts/{account}/pools/{name}"
        case "azurerm_subnet":
            network = arguments["virtual_network_name"]
            return f"{group}/providers/Microsoft.Network/virtualNetworks/{network}/subnets/{name}"
        case "azurerm_role_definition":
            roles = "providers/Microsoft.Authorization/roleDefinitions"
            return f"{arguments['scope']}/{roles}/{id_for(name)}"
    return f"{group}/providers/Terraform/{type_}/{key}"
