"""Access to an environment: accounts, ways in, and who may submit jobs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from fairway_core.catalog.limits import limits
from fairway_core.documents import Check, FieldError, Model, require, rule
from fairway_core.environment.values import WIDEST_RANGE, Range, SizeText, x64
from fairway_core.public_ranges import internet_ranges
from fairway_core.resource_ids import ObjectId, parts_of
from fairway_core.target import SshRoute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Network


# Above the ids that Azure and Ubuntu assign, and below those that systemd reserves.
FIRST_UID, LAST_UID = 20_000, 59_999

# Accounts and groups of the images, of Slurm and of what nodes install. A machine notices one that
# is missing here when it boots: it then creates no account, and reports that.
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

    >>> ada = Person(name="ada@contoso.com", entra="00000000-0000-0000-0000-000000000000")
    """

    name: str
    """The account's name: lower-case letters, digits, hyphens and underscores, beginning with a
    letter; with `entra`, the person's sign-in name, for example `ada@contoso.com`."""
    keys: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Public SSH keys, or paths of files that hold them."""
    entra: ObjectId | None = None
    """The object id of a user of Entra ID, who signs in without a key."""
    admin: bool = False
    """Let the account use sudo, which opens everybody's data and Slurm's key."""
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
        """The user id, which is also the group's.

        >>> Person(name="ada", keys=["ssh-ed25519 AAAA"]).number
        30398
        """
        if self.uid is not None:
            return self.uid
        digest = hashlib.sha256(self.name.encode()).digest()
        return FIRST_UID + int.from_bytes(digest[:8], "big") % (LAST_UID - FIRST_UID + 1)


def require_unique_people(people: tuple[Person, ...]) -> None:
    """Raises FieldError if two people share a name or a user id."""
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


People = Annotated[tuple[Person, ...], Check(require_unique_people)]


_GATEWAY_SIZE = "Standard_D2s_v6"


_OWN_RANGE = require(
    lambda network: network.prefixlen >= WIDEST_RANGE,
    "`{}` would admit a large part of the internet",
    "name the ranges that you work from, for example 203.0.113.0/24",
)


def check_rules(allowed: Sequence[IPv4Network], services: Mapping[str, int]) -> None:
    """Raises FieldError if the ranges need more address rules than a service takes; `services` has
    the number of others by the service's name in limits.toml."""
    public = internet_ranges(allowed)
    for service, own in services.items():
        most = limits()[f"{service}_ip_rules"]
        # For these two a range of two addresses needs two rules, see `public_addresses`.
        pairs = service in ("storage", "batch")
        rules = own + sum(2 if pairs and each.prefixlen == 31 else 1 for each in public)
        if rules > most.value:
            raise FieldError(
                f"these ranges need {rules} rules, and Azure takes at most {most.value} "
                f"{most.unit} ({most.source})",
                "join neighboring ranges to wider ones, or let people come in through a private "
                "network: `bastion:`, `gateway:` or `network.peerings`",
                ("access", "allowed"),
            )


class GatewayVm(Model, defer_build=True):
    """A small VM in the network, through which people's machines reach storage and Batch."""

    size: Annotated[SizeText, x64(_GATEWAY_SIZE)] = _GATEWAY_SIZE
    """The VM size. The VM runs no jobs, but all copied data goes through it. Describe a size that
    Fairway does not list by one that it does."""


class Access(Model, defer_build=True):
    """Who may log in: public keys (or paths to them), and ranges that may connect by SSH.

    Without `ssh_keys`, your own public keys are read when the file is loaded.
    """

    ssh_keys: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Public SSH keys, or paths of files that hold them; by default your own in ~/.ssh."""
    allowed: tuple[Annotated[Range, _OWN_RANGE], ...] = ()
    """Address ranges that may connect by SSH; the public ones may also use storage, Batch,
    vault and registry."""
    bastion: bool = False
    """Deploy Azure Bastion, so that SSH needs no allowed range."""
    admins: tuple[ObjectId, ...] = ()
    """Object ids of users and groups who may reach nodes through the bastion."""
    researchers: tuple[ObjectId, ...] | None = None
    """Object ids of users and groups who may submit to Batch, and read and write blobs; by default
    the first deployer. `[]` means nobody."""
    users: People = ()
    """A personal account for each of these people, in place of one shared account."""
    gateway: bool | GatewayVm = False
    """A small VM through which storage and Batch are reached over SSH, for environments without
    another VM, such as those with Batch pools only."""
    ssh_route: Literal["direct"] | SshRoute | None = None
    """The SSH route from people's machines to nodes: by default the environment's bastion if it has
    one, otherwise `direct`, for example over a VPN."""

    @rule
    def _admins_have_a_way_in(self) -> None:
        if self.admins and not self.bastion:
            raise FieldError(
                "`admins:` connect through the bastion, but there is none",
                "set `bastion: true`, or leave `admins:` out: keys are under `ssh_keys:`",
                ("admins",),
            )

    @rule
    def _reach_has_an_effect(self) -> None:
        if self.ssh_route == "direct" and not self.bastion:
            raise FieldError(
                "nodes are reached directly anyway: there is no bastion",
                "leave it out",
                ("ssh_route",),
            )

    @property
    def gateway_size(self) -> str | None:
        """The VM size of the gateway, or None without a gateway."""
        if isinstance(self.gateway, GatewayVm):
            return self.gateway.size
        return GatewayVm().size if self.gateway else None

    @field_validator("ssh_route")
    @classmethod
    def _bastion_is_there(cls, ssh_route: object) -> object:
        if isinstance(ssh_route, SshRoute) and ssh_route.bastion is not None:
            parts_of("Bastion", ssh_route.bastion)  # never a value that Terraform fills in later
        return ssh_route


@dataclass(frozen=True)
class DataRole:
    """A built-in role on a container, or on the Batch account if `container` is None; `key` is
    unique among them."""

    key: str
    role: str
    reason: str
    container: str | None = None


@dataclass(frozen=True)
class Researcher:
    """A user or group with data roles, by object id, or None for the first deployer, and `why`.

    >>> ada = Researcher("ada", "trains models")
    """

    key: str
    why: str
    object_id: str | None = None


DEPLOYER = Researcher("deployer", "deployed this first")


def data_roles(containers: Iterable[str], *, pools: bool) -> Iterator[DataRole]:
    """Yields the roles that submitting needs: Owner and Contributor include none of them. Source:
    Azure documentation, built-in roles for Storage and Batch."""
    for name in containers:
        role, reason = "Storage Blob Data Contributor", f"Reads and writes the container {name}"
        yield DataRole(f"container-{name}", role, reason, name)
    if pools:
        yield DataRole("batch", "Azure Batch Data Contributor", "Submits jobs")


def researchers_of(named: Sequence[str] | None) -> list[Researcher]:
    """Returns the researchers named under `access.researchers`, or without a list the deployer."""
    if named is None:
        return [DEPLOYER]
    return [Researcher(each, "named under access.researchers", each) for each in named]
