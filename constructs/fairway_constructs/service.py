"""An Azure service, with the interfaces of Azure Verified Modules under their names.

https://azure.github.io/Azure-Verified-Modules/specs/tf/interfaces/
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.monitor_diagnostic_setting import (
    EnabledLog,
    EnabledMetric,
    MonitorDiagnosticSetting,
)
from fairway_constructs.azurerm.role_assignment import RoleAssignment as RoleAssignmentResource
from fairway_constructs.cdk import Component
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.cdk import Construct
    from fairway_constructs.identity import Grantee
    from fairway_constructs.monitoring import IMonitoring
    from fairway_constructs.network import INetwork
    from fairway_core.resource_ids import ObjectId


@checked
@dataclass(frozen=True, kw_only=True)
class RoleAssignment:
    """A role on a service for a principal: a group of Entra ID, a user, or another program.

    `principal_id` is an object id; Azure shows `description` beside the role.

    >>> team = RoleAssignment(role_definition_id_or_name="Storage Blob Data Reader",
    ...                       principal_id="00000000-0000-0000-0000-000000000000",
    ...                       description="The team reads results")
    >>> storage.role_assignments({"team": team})
    """

    role_definition_id_or_name: str
    principal_id: ObjectId
    description: str
    principal_type: Literal["Group", "ServicePrincipal", "User"] | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """The logs that a service, or a part of it, sends: all, or those of `categories`, which is None
    for a service without logs. Stacks of an environment send them if they are `usual`."""

    part: str = ""
    categories: tuple[str, ...] | None = ()
    metrics: bool = False
    usual: bool = True


class Service(Component):
    """A new or existing service, by its resource `id`.

    Its methods create resources beside it.

    >>> vault.private_endpoints(network)
    >>> vault.diagnostic_settings(monitoring)
    """

    # Rows of private_links.toml by the suffix of the endpoint's name; none without endpoints.
    LINKS: ClassVar[Mapping[str, str]] = {}
    # The usual id, which the keys of roles on the service leave out.
    USUAL_ID: ClassVar = ""
    DIAGNOSTICS: ClassVar = Diagnostics()

    id: str

    def private_endpoints(self, network: INetwork) -> list[PrivateEndpoint]:
        """Gives the service addresses inside the network, to which its public name resolves there;
        a second call for one network returns the same ones.

        Raises UserError if the network or the service has no private endpoints.
        """
        endpoints = network.endpoints
        if endpoints is None:
            raise UserError.of(
                "no-private-endpoints",
                f"`{self._name}` gets no private endpoint: its network has none",
                "make the network with `private_endpoints=True`",
            )
        if not self.LINKS:
            message = f"`{self._name}`, a {type(self).__name__}, has no `private_endpoints`"
            raise UserError.of("no-interface", message, "leave the call out")
        connect = partial(endpoints.connect, self._beside, resource_id=self.id)
        return self._inside.addresses.shared(
            (self, endpoints),
            lambda: [
                connect(f"{self._name}{end}", service=link) for end, link in self.LINKS.items()
            ],
        )

    def diagnostic_settings(self, monitoring: IMonitoring) -> None:
        """Sends the service's logs of accesses and changes, or its metrics, to the workspace."""
        sent = self.DIAGNOSTICS
        logs = None
        if sent.categories is not None:
            logs = [EnabledLog(category=each) for each in sent.categories]
            logs = logs or [EnabledLog(category_group="allLogs")]
        MonitorDiagnosticSetting(
            self._beside,
            f"{self._name}-is-recorded",
            name=self.azure.name("monitor_diagnostic_setting", self._name),
            target_resource_id=f"{self.id}{sent.part}",
            log_analytics_workspace_id=monitoring.workspace_id,
            enabled_log=logs,
            enabled_metric=[EnabledMetric(category="AllMetrics")] if sent.metrics else None,
        )

    def role_assignments(self, assignments: Mapping[str, RoleAssignment]) -> None:
        """Grants roles on the service, each under a stable key; `grant_…` methods are for the
        stack's own identities."""
        for key, each in assignments.items():
            role = each.role_definition_id_or_name
            is_id = role.startswith(("/", "${"))
            RoleAssignmentResource(
                self._beside,
                f"{self._name}-role-{key}",
                scope_=self.id,
                role_definition_id=role if is_id else None,
                role_definition_name=None if is_id else role,
                principal_id=each.principal_id,
                principal_type=each.principal_type,
                description=each.description,
            )

    def _grant(
        self, grantee: Grantee, key: str, role: str, does: str, *, on: str | None = None
    ) -> None:
        """Grants a role on the service, or on a part of it; `does` is what the holder then does."""
        holder = grantee.identity
        key = key if self._name == self.USUAL_ID else f"{self._name}-{key}"
        holder.grant(key, role, on=on or self.id, reason=f"{holder.called} {does}")

    @property
    def _name(self) -> str:
        return self._inside.path[-1]

    @property
    def _beside(self) -> Construct:
        """The scope that contains the service."""
        *around, _ = self._inside.around
        return around[-1] if around else self._inside.stack  # type: ignore[return-value]  # as above
