"""Sources of Slurm's packages, the order of its releases, and what its programs may do.

Ubuntu's own have the names of its distribution. All others are built as SchedMD does: `slurm-smd…`,
with the same programs at the same paths, but without the account that Slurm runs as.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DISTRIBUTION = "slurm-client", "slurmctld", "slurmd", "slurmdbd"
# Slurm reads what the three releases before have left. Source: Slurm's upgrade guide.
_BACK = 3
_RELEASE = re.compile(r"([0-9]{2})\.(02|05|08|11)(\..*)?")


@dataclass(frozen=True, kw_only=True)
class Packages:
    """A release of Slurm, and the apt repository that has it; without `url` the distribution's.

    `key` is the public key of the repository. Without one it is fetched from `key_url`. `pmix` is
    the package of the library for `srun --mpi=pmix` that Slurm was built with.

    >>> Packages(version="23.11").names["slurmd"]
    'slurmd'
    >>> Packages(version="25.11.5", url="https://a.example/slurm").names["slurmd"]
    'slurm-smd-slurmd'
    """

    version: str
    url: str = ""
    suite: str = "stable"
    component: str = "main"
    key: str = ""
    key_url: str = ""
    pmix: str = "libpmix2t64"
    pmix_version: str = ""

    @property
    def names(self) -> dict[str, str]:
        """The packages by what the distribution calls them."""
        if not self.url:
            return {name: name for name in _DISTRIBUTION}
        return {name: f"slurm-smd-{name.removeprefix('slurm-')}" for name in _DISTRIBUTION}


DISTRIBUTION = Packages(version="23.11")
"""The packages of Ubuntu 24.04, the scheduler's distribution."""

# Those of CycleCloud: version, repository and key. Source: Azure/cyclecloud-slurm 049346f
# (2026-07-15), README and azure-slurm-install/ubuntu.sh.
MICROSOFT = Packages(
    version="25.11.5",
    url="https://packages.microsoft.com/repos/slurm-ubuntu-noble",
    key_url="https://packages.microsoft.com/keys/microsoft.asc",
    pmix="pmix",
    pmix_version="4.2.9",
)


def reads_state(version: str, of: str) -> bool:
    """True if that version of Slurm can start with the jobs and the history of another.

    >>> reads_state("25.05.4", of="23.11"), reads_state("25.11.5", of="23.11")
    (True, False)
    >>> reads_state("25.05.4", of="25.11.5")
    False
    """
    new, old = _ordinal(version), _ordinal(of)
    return new is None or old is None or 0 <= new - old <= _BACK


def _ordinal(version: str) -> int | None:
    """The number of a release: there are two a year, in May and November, from 23.11 on."""
    found = _RELEASE.fullmatch(version)
    return int(found[1]) * 2 + (found[2] == "11") if found else None


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


# Of jobs that name none, where no account is asked for.
