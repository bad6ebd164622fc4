"""Ids of existing Azure resources in an environment file."""

from __future__ import annotations

import re
from typing import Annotated

from fairway_core.light_models import Check, FieldError, matching

_GROUP = "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers"
_RESOURCE_GROUP = "/subscriptions/{subscription}/resourceGroups/{name}"

# The part after the resource group, and the command that shows the id of an existing resource.
_KINDS = {
    "resource group": ("", "az group show -o tsv --query id -n NAME"),
    "storage account": (
        "Microsoft.Storage/storageAccounts/{name}",
        "az storage account show -o tsv --query id -n NAME",
    ),
    "virtual network": (
        "Microsoft.Network/virtualNetworks/{name}",
        "az network vnet show -o tsv --query id -g GROUP -n NAME",
    ),
    "subnet": (
        "Microsoft.Network/virtualNetworks/{network}/subnets/{name}",
        "az network vnet subnet show -o tsv --query id -g GROUP --vnet-name NETWORK -n NAME",
    ),
    "Bastion": (
        "Microsoft.Network/bastionHosts/{name}",
        "az network bastion show -o tsv --query id -g GROUP -n NAME",
    ),
    "private DNS zone": (
        "Microsoft.Network/privateDnsZones/{name}",
        "az network private-dns zone show -o tsv --query id -g GROUP -n ZONE",
    ),
    "key vault": ("Microsoft.KeyVault/vaults/{name}", "az keyvault show -o tsv --query id -n NAME"),
    "container registry": (
        "Microsoft.ContainerRegistry/registries/{name}",
        "az acr show -o tsv --query id -n NAME",
    ),
    "managed identity": (
        "Microsoft.ManagedIdentity/userAssignedIdentities/{name}",
        "az identity show -o tsv --query id -g GROUP -n NAME",
    ),
    "Batch account": (
        "Microsoft.Batch/batchAccounts/{name}",
        "az batch account show -o tsv --query id -g GROUP -n NAME",
    ),
    "AKS cluster": (
        "Microsoft.ContainerService/managedClusters/{name}",
        "az aks show -o tsv --query id -g GROUP -n NAME",
    ),
    "version of a gallery image": (
        "Microsoft.Compute/galleries/{gallery}/images/{name}/versions/{version}",
        "az sig image-version show -o tsv --query id -g GROUP -r GALLERY -i NAME -e VERSION",
    ),
    "Log Analytics workspace": (
        "Microsoft.OperationalInsights/workspaces/{name}",
        "az monitor log-analytics workspace show -o tsv --query id -g GROUP -n NAME",
    ),
    "capacity reservation group": (
        "Microsoft.Compute/capacityReservationGroups/{name}",
        "az capacity reservation group show -o tsv --query id -g GROUP -n NAME",
    ),
    "proximity placement group": (
        "Microsoft.Compute/proximityPlacementGroups/{name}",
        "az ppg show -o tsv --query id -g GROUP -n NAME",
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
    form, command = _KINDS[kind]
    # `az identity` prints `resourcegroups`; ids of other kinds must match Terraform's spelling.
    flags = re.IGNORECASE if kind == "managed identity" else 0
    match = re.fullmatch(_pattern(form), text, flags)
    if match is None:
        raise FieldError(f"`{text}` is not the id of a {kind}", command)
    return match.groupdict()


def network_of(subnet_id: str) -> str:
    """Returns the id of the virtual network that contains a subnet."""
    return subnet_id.partition("/subnets/")[0]


def _pattern(form: str) -> str:
    """Returns a regular expression for the form, with a group for each of its names."""

    def group(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>{GUID if match[1] == 'subscription' else _WORD})"

    text = (
        re.escape(f"{_GROUP}/{form}" if form else _RESOURCE_GROUP)
        .replace(r"\{", "{")
        .replace(r"\}", "}")
    )
    return re.sub(r"\{(\w+)\}", group, text)


def _id_of(kind: str) -> Check:
    def check(text: str) -> str:
        parts_of(kind, text)
        return text

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
