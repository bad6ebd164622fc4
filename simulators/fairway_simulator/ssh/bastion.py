"""A Bastion: a program `az` that tunnels to hosts which nothing else reaches.

>>> with SshCluster(folder, ["n1"], private="10.231.77.4") as cluster:  # doctest: +SKIP
...     bastion = Bastion(folder / "bastion")
...     bastion.lets_in(cluster.hosts["n1"])
...     os.environ["PATH"] = f"{bastion.programs}:{os.environ['PATH']}"
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_simulator.ssh import az

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_simulator.ssh.host import Host

_GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lab-rg-network"

# As on Linux, a script that runs the program without exec.
_SCRIPT = """#!/bin/sh
{python} -I -S {program} {folder} "$@"
"""


@dataclass
class Bastion:
    """The stand-in, whose program and records are in `folder`; the fields are its faults."""

    folder: Path
    id: str = f"{_GROUP}/providers/Microsoft.Network/bastionHosts/lab-bas"
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    extensions: tuple[str, ...] = ("bastion",)
    signed_in: bool = True
    reader: bool = True
    addresses: bool = True

    def __post_init__(self) -> None:
        (self.folder / "sessions").mkdir(parents=True)
        self.programs.mkdir()
        (self.folder / "calls").touch()
        words = {"python": sys.executable, "program": az.__file__, "folder": str(self.folder)}
        script = _SCRIPT.format(**{name: shlex.quote(word) for name, word in words.items()})
        (self.programs / "az").write_text(script)
        (self.programs / "az").chmod(0o755)
        self.write()

    @property
    def programs(self) -> Path:
        """Folder of the program `az`, for PATH."""
        return self.folder / "bin"

    def lets_in(self, host: Host) -> None:
        """Adds a host that it leads to, by its address."""
        (pid, *_) = host.pids()
        namespace = f"/proc/{pid}/ns/net" if host.private else ""
        self.leads_to(host.address, host.address, host.port, namespace)

    def leads_to(self, address: str, real: str, port: int, namespace: str = "") -> None:
        """Adds a listener that it leads to, by its real address, in a network namespace."""
        self.hosts[address] = {"address": real, "port": str(port), "namespace": namespace}
        self.write()

    def write(self) -> None:
        """Writes the fields for the program."""
        state = {
            "id": self.id,
            "addresses": self.addresses,
            "reader": self.reader,
            "hosts": self.hosts,
            "extensions": self.extensions,
            "signed_in": self.signed_in,
        }
        (self.folder / "state.json").write_text(json.dumps(state))

    @property
    def calls(self) -> list[list[str]]:
        found: list[Any] = (self.folder / "calls").read_text().splitlines()
        return [json.loads(line) for line in found]

    @property
    def sessions(self) -> list[str]:
        """Returns the open sessions of the service; those of a killed az stay open."""
        return sorted(path.name for path in (self.folder / "sessions").iterdir())
