"""Monitoring of an environment with a `monitoring:` section, stack by stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.alerts import Alerts
from fairway_constructs.cloud_init import export_path
from fairway_constructs.monitoring import Monitoring

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.batch_account import BatchAccount
    from fairway_constructs.cdk import Construct
    from fairway_constructs.environment_stack import EnvironmentStack
    from fairway_constructs.file_system import FileSystem
    from fairway_constructs.registry import Registry
    from fairway_constructs.storage import Storage
    from fairway_constructs.vault import Vault
    from fairway_core.environment import Monitoring as MonitoringSpec


def watch_data(
    stack: EnvironmentStack,
    spec: MonitoringSpec,
    *,
    storage: Storage | None,
    vault: Vault | None,
    registry: Registry | None,
    batch: BatchAccount | None,
    filesystems: Mapping[str, FileSystem],
) -> Monitoring:
    """The workspace, what was done to the services, and how file servers and pools are."""
    monitoring = Monitoring(
        stack, emails=spec.emails, retention_days=spec.retention, workspace_id=spec.workspace
    )
    alerts = Alerts(stack, monitoring=monitoring)
    for service in (storage, vault, registry, batch):
        if service is not None:
            service.diagnostic_settings(monitoring)
    if batch is not None:
        alerts.batch_account(batch.id)
    _watch_file_servers(stack, monitoring, alerts, filesystems)
    return monitoring


def _watch_file_servers(
    stack: EnvironmentStack,
    monitoring: Monitoring,
    alerts: Alerts,
    filesystems: Mapping[str, FileSystem],
) -> None:
    servers = {
        name: machine.id
        for name, filesystem in filesystems.items()
        if (machine := filesystem.virtual_machine)
    }
    for name, machine_id in servers.items():
        monitoring.watch(stack, name, resource_id=machine_id)
        alerts.file_server_down(name, machine_id)
    if servers:
        alerts.file_servers_full(export_path(""))


def alert_on_idle_gpus(scope: Construct, monitoring: Monitoring) -> None:
    """Nodes whose GPUs nobody uses; for clusters whose nodes send it, see `GpuCluster`."""
    Alerts(scope, monitoring=monitoring).gpus_idle()
