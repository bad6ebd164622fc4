"""What is watched in an environment with a `monitoring:` section, stack by stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.alerts import Alerts
from fairway_constructs.cloud_init import export_path
from fairway_constructs.monitoring import Monitoring
from fairway_constructs.nfs_server import NfsServer

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement
    from fairway_core.environment import Monitoring as MonitoringSpec
    from fairway_stacks.data import DataStack

# A training job reads millions of blobs: to record each would cost more than it tells.
_RECORDED_OF_BLOBS = ("StorageWrite", "StorageDelete")


def watch_data(data: DataStack, spec: MonitoringSpec) -> Monitoring:
    """The workspace, what was done to the services, and how file servers and pools are."""
    place = data.place
    monitoring = Monitoring(data, place=place, emails=spec.emails, retention_days=spec.retention)
    monitoring.record(
        data,
        "storage",
        place=place,
        resource_id=f"{data.storage.account.id}/blobServices/default",
        categories=_RECORDED_OF_BLOBS,
    )
    for name, service in (("vault", data.vault), ("registry", data.registry)):
        if service is not None:
            monitoring.record(data, name, place=place, resource_id=service.id)
    if data.batch is not None:
        account_id = data.batch.id
        monitoring.record(data, "batch", place=place, resource_id=account_id, metrics=True)
        Alerts(monitoring).batch_account(data, place=place, account_id=account_id)
    _watch_file_servers(data, monitoring)
    return monitoring


def _watch_file_servers(data: DataStack, monitoring: Monitoring) -> None:
    alerts = Alerts(monitoring)
    servers = {
        name: filesystem
        for name, filesystem in data.filesystems.items()
        if isinstance(filesystem, NfsServer)
    }
    for name, server in servers.items():
        machine_id = server.virtual_machine.id
        monitoring.watch(data, name, place=data.place, resource_id=machine_id)
        alerts.file_server_down(data, name, place=data.place, machine_id=machine_id)
    if servers:
        alerts.file_servers_full(data, place=data.place, folder=export_path(""))


def alert_on_idle_gpus(scope: Construct, monitoring: Monitoring, *, place: Placement) -> None:
    """Nodes whose GPUs nobody uses; for clusters whose nodes send it, see `GpuCluster`."""
    Alerts(monitoring).gpus_idle(scope, place=place)
