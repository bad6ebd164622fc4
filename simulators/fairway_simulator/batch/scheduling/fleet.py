"""Lifecycle of nodes: they boot, come and go with the pool's size, and are lost."""

from __future__ import annotations

import itertools
import threading
import uuid
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.isolation import address_of
from fairway_simulator.batch.model.entity import http_date
from fairway_simulator.batch.model.pool import Node
from fairway_simulator.batch.scheduling.lifecycle import requeue

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.agent.supervisor_client import Supervisor
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.pool import Pool

_NO_CORES = "The account's core quota for this VM family has been reached"


class Fleet:
    """Changes of nodes and of pool sizes. The caller holds the account's lock."""

    def __init__(self, account: Account, agent: NodeAgent) -> None:
        self._account = account
        self._agent = agent
        self._addresses = itertools.count()
        self._numbers: dict[str, itertools.count[int]] = {}
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    # -- size ---------------------------------------------------------------------------

    def resize(self, pool: Pool) -> None:
        """Resizes a pool to its targets, up to its limit; nodes leave when their tasks have
        ended."""
        now = self._account.clock.now()
        pool.resize_errors = []
        pool.allocate("resizing", now)
        wanted = pool.target_dedicated + pool.target_spot
        allowed = wanted if pool.limit is None else pool.limit
        dedicated = min(pool.target_dedicated, allowed)
        self._bring(pool, dedicated, dedicated=True)
        self._bring(pool, min(pool.target_spot, allowed - dedicated), dedicated=False)
        if wanted > allowed:
            pool.resize_errors = [{"code": "AccountCoreQuotaReached", "message": _NO_CORES}]
        self.settle(pool)

    def _bring(self, pool: Pool, target: int, *, dedicated: bool) -> None:
        members = [node for node in pool.members(dedicated=dedicated) if not node.leaving]
        # Idle nodes leave first.
        members.sort(key=lambda node: bool(node.executions))
        for node in members[: max(0, len(members) - target)]:
            self._remove(node)
        new = [self._new(pool, dedicated=dedicated) for _ in range(target - len(members))]
        for node in new:
            pool.nodes[node.id] = node
        for node in new:
            self.boot(node)

    def _new(self, pool: Pool, *, dedicated: bool) -> Node:
        number = next(self._numbers.setdefault(pool.key, itertools.count(1)))
        address = address_of(next(self._addresses), shared=self._agent.network.shared)
        folder, now = self._agent.layout.nodes, self._account.clock.now()
        return Node(pool, number, address, folder, dedicated=dedicated, now=now)

    def _remove(self, node: Node) -> None:
        node.leaving = True
        if not node.executions:
            self._remove_now(node)
            return
        executions = list(node.executions)

        def then() -> None:
            for execution in executions:
                execution.done.wait()
            with self._account.changed:
                self._remove_now(node)
                self.settle(node.pool)
                self._account.changed.notify_all()

        self._spawn(then)

    def _remove_now(self, node: Node) -> None:
        node.become("leavingpool", self._account.clock.now())
        self._stop_all(node)
        node.pool.nodes.pop(node.id, None)
        self._agent.layout.clear(node)
        self._agent.processes.forget(node)
        self._agent.network.forget(node)

    def settle(self, pool: Pool) -> None:
        """Ends a resize once no node has still to leave."""
        if pool.allocation_state != "steady" and not any(n.leaving for n in pool.nodes.values()):
            pool.allocate("steady", self._account.clock.now())
            self._account.changed.notify_all()

    def boot(self, node: Node) -> None:
        """Boots a node, which is ready at once."""
        for each in {node, *node.pool.nodes.values()}:
            self._agent.layout.make(each, node.pool.nodes.values())
        node.booted = self._account.clock.now()
        node.become("idle" if node.schedulable else "offline", node.booted)
        self._account.changed.notify_all()

    # -- events of a node -----------------------------------------------------------------

    def _stop_all(self, node: Node) -> None:
        """Ends everything on a node, as a power failure would."""
        node.generation += 1
        for supervisor in node.supervisors:
            supervisor.end()

    def lose(self, node: Node, state: str) -> None:
        """Makes a node `preempted` or `unknown`; its tasks start again elsewhere."""
        self._stop_all(node)
        requeue(node, self._account.clock.now(), asked=False)
        node.events = []
        node.become(state, self._account.clock.now())
        self._account.changed.notify_all()

    def preempt(self, node: Node, notice: float) -> None:
        """Evicts a Spot node, after `notice` seconds announced in its Scheduled Events."""
        if notice <= 0:
            self.lose(node, "preempted")
            return
        event = {
            "EventId": str(uuid.uuid4()),
            "EventType": "Preempt",
            "ResourceType": "VirtualMachine",
            "Resources": [node.name],
            "EventStatus": "Scheduled",
            "NotBefore": http_date(self._account.clock.after(notice)),
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
        node.events.append(event)
        self._after(node, notice, lambda: self.lose(node, "preempted"))

    def restart(self, node: Node, *, wipe: bool) -> None:
        """Reboots a node, with `wipe` from a new disk; its tasks start again elsewhere."""
        node.become("reimaging" if wipe else "rebooting", self._account.clock.now())
        requeue(node, self._account.clock.now(), asked=True)

        def boot() -> None:
            with self._account.changed:
                self.restore(node, wipe=wipe)

        self._spawn(boot)

    def restore(self, node: Node, *, wipe: bool = True) -> None:
        """Boots a lost node again, with `wipe` as a new machine."""
        self._stop_all(node)
        if wipe:
            self._agent.layout.clear(node)
            node.unfit_for.clear()
        self.boot(node)

    def _after(self, node: Node, seconds: float, act: Callable[[], None]) -> None:
        """Calls `act` after some seconds, unless the node is lost or restarted first."""
        generation = node.generation

        def wait() -> None:
            self._stopping.wait(seconds)
            with self._account.changed:
                if node.generation == generation and not self._stopping.is_set():
                    act()

        self._spawn(wait)

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def stop(self) -> None:
        """Ends everything on all nodes; called without the account's lock."""
        self._stopping.set()
        with self._account.changed:
            nodes = [n for pool in self._account.pools.values() for n in pool.nodes.values()]
            supervisors: list[Supervisor] = []
            executions = []
            for node in nodes:
                executions += list(node.executions)
                supervisors += list(node.supervisors)
                self._stop_all(node)
            for execution in executions:
                execution.abandon()
        for execution in executions:
            execution.done.wait()
        for thread in self._threads:
            thread.join()
        for supervisor in supervisors:
            supervisor.close()
