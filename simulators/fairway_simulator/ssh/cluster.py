"""A cluster of hosts on loopback addresses, each with a real sshd; for tests and trials.

>>> with SshCluster(folder, ["n1", "n2", "n3"]) as cluster:  # doctest: +SKIP
...     os.environ |= cluster.environment
...     engine = engine_for(Target.model_validate(cluster.target()))

Needs root (for host names and processes of their own), Debian's openssh-server and rsync.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.fanout.launchers import free_port
from fairway_simulator import machines
from fairway_simulator.ssh.host import Host, sshd_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from fairway_simulator.machines import People

# Settings of MPI between hosts on one machine, which have only loopback.
_MPI = {
    **machines.SHARED_CORES,
    "OMPI_MCA_btl": "self,sm,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


_SSH = 22
_MINUTE = 60.0  # the nodes' timer; see constructs/fairway_constructs/cloud_init/announce.sh


def missing() -> str:
    """Returns the first prerequisite that this machine lacks; "" if it has all."""
    if os.geteuid() != 0:
        return "not root"
    if not Path(sshd_program()).exists():
        return "no sshd (Debian: openssh-server)"
    lacking = [tool for tool in ("ssh", "unshare", "mount") if shutil.which(tool) is None]
    return f"no {lacking[0]}" if lacking else ""


@dataclass
class SshCluster:
    """The hosts `names`, whose files are in `folder`; the first is the main host.

    `path` precedes PATH on the hosts: by default the folder of this Python. With a `private`
    address the only host has a network of its own. Hosts that are up announce themselves each
    minute, except the `silent` ones. All know the accounts of `people`, whose runs queue in the
    folder `queue`.
    """

    folder: Path
    names: Sequence[str] = ("n1",)
    name: str = "pair"
    private: str = ""
    path: str = str(Path(sys.executable).parent)
    variables: Mapping[str, str] = field(default_factory=dict)
    people: People | None = None
    queue: Path | None = None
    hosts: dict[str, Host] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    @property
    def announcements(self) -> Path:
        return (self.queue or self.shared) / "clusters" / self.name / "hosts"

    @property
    def environment(self) -> dict[str, str]:
        return {"FAIRWAY_SSH_CONFIG": str(self.folder / "client_config")}

    def target(self, **fields: Any) -> dict[str, Any]:
        count = len(self.names)
        return {
            "name": self.name,
            "engine": "ssh",
            "nodes": {"min": count, "max": count},
            "ssh": {
                "host": self.private or self.names[0],
                "user": "root",
                "shared": str(self.shared),
                **({"queue": str(self.queue)} if self.queue else {}),
            },
            **fields,
        }

    def __enter__(self) -> Self:
        self.shared.mkdir(parents=True)
        self.announcements.mkdir(parents=True)
        # sshd's folder for privilege separation, present on any machine that runs sshd.
        Path("/run/sshd").mkdir(exist_ok=True)
        for key in ("key", "host_key"):
            machines.make_key(self.folder / key)
        addresses = [f"127.0.1.{number}" for number in range(1, len(self.names) + 1)]
        port = free_port()
        if self.private:
            addresses, port = [self.private], _SSH
        self._configure(addresses, port)
        for name, address in zip(self.names, addresses, strict=True):
            place = self.folder / "hosts.d" / name
            variables = {
                "PATH": f"{self.path}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                **_MPI,
                **self.variables,
            }
            self.hosts[name] = Host(
                name,
                address,
                port,
                place,
                self.folder,
                variables,
                private=bool(self.private),
                people=self.people,
            )
        try:
            for host in self.hosts.values():
                host.start()
                self.announce(host.name)
        except BaseException:
            self.__exit__()
            raise
        threading.Thread(target=self._keep_announcing, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for host in self.hosts.values():
            host.kill()

    def announce(self, name: str) -> None:
        """Announces a host, as its timer does each minute."""
        draft = self.announcements / f".{name}"
        draft.write_text(f"{name}\n", encoding="utf-8")
        draft.replace(self.announcements / name)

    def _keep_announcing(self) -> None:
        while not self._ended.wait(_MINUTE):
            for host in self.hosts.values():
                if host.process is not None and host.name not in self.silent:
                    with suppress(OSError):  # a full shared folder: a timer tries again
                        self.announce(host.name)

    def kill(self, name: str) -> None:
        """Ends a host and everything on it, as a power cut would."""
        self.hosts[name].kill()

    def _configure(self, addresses: Iterable[str], port: int) -> None:
        pairs = list(zip(self.names, addresses, strict=True))
        lines = [f"{address} {name}" for name, address in pairs]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        known_hosts = str(self.folder / "known_hosts") if self.private else os.devnull
        common = [
            f"    Port {port}",
            f"    IdentityFile {self.folder / 'key'}",
            "    IdentitiesOnly yes",
            "    StrictHostKeyChecking no",
            f"    UserKnownHostsFile {known_hosts}",
            "    LogLevel ERROR",
            "",
        ]
        (self.folder / "ssh_config").write_text("\n".join(["Host *", *self._trust(common)]))
        blocks = [
            line
            for name, address in pairs
            for line in (f"Host {name}", f"    HostName {address}", "    User root", *common)
        ]
        if self.private:  # clients know the address, but no route to it
            blocks = ["Host *", *common]
        (self.folder / "client_config").write_text("\n".join(blocks))

    def _trust(self, common: Sequence[str]) -> list[str]:
        """Returns lines of ssh_config between hosts: people connect with the keys that the nodes
        created."""
        if self.people is None:
            return list(common)
        own = f"    IdentityFile {self.folder / 'key'}"
        lines = [line for line in common if line and line != own]
        return [*lines, "    IdentityFile ~/.ssh/id_fairway", "Match localuser root", own, ""]
