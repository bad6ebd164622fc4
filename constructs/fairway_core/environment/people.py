"""The people of an environment, each with an account of their own on its machines."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model, rule
from fairway_core.resource_ids import ObjectId

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
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_SIGN_IN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9.-]+")


class Person(Model, defer_build=True):
    """A person's account on the login host, the scheduler and the nodes.

    The home directory is on the shared file system, closed to others. Without `keys`, a person
    signs in to single VMs with Entra ID, which creates the account and the home directory.
    """

    name: str
    """The account's name: lower-case letters, digits, hyphens and underscores, beginning with a
    letter; with `entra`, the person's sign-in name, for example `ada@contoso.com`."""
    keys: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Public SSH keys, or paths of files that hold them."""
    entra: ObjectId | None = None
    """The object id of a user of Entra ID, who signs in without a key."""
    admin: bool = False
    """Whether the account may use sudo, which opens everybody's data and Slurm's key."""
    uid: int | None = Field(default=None, ge=FIRST_UID, le=LAST_UID)
    """The user ID that owns the person's files, the same on every machine; by default it is derived
    from the name, and does not change when other people are added or removed."""

    @rule
    def _has_one_way_in(self) -> None:
        if (self.keys is None) == (self.entra is None):
            message = f"`{self.name}` signs in either with keys or with Entra ID"
            raise FieldError(message, "give `keys:` or `entra:`, not both", ("name",))
        form = _NAME if self.entra is None else _SIGN_IN_NAME
        if not form.fullmatch(self.name):
            hint = "for example `ada`" if self.entra is None else "for example `ada@contoso.com`"
            message = f"`{self.name}` cannot be the name of an account"
            raise FieldError(message, hint, ("name",))
        if self.name in _TAKEN:
            message = f"`{self.name}` is an account or a group of the machines themselves"
            raise FieldError(message, "choose another name", ("name",))
        if self.entra is not None and self.uid is not None:
            message = "those who sign in with Entra ID get their user ids from the machine"
            raise FieldError(message, "leave it out", ("uid",))

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
                raise FieldError(f"`{person.name}` is named twice", "name it once", (index, "name"))
            if other.number == person.number and person.keys and other.keys:
                raise FieldError(
                    f"`{person.name}` and `{other.name}` have the user id {person.number}",
                    f"give one of them another, for example `uid: {FIRST_UID + 1}`",
                    (index, "uid" if person.uid is not None else "name"),
                )
    return people


People = Annotated[tuple[Person, ...], AfterValidator(apart)]
