"""Copies of what Batch's own program on a node has written, for a case with Azure's support."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch.node_actions import unknown_node
from fairway_runner.engines.service_pools import ServiceLogs

if TYPE_CHECKING:
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account


def copy_logs(account: Account, storage: Storage, node: str, since: float) -> ServiceLogs:
    """See `ServicePool.service_logs`: the node writes to the container by the pool's identity."""
    where: dict[str, Any] = {
        "containerUrl": storage.container_url(OUTPUTS),
        "startTime": datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if account.target.batch is not None and account.target.batch.identity:
        where["identityReference"] = {"resourceId": account.target.batch.identity}
    try:
        answer = account.copy_logs(node, where)
    except ServiceError as error:
        if error.is_missing:
            raise unknown_node(account, node) from None
        if error.code != "NodeNotReady":
            raise
        message = f"the node `{node}` does not answer, and cannot copy its logs"
        hint = f"see why: fairway nodes list {account.target.name}"
        raise UserError.of("node-away", message, hint, exit_code=5) from None
    folder = str(answer["virtualDirectoryName"]).strip("/")
    return ServiceLogs(OUTPUTS, folder, int(answer["numberOfFilesUploaded"]))
