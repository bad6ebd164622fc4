"""The people of an environment, each with an account of their own on its machines."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model

# Above what Azure and Ubuntu give to accounts, and below what systemd takes for its own.
FIRST_UID, LAST_UID = 20_000, 59_999

# Accounts and groups of the images, of Slurm and of what the nodes install. One that is missing
# here is found by a machine when it boots: it makes no account then, and says so.
_TAKEN = frozenset(
    {"root", "all", "none", "azureuser", "ubuntu", "admin", "sudo", "wheel", "docker", "fairway"}
    | {"slurm", "munge", "mysql", "mariadb", "statd", "sshd", "syslog", "nobody", "nogroup"}
    | {"daemon", "bin", "sys", "adm", "tty", "disk", "sync", "games", "man", "lp", "mail", "news"}
    | {"uucp", "proxy", "www-data", "backup", "list", "irc", "users", "staff", "shadow", "kmem"}
    | {"video", "audio", "render", "input", "kvm", "plugdev", "netdev", "tape", "dialout", "crypto"}
    | {"messagebus", "systemd-network", "systemd-resolve", "systemd-timesync", "tcpdump", "chrony"}
    | {"landscape", "pollinate", "lxd", "tss", "uuidd", "dcgm", "nvidia-persistenced", "rpc", "ftp"}
)
_NAME = r"^[a-z][a-z0-9_-]{0,30}$"


def _free_name(name: str) -> str:
    if name in _TAKEN:
        raise FieldError(f"`{name}` is an account or a group of the machines' own")
    return name


class Person(Model, defer_build=True):
    """A person's account on the login host, the scheduler and the nodes, in a group of its own.

    The home is on the shared file system, closed to others.
    """

    name: Annotated[str, Field(pattern=_NAME), AfterValidator(_free_name)]
    """The account's name: small letters, digits, hyphens and underscores, first a letter."""
    keys: tuple[str, ...] = Field(min_length=1)
    """Public SSH keys, or paths of files that hold them."""
    admin: bool = False
    """Whether the account may use sudo, and so reach everybody's data and Slurm's key."""
    uid: int | None = Field(default=None, ge=FIRST_UID, le=LAST_UID)
    """The number to which files belong, the same on every machine; by default it follows from
    the name, and stays when others come and go."""

    @property
    def number(self) -> int:
        """The user id, and that of the group.

        >>> Person(name="ada", keys=["ssh-ed25519 AAAA"]).number
        30398
        """
        if self.uid is not None:
            return self.uid
        digest = hashlib.sha256(self.name.encode()).digest()
        return FIRST_UID + int.from_bytes(digest[:8], "big") % (LAST_UID - FIRST_UID + 1)


def apart(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """The people; FieldError where two of them have one name, or one number."""
    for index, person in enumerate(people):
        for other in people[:index]:
            if other.name == person.name:
                raise FieldError(f"`{person.name}` is there twice", "name it once", (index, "name"))
            if other.number == person.number:
                raise FieldError(
                    f"`{person.name}` and `{other.name}` have the user id {person.number}",
                    f"give one of them another, for example `uid: {FIRST_UID + 1}`",
                    (index, "uid" if person.uid is not None else "name"),
                )
    return people


People = Annotated[tuple[Person, ...], AfterValidator(apart)]
