"""Users' accounts on a machine: the script that creates them, and its delivery.

A VM gets it as an extension, which runs again when the list changes, so that no VM is replaced
because a user is added or removed. A scale set has it in its model: new nodes have it from the
start, and existing ones once they are updated to that model, which does not replace them. Slurm's
nodes, which come and go, get it with their boot data.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairway_constructs.arguments import checked
from fairway_constructs.cloud_init import ADMIN_USERNAME, assignments, script
from fairway_core.environment.filesystems.home_directories import HomeDirectories
from fairway_core.findings import UserError, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.environment import Person
    from fairway_core.environment.filesystems.home_directories import SharedQueue

_LONGEST = 256 * 1024  # characters of the script in base64
_END = "END_OF_FAIRWAY_FILE"
_UNIT = """\
[Unit]
Description=Accounts of the environment's people
Wants=network-online.target
After=network-online.target fairway-node.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/fairway-people
Restart=on-failure
RestartSec=15

[Install]
WantedBy=multi-user.target
"""
# The rules end with the system. At boot no program of a person's starts, and no network is up,
# before they are there again. Source: systemd.special(7), network-pre.target.
_FENCE = """\
[Unit]
Description=Keeps the machine's identity from people's programs
DefaultDependencies=no
Wants=network-pre.target
After=local-fs.target
Before=network-pre.target sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/fairway-people --fence

[Install]
WantedBy=sysinit.target
"""
_START = """\
systemctl daemon-reload
systemctl enable fairway-people.service
systemctl restart --no-block fairway-people.service
"""


@checked
@dataclass(frozen=True, kw_only=True)
class Accounts:
    """The users who have accounts on a machine, and the place of their homes.

    With `fenced` users' programs get no token of the machine's identity. Without `login` only users
    with sudo get a shell. `shares` are commands that add them to a scheduler's accounting. Their
    runs queue in `queue` if no scheduler does that; if several nodes share its file system, each
    user also gets a key that these nodes accept. With `containers` users may run containers in
    their jobs, also those who are `signed_in` with Entra ID, by name.

    >>> ada = Person(name="ada", keys=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4cr"])
    >>> Accounts(people=[ada], homes=HomeDirectories("/data/home", "/data"))
    """

    people: Sequence[Person]
    homes: HomeDirectories = field(default_factory=HomeDirectories)
    fenced: bool = False
    login: bool = True
    shares: Sequence[str] = ()
    queue: SharedQueue | None = None
    containers: bool = False
    signed_in: Sequence[str] = ()

    def without_login(self) -> Accounts:
        """Returns a copy for a machine to which only administrators may log in."""
        return replace(self, login=False)

    def setup_script(self) -> str:
        """Returns the script that writes all files; accounts are then created at each boot."""
        people = [
            " ".join([each.name, str(each.number), "yes" if each.admin else "no", *key.split()])
            for each in self.people
            for key in each.keys or ()
        ]
        settings = {
            "ADMIN": ADMIN_USERNAME,
            "HOMES": self.homes.folder,
            "MOUNT": self.homes.mount,
            "FENCE": "yes" if self.fenced else "",
            "LOGIN": "yes" if self.login else "",
            "QUEUE": self.queue.folder if self.queue else "",
            "QUEUE_MOUNT": self.queue.mount if self.queue else "",
            "CLUSTER": self.queue.cluster if self.queue else "",
            "CONTAINERS": "yes" if self.containers else "",
            "SIGNED_IN": " ".join(self.signed_in),
        }
        files = [
            ("/etc/fairway/people", "644", text_of(people)),
            ("/etc/fairway/people-settings", "644", text_of(assignments(settings))),
            ("/etc/fairway/people-shares", "644", text_of(self.shares)),
            ("/usr/local/sbin/fairway-people", "755", script("people.sh")),
            ("/etc/systemd/system/fairway-people.service", "644", _UNIT),
        ]
        start = _START
        if self.fenced:
            files.append(("/etc/systemd/system/fairway-fence.service", "644", _FENCE))
            start += "systemctl enable fairway-fence.service\n"
        if self.containers:
            files.append(("/usr/local/sbin/fairway-containers", "755", script("containers.sh")))
        return install_script(files, start)


def text_of(lines: Iterable[str]) -> str:
    """Returns the text of complete lines.

    >>> text_of(["a", "b"])
    'a\\nb\\n'
    """
    return "".join(f"{line}\n" for line in lines)


def install_script(files: Sequence[tuple[str, str, str]], start: str) -> str:
    """Returns a script that writes files, each a path, a mode and a text of complete lines, and
    then runs `start`."""
    lines = ["#!/usr/bin/env bash", "# Written by Fairway.", "set -euo pipefail"]
    for path, mode, text in files:
        lines.append(f"install -D -m {mode} /dev/stdin {path} <<'{_END}'\n{text}{_END}")
    return "\n".join([*lines, start])


def accounts_extension(accounts: Accounts) -> dict[str, Any]:
    """Returns the accounts as an extension, whose changes replace neither a VM nor a scale set.

    Source: Azure documentation, "Custom Script Extension v2 on Linux VMs": `script` holds base64,
    up to 256 KB, and runs as root. Raises UserError if it is longer.
    """
    text = base64.b64encode(accounts.setup_script().encode()).decode()
    if len(text) > _LONGEST:
        users = counted(len(accounts.people), "user")
        message = f"the accounts of {users} take {len(text)} bytes, and Azure takes {_LONGEST}"
        raise UserError.of("too-many-people", message, "name fewer people")
    return {
        "name": "fairway-people",
        "publisher": "Microsoft.Azure.Extensions",
        "type": "CustomScript",
        "type_handler_version": "2.1",
        "auto_upgrade_minor_version": True,
        "settings": json.dumps({"script": text}, separators=(",", ":")),
    }
