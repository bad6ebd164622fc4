"""Clusters that Azure stops and starts at certain times: a Logic App for each of the two.

A Logic App of the consumption plan costs a fraction of a cent a month, needs no code, and observes
daylight saving time. It is deployed as a template, as one unit with its trigger and action.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm.user_assigned_identity import UserAssignedIdentity
from fairway_constructs.cdk import Component
from fairway_constructs.identity import assign_role, custom_role
from fairway_constructs.scope import subscription_of
from fairway_constructs.terraform_data import SCHEMAS, deploy_template
from fairway_core.catalog.limits import windows_time_zone
from fairway_core.environment.schedule import minutes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.alerts import Alerts
    from fairway_constructs.azurerm.role_assignment import RoleAssignment
    from fairway_constructs.cdk import Construct
    from fairway_constructs.identity import IIdentity
    from fairway_core.environment import Schedule
    from fairway_core.resource_ids import MachinesId


# The actions on VMs and scale sets. No built-in role for both is as narrow.
_ACTIONS = tuple(
    f"Microsoft.Compute/{kind}/{action}"
    for kind in ("virtualMachines", "virtualMachineScaleSets")
    for action in ("read", "start/action", "deallocate/action")
)
# The results of stopping and starting: operations are beside the machines, in the subscription. A
# Logic App polls them with its own identity, and reports a failure if it may not.
_OPERATIONS = "Microsoft.Compute/locations/operations/read"
_COMPUTE_API = "2024-07-01"
_WORKFLOWS, _WORKFLOW_API = "Microsoft.Logic/workflows", "2019-05-01"
# A recurrence without a start runs once when it is deployed, and ignores its time zone. With a
# start in the past, in the zone's time if it has no Z, it waits for the next time of its
# schedule. A constant, so that no plan differs from the one before.
# https://learn.microsoft.com/azure/connectors/connectors-native-recurrence
_BEGUN = "2026-01-01T00:00:00"
# A VM is busy for minutes while extensions or updates are installed; its size may be sold out.
_TRIES, _PAUSE_MINUTES = 6, 5


class StartStopSchedule(Component):
    """Schedules that stop and start clusters, by name with the resource id of the VM or scale set.

    One identity does this, and may do nothing else. With `alerts`, failures send mail.

    >>> StartStopSchedule(stack, clusters={"box": (schedule, box.id)})
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "working-hours",
        *,
        clusters: Mapping[str, tuple[Schedule, MachinesId]],
        alerts: Alerts | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._alerts = alerts
        azure = self.azure
        self._identity = UserAssignedIdentity(
            self,
            "schedule-id",
            name=azure.name("user_assigned_identity", "schedule"),
            **azure.common,
        )
        role_id = self._role("schedule", "stop and start nodes", _ACTIONS)
        follows_id = self._role("operations-of-schedules", "read how that ended", (_OPERATIONS,))
        give = partial(assign_role, self, principal_id=self._identity.principal_id)
        follows = give(
            "operations-of-schedules",
            on=subscription_of(self),
            role_id=follows_id,
            why="Schedules read whether Azure stopped and started nodes",
        )
        for name, (schedule, machines) in clusters.items():
            reason = f"{name} is stopped and started by its schedule"
            right = give(f"schedule-{name}", on=machines, role_id=role_id, why=reason)
            for what, time in (("stop", schedule.stop), ("start", schedule.start)):
                if time:
                    self._logic_app(name, what, time, schedule, machines, [right, follows])

    def _logic_app(
        self,
        cluster: str,
        what: str,
        time: str,
        schedule: Schedule,
        machines: str,
        rights: Sequence[RoleAssignment],
    ) -> None:
        """Deploys a Logic App that makes Azure start or deallocate the machines once a day."""
        azure = self.azure
        values = {
            "name": azure.name("logic_app_workflow", cluster, what),
            "location": azure.location,
            "tags": dict(azure.tags or {}),
            "machines": machines,
            "identity": self._identity.id,
        }
        deployment = deploy_template(
            self,
            f"schedule-{cluster}-{what}",
            f"schedule-{cluster}-{what}",
            {
                "type": _WORKFLOWS,
                "apiVersion": _WORKFLOW_API,
                "name": "[parameters('name')]",
                "location": "[parameters('location')]",
                "tags": "[parameters('tags')]",
                "identity": {
                    "type": "UserAssigned",
                    "userAssignedIdentities": {"[parameters('identity')]": {}},
                },
                "properties": {"state": "Enabled", "definition": _workflow(what, time, schedule)},
            },
            values,
            outputs={
                "id": {
                    "type": "string",
                    "value": f"[resourceId('{_WORKFLOWS}', parameters('name'))]",
                }
            },
            depends_on=rights,
        )
        if self._alerts is not None:
            workflow_id = f"${{jsondecode({deployment.fqn}.output_content).id.value}}"
            self._alerts.schedule_failed(cluster, what, workflow_id)

    def _role(self, name: str, what: str, actions: Sequence[str]) -> str:
        description = f"Schedules of {self.azure.environment} {what}"
        return custom_role(self, f"{name}-role", name, description=description, actions=actions)


