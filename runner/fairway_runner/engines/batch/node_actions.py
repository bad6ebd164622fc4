"""The nodes of a pool: their list, what is done to one, how many there are to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import names, pools
from fairway_runner.engines.engine import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.client import Account

# For each action Batch's own verb and body. What runs begins again elsewhere (requeue).
_ACTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "reboot": ("reboot", {"nodeRebootOption": "requeue"}),
    "reimage": ("reimage", {"nodeReimageOption": "requeue"}),
    "drain": ("disablescheduling", {"nodeDisableSchedulingOption": "taskcompletion"}),
    "resume": ("enablescheduling", {}),
}


@dataclass
class NodeActions:
    """The nodes of one pool."""

    account: Account

    def all(self) -> list[Node]:
        """Every node, in the order of their names, with the reason where one is unfit."""
        found = [self._node(node) for node in self.account.nodes()]
        return sorted(found, key=lambda node: node.name)

    def _node(self, node: Mapping[str, Any]) -> Node:
        state, running = str(node["state"]).lower(), ""
        for task in node.get("recentTasks") or () if state == "running" else ():
            if str(task.get("taskState")).lower() == "running":
                running = names.run_of(str(task.get("jobId")))
                break
        kind = "dedicated" if node.get("isDedicated") else "spot"
        return Node(
            name=str(node["id"]),
            state=state,
            address=str(node.get("ipAddress") or ""),
            run=running,
            reason=pools.node_fault(self.account, node),
            facts={"Size": str(node.get("vmSize") or ""), "Kind": kind},
        )

    def act(self, action: str, node: str) -> None:
        """Reboots or reimages a node, or takes it out of work or back; running tasks go on
        elsewhere. UserError where there is no such node."""
        verb, body = _ACTIONS[action]
        path = f"/pools/{self.account.pool}/nodes/{node}/{verb}"
        try:
            self.account.order(f"to {action} {node}", "POST", path, **body)
        except ServiceError as error:
            if error.code == "NodeAlreadyInTargetSchedulingState":
                return  # somebody has done so already
            if not error.is_missing:
                raise
            raise unknown_node(self.account, node) from None

    def resize(self, nodes: int) -> None:
        """Asks for that many nodes, Spot ones where the target's are."""
        target = self.account.target
        if nodes > target.nodes.max:
            message = f"`{target.name}` has at most {target.nodes.max} nodes"
            hint = "raise `nodes:` of the cluster in the environment file, and deploy it"
            raise UserError.of("too-many-nodes", message, hint)
        pool = self.account.pool_facts()
        if pool.get("enableAutoScale"):
            message = f"the pool `{self.account.pool}` scales by its formula"
            hint = "change the limits in the environment file, and deploy it"
            raise UserError.of("autoscaled-pool", message, hint)
        kind = "targetLowPriorityNodes" if target.spot else "targetDedicatedNodes"
        options = {kind: nodes, "nodeDeallocationOption": "taskcompletion"}
        path = f"/pools/{self.account.pool}/resize"
        self.account.order(f"{nodes} nodes", "POST", path, **options)


def unknown_node(account: Account, node: str) -> UserError:
    """What is said of a node that the pool does not have."""
    hint = f"its nodes: fairway nodes list {account.target.name}"
    return UserError.of("unknown-node", f"the pool has no node `{node}`", hint)
