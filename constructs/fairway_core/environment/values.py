"""Small values of an environment file: names, ranges, sizes, each with its own message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from fairway_core.documents import Check, FieldError, Model, matching
from fairway_core.findings import UserError
from fairway_core.light_fields import as_field_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fairway_core.catalog import VmSize

# A wider range is not one that somebody owns, but a part of the internet.
WIDEST_RANGE = 8
_ENVIRONMENT_NAME = r"[a-z][a-z0-9-]{0,10}[a-z0-9]"
_ITEM_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
# A file server's volume group has its file system's name, and so has a folder below /dev: these
# names are taken.
DEVICE_FOLDERS = frozenset(
    {"block", "bsg", "bus", "char", "cpu", "disk", "dma-heap", "dri", "fd", "hugepages"}
    | {"infiniband", "input", "mapper", "mqueue", "net", "pts", "shm", "snd"}
    | {"vfio", "virtio-ports"}
)
_LOCATION = re.compile(r"[a-z][a-z0-9]+")
_SIZE_NAME = r"Standard_\w+(-\w+)?"
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
# A mount over one of these would hide the system, the login keys or the local disks.
_SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib64", "opt"}
    | {"proc", "root", "run", "sbin", "sys", "tmp", "usr", "var"}
)
_LOCAL_DISKS = ("/mnt", "/mnt/resource", "/mnt/resource_nvme", "/mnt/batch")


def _location(location: str) -> None:
    if not _LOCATION.fullmatch(location):
        near = re.sub(r"[^a-z0-9]", "", location.lower())
        raise FieldError(
            f"`{location}` is not an Azure region's name",
            f"did you mean `{near}`?" if _LOCATION.fullmatch(near) else "for example westeurope",
        )


def ip_range(value: object) -> IPv4Network:
    """Converts text or a network to a range. Raises FieldError for anything else."""
    if isinstance(value, IPv4Network):
        return value
    if not isinstance(value, str):
        raise FieldError("not an IPv4 range", "write it as text, for example 10.40.0.0/16")
    try:
        return IPv4Network(value)
    except (AddressValueError, NetmaskValueError):
        hint = "write it as address/length, for example 10.40.0.0/16"
        raise FieldError(f"`{value}` is not an IPv4 range", hint) from None
    except ValueError:
        near = IPv4Network(value, strict=False)
        hint = f"did you mean `{near}`?"
        raise FieldError(f"`{value}` does not start at its network's address", hint) from None


def _mount_path(path: str) -> None:
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        hint = "letters, digits, dots, hyphens and underscores between slashes: /data"
        raise FieldError(f"`{path}` is not an absolute, plain path", hint)
    # /home itself may be shared: the login user of nodes then has its home elsewhere.
    hides = path.split("/")[1] in _SYSTEM_FOLDERS or path in _LOCAL_DISKS
    if hides or path.startswith("/home/"):
        raise FieldError(f"a mount on `{path}` would hide part of the system", "try /data")


# Terms of Azure Batch and AKS for spare capacity.
FOREIGN_SPOT = dict.fromkeys(
    ("low_priority", "priority", "low_priority_nodes"), "for spare capacity write `spot: true`"
)


def _of_five_decimals(price: float) -> None:
    if round(price, 5) != price:
        near = f"{max(price, 0.00001):.5f}"
        raise FieldError("Azure takes a price with up to five decimals", f"for example {near}")


# The upper bound is no limit of Azure's: it refuses infinity, and what nobody means.
SpotPrice = Annotated[float, Field(gt=0, le=10_000), Check(_of_five_decimals)]


def require_azure_names(items: Iterable[str]) -> None:
    """Raises FieldError for a key that cannot be part of an Azure name."""
    for name in items:
        if not _ITEM_NAME.fullmatch(name):
            raise FieldError(
                f"`{name}` cannot be a part of an Azure name",
                "1 to 20 lower-case letters, digits and hyphens; first a letter, last no hyphen",
                path=(name,),
            )


def unlike(taken: Collection[str], what: str, example: str = "") -> Check:
    """Returns a check that refuses items with a taken name, and says `what` it is; the hint ends in
    the `example`, where `{}` is the name."""

    def check(items: Iterable[str]) -> None:
        for name in items:
            if name in taken:
                hint = f"choose another name{example.format(name)}"
                raise FieldError(f"`{name}` is {what}", hint, (name,))

    return Check(check)


def offered_size(name: str) -> VmSize:
    """Returns the size of that name. Raises FieldError if it is unknown, retired or unsupported."""
    from fairway_core.catalog import vm_size

    with below_path():
        size = vm_size(name)
    if size.is_retired():
        since = f" on {size.retirement_date}" if size.retirement_date else ""
        hint = f"its successor is `{size.successor}`"
        raise FieldError(f"`{name}` was retired{since}", hint, id="retired")
    if size.unsupported:
        raise FieldError(f"`{name}` is {size.unsupported}", f"use `{size.successor}`")
    return size


def x64(usual: str) -> Check:
    """Returns a validator that refuses unavailable and Arm sizes, for Fairway's own machines."""

    def check(name: str) -> None:
        if offered_size(name).architecture != "x64":
            raise FieldError(f"`{name}` is an Arm size", f"take {usual} or a larger one")

    return Check(check)


