"""Ids of existing Azure resources in an environment file."""

from __future__ import annotations

import re
from typing import Annotated

from fairway_core.light_fields import Check, FieldError, matching

_GROUP = "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers"
_RESOURCE_GROUP = "/subscriptions/{subscription}/resourceGroups/{name}"

_NAMED, _IN_GROUP = "-n NAME", "-g GROUP -n NAME"
# The part after the resource group, and how `az` is asked for the id: by a command and its options.
_KINDS = {
    "resource group": ("", "group", _NAMED),
    "storage account": ("Microsoft.Storage/storageAccounts/{name}", "storage account", _NAMED),
    "virtual network": ("Microsoft.Network/virtualNetworks/{name}", "network vnet", _IN_GROUP),
    "subnet": (
        "Microsoft.Network/virtualNetworks/{network}/subnets/{name}",
        "network vnet subnet",
        "-g GROUP --vnet-name NETWORK -n NAME",
    ),
    "Bastion": ("Microsoft.Network/bastionHosts/{name}", "network bastion", _IN_GROUP),
    "private DNS zone": (
        "Microsoft.Network/privateDnsZones/{name}",
        "network private-dns zone",
        "-g GROUP -n ZONE",
    ),
    "key vault": ("Microsoft.KeyVault/vaults/{name}", "keyvault", _NAMED),
    "container registry": ("Microsoft.ContainerRegistry/registries/{name}", "acr", _NAMED),
    "managed identity": (
        "Microsoft.ManagedIdentity/userAssignedIdentities/{name}",
        "identity",
        _IN_GROUP,
    ),
    "Batch account": ("Microsoft.Batch/batchAccounts/{name}", "batch account", _IN_GROUP),
    "AKS cluster": ("Microsoft.ContainerService/managedClusters/{name}", "aks", _IN_GROUP),
    "version of a gallery image": (
        "Microsoft.Compute/galleries/{gallery}/images/{name}/versions/{version}",
        "sig image-version",
        "-g GROUP -r GALLERY -i NAME -e VERSION",
    ),
    "Log Analytics workspace": (
        "Microsoft.OperationalInsights/workspaces/{name}",
        "monitor log-analytics workspace",
        _IN_GROUP,
    ),
    "capacity reservation group": (
        "Microsoft.Compute/capacityReservationGroups/{name}",
        "capacity reservation group",
        _IN_GROUP,
    ),
    "proximity placement group": (
        "Microsoft.Compute/proximityPlacementGroups/{name}",
        "ppg",
        _IN_GROUP,
    ),
}
# No slash, and no character that Terraform would evaluate, or that ends a Terraform string.
_WORD = r"[^/\s${%}\"\\]+"
GUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def parts_of(kind: str, text: str) -> dict[str, str]:
    """Returns the named parts of an id: `subscription`, `resource_group`, `name`, and its parents.

    Raises FieldError for the id of anything else.

    >>> group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/hub"
    >>> parts = parts_of(
    ...     "virtual network", f"{group}/providers/Microsoft.Network/virtualNetworks/v"
    ... )
    >>> parts["resource_group"], parts["name"]
    ('hub', 'v')
    """
    form, command, options = _KINDS[kind]
    # `az identity` prints `resourcegroups`; ids of other kinds must match Terraform's spelling.
    flags = re.IGNORECASE if kind == "managed identity" else 0
    template = (f"{_GROUP}/{form}" if form else _RESOURCE_GROUP).replace(".", r"\.")
    of = {"subscription": GUID}
    pattern = re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{of.get(m[1], _WORD)})", template)
    match = re.fullmatch(pattern, text, flags)
    if match is None:
        hint = f"az {command} show -o tsv --query id {options}"
        raise FieldError(f"`{text}` is not the id of a {kind}", hint)
    return match.groupdict()


def check_id(type: str, text: str) -> None:  # noqa: A002
    """Raises FieldError for an id of another kind than Terraform's type, if that is a kind here.

    >>> check_id("azurerm_resource_group", "/subscriptions/0/x")
    Traceback (most recent call last):
    ...
    fairway_core.light_fields.FieldError: `/subscriptions/0/x` is not the id of a resource group
    """
    words = type.removeprefix("azurerm_").replace("_", " ")
    for kind in _KINDS:
        if kind.lower() == words:
            parts_of(kind, text)


def network_of(subnet_id: str) -> str:
    """Returns the id of the virtual network that contains a subnet."""
    return subnet_id.partition("/subnets/")[0]


def _id_of(kind: str) -> Check:
    def check(text: str) -> None:
        parts_of(kind, text)

    return Check(check)


VirtualNetworkId = Annotated[str, _id_of("virtual network")]
SubnetId = Annotated[str, _id_of("subnet")]
ImageVersionId = Annotated[str, _id_of("version of a gallery image")]
PlacementGroupId = Annotated[str, _id_of("proximity placement group")]
CapacityReservationId = Annotated[str, _id_of("capacity reservation group")]
WorkspaceId = Annotated[str, _id_of("Log Analytics workspace")]
VaultId = Annotated[str, _id_of("key vault")]
RegistryId = Annotated[str, _id_of("container registry")]
ResourceGroupId = Annotated[str, _id_of("resource group")]
StorageAccountId = Annotated[str, _id_of("storage account")]
MachinesId = Annotated[
    str,
    matching(
        rf"/subscriptions/{GUID}/resourceGroups/{_WORD}/providers/Microsoft\.Compute"
        rf"/virtualMachine(s|ScaleSets)/{_WORD}",
        "`{}` is not the id of a VM or of a scale set",
        "az vm show -o tsv --query id -g GROUP -n NAME",
    ),
]
ObjectId = Annotated[
    str,
    matching(
        GUID,
        "`{}` is not the object id of a user or a group",
        "az ad signed-in-user show --query id --output tsv",
    ),
]