def _workflow(what: str, time: str, schedule: Schedule) -> dict[str, Any]:
    action = {"stop": "deallocate", "start": "start"}[what]
    hour, minute = divmod(minutes(time), 60)
    return {
        "$schema": f"{SCHEMAS}/providers/Microsoft.Logic/schemas/2016-06-01/"
        "workflowdefinition.json#",
        "contentVersion": "1.0.0.0",
        "triggers": {
            what: {
                "type": "Recurrence",
                "recurrence": {
                    "frequency": "Week",
                    "interval": 1,
                    "startTime": _BEGUN,
                    "timeZone": windows_time_zone(schedule.timezone),
                    "schedule": {
                        "weekDays": list(schedule.days),
                        "hours": [hour],
                        "minutes": [minute],
                    },
                },
            }
        },
        "actions": _until_done(action),
    }


def _until_done(action: str) -> dict[str, Any]:
    """Returns the action, retried while Azure refuses it; the run fails if it never succeeds.

    Azure responds immediately and continues asynchronously, and a Logic App waits for the end. A VM
    with another operation in progress is refused with 409, which a Logic App does not retry by
    itself. https://learn.microsoft.com/azure/logic-apps/error-exception-handling
    """
    request = {
        "method": "POST",
        # The resource manager of the cloud that it is deployed to, which ends in a slash.
        "uri": "[concat(environment().resourceManager, "
        f"substring(parameters('machines'), 1), '/{action}?api-version={_COMPUTE_API}')]",
        "authentication": {
            "type": "ManagedServiceIdentity",
            "identity": "[parameters('identity')]",
            "audience": "[environment().resourceManager]",
        },
    }
    done: dict[str, Any] = {"name": "done", "value": True}
    wait = {"interval": {"count": _PAUSE_MINUTES, "unit": "Minute"}}
    tries = {
        action: {"type": "Http", "inputs": request, "runAfter": {}},
        "note": {"type": "SetVariable", "inputs": done, "runAfter": {action: ["Succeeded"]}},
        "pause": {"type": "Wait", "inputs": wait, "runAfter": {action: ["Failed", "TimedOut"]}},
    }
    variables = [{"name": "done", "type": "boolean", "value": False}]
    error = {
        "code": "NotDone",
        "message": f"Azure refused to {action} the machines {_TRIES} times",
    }
    fails = {"runStatus": "Failed", "runError": error}
    return {
        "begin": {
            "type": "InitializeVariable",
            "inputs": {"variables": variables},
            "runAfter": {},
        },
        "repeat": {
            "type": "Until",
            "expression": "@equals(variables('done'), true)",
            "limit": {"count": _TRIES, "timeout": "PT2H"},
            "actions": tries,
            "runAfter": {"begin": ["Succeeded"]},
        },
        # A loop that gives up has succeeded if its last pause has: report that nothing was done.
        "judge": {
            "type": "If",
            "expression": "@not(variables('done'))",
            "actions": {"fail": {"type": "Terminate", "inputs": fails, "runAfter": {}}},
            "runAfter": {"repeat": ["Succeeded", "Failed", "TimedOut", "Skipped"]},
        },
    }


class IdleStop(Component):
    """A role by which the identity of nodes may stop clusters, given by name with the resource id
    of the VM or scale set, and nothing else there.

    >>> IdleStop(stack, identity=identity, clusters={"box": box.id})
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "idle-stop",
        *,
        identity: IIdentity,
        clusters: Mapping[str, MachinesId],
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        role_id = custom_role(
            self,
            "idle-role",
            "idle",
            description=f"Machines of {azure.environment} stop themselves",
            actions=[each for each in _ACTIONS if each.endswith("/deallocate/action")],
        )
        for name, machines in clusters.items():
            assign_role(
                self,
                f"idle-{name}",
                on=machines,
                role_id=role_id,
                principal_id=identity.principal_id,
                why=f"{name} stops itself when nobody uses it",
            )
