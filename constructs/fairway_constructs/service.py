"""A service of Azure's, with the interfaces of Azure Verified Modules under their names.

https://azure.github.io/Azure-Verified-Modules/specs/tf/interfaces/
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """A role on a service for someone: a group of Entra ID, a person, or another program.

    `principal_id` is an object id; Azure shows `description` beside the role.
    """

    role_definition_id_or_name: str
    principal_id: ObjectId
    description: str
    principal_type: Literal["Group", "ServicePrincipal", "User"] | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Logs that a service sends, of itself or of a part of it: all, or those of `categories`, which
    is None where it has no logs."""

    part: str = ""
    categories: tuple[str, ...] | None = ()
    metrics: bool = False


class Service(Component):
    """A new or existing service, by its resource `id`.

    What its methods make stands beside it.

    >>> vault.private_endpoints(network)  # doctest: +SKIP
    >>> vault.diagnostic_settings(monitoring)  # doctest: +SKIP
    """

    # Rows of private_links.toml, each by what the endpoint's name ends in; none without endpoints.
    LINKS: ClassVar[Mapping[str, str]] = {}
    # The id that most have, which the keys of roles on it leave out.
    USUAL_ID: ClassVar = ""
    DIAGNOSTICS: ClassVar = Diagnostics()

    id: str

    def private_endpoints(self, network: INetwork) -> list[PrivateEndpoint]:
        """Gives it addresses inside the network, by which its public name is then reached there.

        Raises UserError where network or service have no private endpoints.
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
        return [
            endpoints.connect(self._beside, f"{self._name}{end}", service=link, resource_id=self.id)
            for end, link in self.LINKS.items()
        ]

    def diagnostic_settings(self, monitoring: IMonitoring) -> None:
        """Sends its logs to the workspace, who did what with it; where it has none, its load."""
        sent = self.DIAGNOSTICS
        logs = None
        if sent.categories is not None:
            logs = [EnabledLog(category=each) for each in sent.categories]
            logs = logs or [EnabledLog(category_group="allLogs")]
        MonitorDiagnosticSetting(
            self._beside,
            f"{self._name}-is-recorded",
            name=self.place.name("monitor_diagnostic_setting", self._name),
            target_resource_id=f"{self.id}{sent.part}",
            log_analytics_workspace_id=monitoring.workspace_id,
            enabled_log=logs,
            enabled_metric=[EnabledMetric(category="AllMetrics")] if sent.metrics else None,
        )

    def role_assignments(self, assignments: Mapping[str, RoleAssignment]) -> None:
        """Gives roles on it, each under a key that stays; `grant_…` methods are for identities of
        the stack's own."""
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
        """Gives a role on it, or on a part of it; `does` is what the holder then does with that."""
        holder = grantee.identity
        key = key if self._name == self.USUAL_ID else f"{self._name}-{key}"
        holder.grant(key, role, on=on or self.id, reason=f"{holder.called} {does}")

    @property
    def _name(self) -> str:
        return self._inside.path[-1]

    @property
    def _beside(self) -> Construct:
        """The scope in which it stands itself."""
        *around, _ = self._inside.around
        return around[-1] if around else self._inside.stack  # type: ignore[return-value]  # as above
