"""Who gets which nodes: one run at a time a node, first come, first served.

`<shared>/clusters/<cluster>/` holds `nodes/<name>`, a lock of the run that uses the node,
and `queue/<time>-<run>`, a ticket that a waiting run holds locked. `queue.lock` is held for the
moment in which somebody looks. All are flock(2), which the kernel drops with the process that has
them, so that nothing stays taken when a supervisor is killed; over NFS the client turns it into a
lock on the server (4.1, or 3 with its lock service; on Lustre the mount option `flock`), which ends
with the client's lease.

Where several people have accounts, `<shared>` is a folder in which each may make files and only
their owner removes them: what others have written is read with care. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.allocators.hosts import Host, known_hosts
from fairway_boot.cluster import try_node, user_of, waiting
from fairway_boot.files import alone, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_NAMED = 3  # runs that use nodes that another waits for


@dataclass
class Queue:
    """The place of one run in the queue of a cluster, and the nodes that it has.

    `began` is when it came, in nanoseconds since 1970. `lost` says of nodes that failed this run
    when that was, by the age of their announcements: one is used again when it has announced
    itself anew. `reason` is why the run waits.
    """

    shared: Path
    cluster: str
    run: str
    began: int = field(default_factory=time.time_ns)
    reason: str | None = None
    taken: dict[str, int] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    ticket: int | None = None

    @property
    def folder(self) -> Path:
        """Where the locks lie."""
        return self.shared / "clusters" / self.cluster

    def take(self, count: int, wanted: str = "") -> list[Host]:
        """As many nodes, which are this run's until they are given back; none where it is to
        wait, with the `reason`, which calls them `wanted`."""
        with self.turn() as has_turn:
            if not has_turn:
                return []
            known, usable = self.hosts()
            free: list[Host] = []
            for host in usable:
                if len(free) < count and self._lock_node(host):
                    free.append(host)
            if len(free) == count:
                return free
            self.give_back(free)
            wanted = wanted or f"{count} node{'s' * (count != 1)}"
            self.reason = f"waits for {wanted}: {len(free)} free of {len(usable)} that are up"
            self.reason += self.used_by(usable)
            if len(usable) < count and len(known) > len(usable):
                silent = [host.name for host in known if host not in usable]
                self.reason += f" (silent, lost or unwell: {', '.join(silent)})"
            return []

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """The moment in which this run alone may take something; whether it may: no other is
        ahead."""
        with self._alone():
            self._draw_ticket()
            if ahead := self._ahead():
                more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
                self.reason = f"waits behind {ahead[0]}{more}"
            yield not ahead

    def hosts(self) -> tuple[list[Host], list[Host]]:
        """The nodes that are known, and those of them that are there and well."""
        known = known_hosts(self.shared, self.cluster)
        return known, [host for host in known if self._is_usable(host)]

    def give_back(self, hosts: list[Host]) -> None:
        """These nodes are free for others."""
        for host in hosts:
            os.close(self.taken.pop(host.name))

    def lose(self, names: list[str]) -> None:
        """These nodes were lost by a task: they are used again when they announce themselves."""
        now = time.time()
        for host in known_hosts(self.shared, self.cluster):
            if host.name in names or host.address in names:
                self.lost[host.name] = now - host.age

    def rest(self) -> None:
        """The run wants no more nodes for now: those behind it may go on."""
        if self.ticket is not None:
            with suppress(FileNotFoundError):
                self._ticket_path().unlink()
            os.close(self.ticket)
            self.ticket = None

    def _is_usable(self, host: Host) -> bool:
        announced = time.time() - host.age
        # Half a second: the two ages were taken at different moments.
        return host.is_well and announced > self.lost.get(host.name, 0.0) + 0.5

    def _lock_node(self, host: Host) -> bool:
        lock = try_node(self.folder / "nodes" / host.name)
        if lock is None:
            return False
        self.taken[host.name] = lock
        return True

    def _draw_ticket(self) -> None:
        if self.ticket is None:
            self.ticket = try_lock(self._ticket_path())

    def _ticket_path(self) -> Path:
        return self.folder / "queue" / f"{self.began:020d}-{self.run}"

    def used_by(self, hosts: list[Host]) -> str:
        """Which other runs use these nodes, each with their number, where that is known."""
        found = Counter(
            run
            for host in hosts
            if (run := user_of(self.folder / "nodes" / host.name)) and run != self.run
        )
        words = [f"{run} uses {count}" for run, count in found.most_common(_MOST_NAMED)]
        others = len(found) - len(words)
        words += [f"{others} other runs the rest"] * (others > 0)
        return f"; {', '.join(words)}" if words else ""

    def _ahead(self) -> list[str]:
        """The runs that are to have nodes before this one, in their order."""
        return waiting(self.folder / "queue", until=self._ticket_path().name)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        for name in ("nodes", "queue"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with alone(self.folder / "queue.lock"):
            yield


def note_user(shared: Path, cluster: str, host: Host, run: str) -> None:
    """Says which run uses a node that the caller has locked."""
    # It is there, and may be another person's: opened to be made, the kernel would refuse it.
    with (shared / "clusters" / cluster / "nodes" / host.name).open("r+", encoding="utf-8") as file:
        file.truncate()
        file.write(run)
