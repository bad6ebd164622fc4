"""Clusters without a queue in the compute stack, and what stops their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_stacks.compute import MachineClusters

if TYPE_CHECKING:
    from fairway_constructs.clusters.nodes import NodeSpec
    from fairway_core.environment import Cluster, Schedule
    from fairway_stacks.compute import ComputeStack


class Clusters(MachineClusters):
    """Scale sets and VMs, with their working hours and their stop when idle."""

    def __init__(self, stack: ComputeStack) -> None:
        super().__init__(stack)
        self._scheduled: dict[str, tuple[Schedule, str]] = {}
        self._stops_itself: dict[str, str] = {}

    def machines(
        self, name: str, spec: Cluster, nodes: NodeSpec
    ) -> az.ScaleSetCluster | az.SingleVm:
        """Creates a scale set, or a VM for one node."""
        cluster: az.ScaleSetCluster | az.SingleVm
        if spec.is_single:
            reserved = replace(nodes, capacity_reservation_group_id=spec.capacity_reservation)
            cluster = az.SingleVm(self.stack, name, identity=self.stack.identity, **vars(reserved))
        else:
            cluster = az.ScaleSetCluster(
                self.stack,
                name,
                identity=self.stack.identity,
                nodes=spec.nodes,
                repair=spec.repair,
                **nodes.of_scale_set(),
            )
        if spec.schedule:
            self._scheduled[name] = (spec.schedule, cluster.id)
        if spec.idle:
            self._stops_itself[name] = cluster.id
        return cluster

    def finish(self) -> None:
        """Creates the Logic Apps of working hours, and lets nodes stop themselves."""
        data = self.stack.data
        if self._scheduled:
            alerts = None
            if data.monitoring is not None:
                alerts = az.Alerts(self.stack, "alerts-of-schedules", monitoring=data.monitoring)
            az.StartStopSchedule(self.stack, clusters=self._scheduled, alerts=alerts)
        if self._stops_itself:
            az.IdleStop(self.stack, identity=self.stack.identity, clusters=self._stops_itself)
