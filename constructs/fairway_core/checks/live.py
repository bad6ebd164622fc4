"""Checks that query Azure: their ids, and what each reads.

The rules themselves are with the code that queries, as the core needs no network. They are listed
here so that they can be ignored by id and explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class LiveCheck:
    """A check in one sentence (`text`), and the path that it `reads` below the subscription."""

    severity: Severity
    text: str
    reads: str


LIVE: Mapping[str, LiveCheck] = {
    "provider-not-registered": LiveCheck(
        Severity.ERROR,
        "A resource provider that is not registered: none of its resources can be created.",
        "`providers/NAMESPACE`",
    ),
    "feature-not-registered": LiveCheck(
        Severity.ERROR,
        "A feature for Kubernetes node pools with InfiniBand that is not registered: nodes "
        "created before that do not share a fabric.",
        "`providers/Microsoft.Features/providers/NAMESPACE/features/FEATURE`",
    ),
    "kubernetes-not-offered": LiveCheck(
        Severity.ERROR,
        "A version of Kubernetes of which the region makes no cluster, or only with long-term "
        "support, which Fairway does not ask for.",
        "`providers/Microsoft.ContainerService/locations/REGION/kubernetesVersions`",
    ),
    "kubernetes-preview": LiveCheck(
        Severity.WARNING,
        "A version of Kubernetes that the region has as a preview, without support.",
        "the same",
    ),
    "missing-right": LiveCheck(
        Severity.WARNING,
        "Resource groups, role assignments, locks or roles that you are not allowed to create.",
        "`providers/Microsoft.Authorization/permissions`",
    ),
    "not-there": LiveCheck(
        Severity.ERROR,
        "An existing resource group, storage account, registry or workspace that is not there.",
        "`/subscriptions/…`, the id in the file",
    ),
    "in-another-region": LiveCheck(
        Severity.ERROR, "An existing storage account or workspace in another region.", "the same"
    ),
    "stopped-machine": LiveCheck(
        Severity.WARNING,
        "A stopped VM of the environment: Azure cannot change its extensions, which set up "
        "accounts and the monitoring agent.",
        "`providers/Microsoft.Compute/virtualMachines`, `instanceView`",
    ),
    "role-given-already": LiveCheck(
        Severity.ERROR,
        "A role that the deployment assigns, but that was already assigned by hand: Azure "
        "assigns none twice.",
        "`providers/Microsoft.Storage/storageAccounts`, `providers/Microsoft.Batch/batchAccounts`, "
        "`providers/Microsoft.Authorization/roleAssignments` of these",
    ),
    "size-not-offered": LiveCheck(
        Severity.ERROR,
        "A VM size that the region does not have.",
        "`providers/Microsoft.Compute/skus`",
    ),
    "size-restricted": LiveCheck(
        Severity.ERROR,
        "A VM size that this subscription may not use in the region or the zone.",
        "`providers/Microsoft.Compute/skus`",
    ),
    "size-not-in-zone": LiveCheck(
        Severity.ERROR,
        "A VM size that the region offers only in other zones than the environment's.",
        "`providers/Microsoft.Compute/skus`",
    ),
    "quota-too-small": LiveCheck(
        Severity.ERROR,
        "More vCPUs of a family, of Spot, of the region or of a Batch account than its quota.",
        "`providers/Microsoft.Compute/locations/REGION/usages`, "
        "`providers/Microsoft.Batch/batchAccounts`",
    ),
    "quota-in-use": LiveCheck(
        Severity.WARNING,
        "A quota that is large enough, but partly used by others or by this environment itself.",
        "`providers/Microsoft.Compute/locations/REGION/usages`",
    ),
    "no-image-version": LiveCheck(
        Severity.ERROR,
        "An exact version of an image that the region does not have.",
        "`providers/Microsoft.Compute/locations/REGION/publishers/…/versions`",
    ),
    "image-deprecated": LiveCheck(
        Severity.ERROR,
        "An exact version of an image that its publisher has deprecated: Azure makes no more nodes "
        "of it, and no scale set or pool with it can grow.",
        "`providers/Microsoft.Compute/locations/REGION/publishers/…/versions/VERSION`",
    ),
    "image-ending": LiveCheck(
        Severity.WARNING,
        "An exact version of an image that its publisher deprecates within 60 days.",
        "the same",
    ),
    "pool-image-not-listed": LiveCheck(
        Severity.ERROR,
        "An image that Azure Batch does not list for pools, or only with another node agent.",
        "`providers/Microsoft.Batch/batchAccounts`, and `supportedimages` of the account",
    ),
    "pool-images-not-asked": LiveCheck(
        Severity.WARNING,
        "A Batch account that does not tell you which images it accepts, or not from here.",
        "the same",
    ),
    "not-allowed": LiveCheck(
        Severity.WARNING,
        "Any of the above that you may not read: it is skipped, and the rest is checked.",
        "nothing more",
    ),
}
"""All live checks, by id."""

ENDINGS = frozenset(
    {"image-deprecated", "image-ending", "ended-kubernetes", "ending-kubernetes"}
    | {"retiring", "retired"}
)
"""Ids of what fails as time passes: checks of dates on which Azure ends something, live and other,
and `retired`, for what a file may no longer name."""
