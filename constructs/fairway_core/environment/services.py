"""Small sections of the file: registry, vault, monitoring, budget, policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from fairway_core.documents import Check, FieldError, Model, matching, rule
from fairway_core.environment.values import Location
from fairway_core.fields import Days, Emails, days_between, require_unique
from fairway_core.resource_ids import RegistryId, ResourceGroupId, WorkspaceId

# Azure's range, in days.
Retention = Annotated[Days, days_between(1, 365, "a registry keeps manifests without a tag")]
_USUAL_RETENTION = 30


_LOGIN_SERVER = matching(
    r"[a-z0-9][a-z0-9.-]+[a-z0-9]",
    "`{}` is not the name of a host",
    "such as contoso.azurecr.io",
    in_schema=True,
)


class Registry(Model, defer_build=True):
    """A private container registry, from which nodes pull images.

    Only the tier Premium can be closed to the internet.
    """

    existing: RegistryId | None = None
    """The id of an existing registry to use in place of a new one. Nodes get the right to pull from
    it. Its owner must open its network to the nodes."""
    login_server: Annotated[str, _LOGIN_SERVER] | None = None
    """Host name of `existing`, with which the names of its images begin; by default
    `NAME.azurecr.io`."""
    sku: Literal["Basic", "Standard", "Premium"] = "Premium"
    """The tier, which decides size, speed and features."""
    retention: Retention | None = None
    """The time that manifests without a tag are kept, with Premium only; by default 30 days."""

    @rule
    def _existing_is_left_as_it_is(self) -> None:
        for field in ("sku", "retention") if self.existing else ("login_server",):
            if field in self.model_fields_set:
                raise FieldError(
                    f"`{field}:` has no effect on a registry that "
                    + ("exists" if self.existing else "Fairway makes, which Azure names"),
                    "leave it out",
                    (field,),
                )

    @rule
    def _retention_is_offered(self) -> None:
        if self.retention is not None and self.sku != "Premium":
            raise FieldError(
                f"a {self.sku} registry keeps manifests without a tag for ever",
                "use `sku: Premium`, or leave `retention:` out",
                path=("retention",),
            )

    def check_network(self, *, private_endpoints: bool) -> None:
        """Raises FieldError if nodes need a private endpoint that the tier does not offer."""
        if private_endpoints and not self.existing and self.sku != "Premium":
            raise FieldError(
                f"a {self.sku} registry has no private endpoint and is open to the internet",
                "use `sku: Premium`, or set `private_endpoints: false` under `network:`",
                ("registry", "sku"),
            )

    @property
    def retention_days(self) -> int | None:
        """Days until a manifest without a tag is deleted, or None if the tier keeps it for ever."""
        return (self.retention or _USUAL_RETENTION) if self.sku == "Premium" else None


class Vault(Model, defer_build=True):
    """A key vault, whose secrets nodes may read; `premium` keeps its keys in hardware."""

    sku: Literal["standard", "premium"] = "standard"
    """The tier of the vault: `standard` keeps keys in software, `premium` in hardware."""


class Checks(Model, defer_build=True):
    """Checks to leave out because their findings are accepted; docs/checks.md lists all checks."""

    ignore: tuple[str, ...] = Field(default=())
    """IDs of checks that report nothing, for example `no-budget`."""


class ResourceGroup(Model, defer_build=True):
    """An existing resource group, in place of one per stack.

    The group is neither changed nor deleted with the environment. The names of resources in it
    begin with the environment's name, except private DNS zones, whose names Azure prescribes.
    """

    existing: ResourceGroupId
    """The id of the group, in the subscription to which Terraform deploys; its region does not
    matter."""


Encrypted = Literal["storage", "files", "registry", "batch", "disks"]


def _tag_names(names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        if not name.strip():
            raise FieldError("a tag without a name", "name it, for example `cost-center`", (index,))
    require_unique(names, fold=str.lower)


class Policies(Model, defer_build=True):
    """Rules of Azure Policy in the subscription: an environment that breaks them is refused here.

    These settings do not change what is deployed. To list your policies: az policy assignment list.
    """

    required_tags: Annotated[tuple[str, ...], Check(_tag_names)] = ()
    """Names of tags that every resource must have, with a value."""
    locations: tuple[Location, ...] = ()
    """The regions in which resources are allowed; by default all."""
    deny_public_addresses: bool = False
    """Refuse public IP addresses, such as those of a NAT gateway or a Bastion."""
    deny_public_access: bool = False
    """Refuse public access to storage, vault, registry and Batch, even from chosen ranges."""
    require_cmk: tuple[Encrypted, ...] = ()
    """Kinds of resources that must be encrypted with a customer-managed key."""


# Azure's ranges: days that a workspace keeps logs, and alerts of one budget.
_RETENTION_DAYS = (30, 730)
Amount = Annotated[float, Field(ge=1)]
LogDays = Annotated[Days, days_between(*_RETENTION_DAYS, "logs can be kept")]
_MOST_BUDGET_ALERTS = 5
_MOST_PERCENT = 1000


_ALERTS = "for example [50, 80, 100]"


def _alerts(percents: Sequence[int]) -> None:
    if not 1 <= len(percents) <= _MOST_BUDGET_ALERTS:
        raise FieldError(f"a budget has 1 to {_MOST_BUDGET_ALERTS} alerts", _ALERTS)
    if list(percents) != sorted(set(percents)):
        raise FieldError("alerts are percentages in rising order, each once", _ALERTS)
    if percents[0] < 1 or percents[-1] > _MOST_PERCENT:
        raise FieldError(f"an alert is at 1 to {_MOST_PERCENT} percent of the amount", _ALERTS)


Percents = Annotated[Sequence[int], Check(_alerts)]


class Monitoring(Model, defer_build=True):
    """Logs and metrics of nodes in one workspace, and alerts; for Kubernetes, of nodes, pods and
    events.

    Vaults, the registry, Batch and Managed Lustre send their logs of accesses and changes there
    too, storage and Azure Files that of deletions. An NFS server's VM sends what its agent sees, as
    Azure has no such log of it; NetApp Files, existing services and `kind: nfs` send nothing.

    An alert on idle Batch nodes comes when more have been idle for an hour than the `min:` of all
    pools that scale: Azure counts the idle nodes of all pools at once.

    A single VM with NVIDIA GPUs is replaced where this section comes or goes, as it tells their
    load from its boot on.
    """

    emails: Annotated[Emails, Field(min_length=1, json_schema_extra={"minItems": 1})]
    """Addresses that alerts are sent to."""
    retention: LogDays = _RETENTION_DAYS[0]
    """The time for which logs are kept, from 30d to 730d."""
    workspace: WorkspaceId | None = None
    """The id of an existing Log Analytics workspace in the environment's region; its owner decides
    how long it keeps logs."""

    @rule
    def _its_owner_keeps_the_logs(self) -> None:
        if self.workspace and "retention" in self.model_fields_set:
            raise FieldError(
                "the owner of an existing workspace decides how long it keeps logs",
                "leave it out",
                ("retention",),
            )


class Budget(Model, defer_build=True):
    """The most that the environment is to cost per month, and at which percentages to send mail.

    It counts all resource groups of the environment, and the nodes of its Kubernetes cluster, but
    no snapshots of `backup:`, which are in a group that Azure Backup makes. Nodes of Batch pools
    with `mode: UserSubscription` have a second budget of the same amount, because Azure cannot add
    them to the first.
    """

    monthly: Amount
    """The amount per month, in `currency`."""
    currency: Annotated[
        str, matching("[A-Z]{3}", "`{}` is not a currency", "write its ISO code, for example USD")
    ] = "USD"
    """The currency of the subscription's bill."""
    alerts: Annotated[tuple[int, ...], Check(_alerts)] = Field(
        default=(50, 80, 100), min_length=1, max_length=_MOST_BUDGET_ALERTS
    )
    """The percentages of the amount at which to send mail."""
    emails: Emails = ()
    """Mail addresses to alert; by default those of `monitoring:`."""


def budget_contacts(budget: Budget, monitoring: Monitoring | None) -> tuple[str, ...]:
    """Returns the addresses for the budget's alerts. Raises FieldError if there are none."""
    contacts = budget.emails or (monitoring.emails if monitoring else ())
    if not contacts:
        raise FieldError(
            "a budget without contacts notifies no one",
            "add `emails:` to `budget:`, or a `monitoring:` section",
            ("budget",),
        )
    return contacts