def most_nodes_path(nodes: object) -> tuple[str, ...]:
    """Returns the path to the maximum number of nodes: `nodes:` itself, or its `max`."""
    return ("nodes",) if isinstance(nodes, int) else ("nodes", "max")


def require_mounts(mounts: Sequence[str], why: str) -> None:
    """Raises FieldError if a cluster mounts nothing that all its nodes could see."""
    if not mounts:
        raise FieldError(why, "add `mounts: [NAME]` with a name under `filesystems:`")


def _ip_address(value: object) -> IPv4Address:
    if isinstance(value, IPv4Address):
        return value
    try:
        return IPv4Address(value if isinstance(value, str) else "")
    except AddressValueError:
        raise FieldError(f"`{value}` is not an IPv4 address", "for example 10.0.0.4") from None


@contextmanager
def below_path(*path: str) -> Iterator[None]:
    """Puts a path before that of a FieldError, and turns a look-up's UserError into one."""
    try:
        yield
    except UserError as error:
        raise as_field_error(error, path) from None
    except FieldError as error:
        error.path = (*path, *error.path)
        raise


def are_nested(path: str, other: str) -> bool:
    """Returns True if one of two folders is the other, or inside it."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


class DescribedSize(Model):
    """A VM size that Fairway does not list, described by a similar one that it does. Set what
    differs."""

    name: Annotated[
        str,
        matching(
            _SIZE_NAME,
            "`{}` is not the name of a VM size",
            "such as Standard_ND96isr_H100_v5",
            in_schema=True,
        ),
    ]
    """Its name in Azure."""
    like: str
    """A listed size with the same fabric, image and devices."""
    vcpus: Annotated[int, Field(ge=1)] | None = None
    """Number of vCPUs; by default that of `like`."""
    memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Memory in GiB; by default that of `like`."""
    gpus: Annotated[int, Field(ge=1)] | None = None
    """Number of GPUs; by default that of `like`."""


def _size_text(value: object) -> object:
    if not isinstance(value, dict | DescribedSize):
        return value
    from fairway_core.catalog.sizes import described_size, known_size

    size = DescribedSize.model_validate(value)
    if known := known_size(size.name):
        raise FieldError(f"`{known.name}` is listed", f"write `{known.name}` alone", ("name",))
    near = offered_size(size.like)
    if size.gpus and near.gpu is None:
        raise FieldError(
            f"`{near.name}` has no GPUs", "name one that has: fairway sizes", ("like",)
        )
    changes = {"vcpus": size.vcpus, "memory_gib": size.memory_gib, "gpus": size.gpus}
    return described_size(
        size.name, near.name, {key: each for key, each in changes.items() if each is not None}
    )


SizeText = Annotated[str, BeforeValidator(_size_text, json_schema_input_type=str | DescribedSize)]
OfferedSize = Annotated[SizeText, Check(offered_size)]
EnvironmentName = Annotated[
    str,
    matching(
        _ENVIRONMENT_NAME,
        "`{}` is not a valid environment name",
        "2 to 12 lower-case letters, digits and hyphens; first a letter, last no hyphen",
        in_schema=True,
    ),
]
Location = Annotated[str, Check(_location, _LOCATION.pattern)]
StackId = Annotated[
    str,
    matching(
        r"\w[\w.-]*", "`{}` cannot be the id of a stack", "letters, digits, hyphens: lab-data"
    ),
]
KeyName = Annotated[
    str,
    matching(
        "[0-9A-Za-z-]{1,127}",
        "`{}` cannot be the name of a key",
        "letters, digits and hyphens: storage",
    ),
]
Zone = Literal[1, 2, 3]
Address = Annotated[IPv4Address, PlainValidator(_ip_address, json_schema_input_type=str)]
Range = Annotated[IPv4Network, PlainValidator(ip_range, json_schema_input_type=str)]
MountPath = Annotated[str, Check(_mount_path, _PATH.pattern)]
