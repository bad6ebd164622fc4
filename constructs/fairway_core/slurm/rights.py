"""What the scheduler's identity may do in Azure: the actions of the roles that it is given."""

from __future__ import annotations

SCALES = (
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    # One more, and one less by its number.
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    # New instances stand in the subnet and have the identity of nodes.
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
)
"""On its scale sets, and on the subnet and the identity of their instances."""

PLACES = "Microsoft.Compute/proximityPlacementGroups/write"
"""A placement group is changed by what is put into it, and has no action of its own for that.
Source: Azure documentation, AKS cluster identity permissions; "Azure permissions for Compute"."""

READS_OPERATIONS = "Microsoft.Compute/locations/operations/read"
"""Why Azure could not make an instance: operations lie beside the resources, at the location."""
