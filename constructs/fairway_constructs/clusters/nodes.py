"""Common parts of the nodes of a scale set and of a single VM."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.marketplace_agreement import MarketplaceAgreement
from fairway_constructs.cdk import context_of
from fairway_constructs.cloud_init import (
    ADMIN_USERNAME,
    LOCAL_FOLDER,
    LONGEST_PACKED,
    NodeHealth,
    boot_package,
    node_cloud_init,
    packed_size,
    shared_folder,
    shared_mount,
)
from fairway_constructs.cloud_init.mounts import mounts_of
from fairway_constructs.scope import azure_scope_of
from fairway_core import catalog
from fairway_core.documents import FieldError
from fairway_core.environment.clusters import node_rules
from fairway_core.findings import UserError, counted
from fairway_core.light_fields import as_field_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy, Mount
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.catalog import Image, Plan, VmSize
    from fairway_core.environment import Spot
    from fairway_core.environment.clusters.ssh import Idle
    from fairway_core.environment.filesystems.home_directories import SharedQueue
    from fairway_core.fields import Count


def accept_terms(scope: Construct, plan: Plan) -> MarketplaceAgreement:
    """Accepts the terms of a plan, once per stack however often it is called.

    Azure keeps one acceptance per subscription: if another environment, or `az vm image terms
    accept`, has already accepted, Terraform refuses to do it again.
    """
    id = f"terms-{plan.product}-{plan.name}"
    inside = context_of(scope)
    make = partial(
        MarketplaceAgreement, publisher=plan.publisher, offer=plan.product, plan=plan.name
    )
    return inside.addresses.shared(id, lambda: make(inside.stack, id))


# Time for a job to write a checkpoint before Azure deletes its node.
_TERMINATION_NOTICE = "PT5M"


@checked
@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """The arguments of `ScaleSetCluster` and `SingleVm` that describe nodes and their boot data."""

    size: VmSize
    image: Image
    subnet: SubnetRef
    mounts: Sequence[Mount] = ()
    spot: Spot | None = None
    image_id: str | None = None
    accept_terms: bool = False
    local_os_disk: bool | None = None
    os_gib: Count | None = None
    proximity_placement_group_id: str | None = None
    capacity_reservation_group_id: str | None = None
    monitored: bool = False
    accounts: Accounts | None = None
    signed_in: Mapping[str, bool] | None = None
    idle: Idle | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns the nodes of a construct with these arguments; ignores its other arguments."""
        size, image = rows(arguments["size"], arguments["image"])
        mounts = mounts_of(arguments["mounts"])
        given = {**arguments, "size": size, "image": image, "mounts": mounts}
        return cls(**{each.name: given[each.name] for each in fields(cls) if each.name in given})

    def of_scale_set(self) -> dict[str, Any]:
        """Returns the arguments of a `ScaleSetCluster` with these nodes: all except a single
        VM's."""
        alone = ("capacity_reservation_group_id", "signed_in")
        return {name: value for name, value in vars(self).items() if name not in alone}


def rows(size: VmSize | str, image: Image | str | None) -> tuple[VmSize, Image]:
    """Returns the rows of a size and an image, by default the size's. Raises UserError for unknown
    names."""
    row = catalog.vm_size(size) if isinstance(size, str) else size
    if image is None:
        return row, catalog.default_image(row)
    return row, catalog.image(image) if isinstance(image, str) else image


def sends_gpu_metrics(size: VmSize) -> bool:
    """Returns True if nodes of that size report the load of their GPUs, as NVIDIA's do."""
    return size.gpu is not None and size.gpu.vendor == "nvidia"


def cloud_init_of(
    cluster: str,
    spec: NodeSpec,
    *,
    host_patterns: Sequence[str],
    health_probe: bool = False,
    slurm: SlurmNode | None = None,
    single: bool = False,
    identity_id: str = "",
    proxy: MachineProxy | None = None,
) -> str:
    """Returns the cloud-config of a node, or of the `single` one; with `health_probe` it reports
    its health on its own port.

    With `slurm` it is a Slurm node, and creates the users' accounts when it boots. Raises UserError
    if it is longer than Azure accepts.
    """
    size = spec.size
    gpus = size.gpu.count if size.gpu and sends_gpu_metrics(size) else 0
    adapters = size.infiniband.adapters if size.infiniband and size.rdma else 0
    # Slurm has its own health check.
    has_devices = slurm is None and bool(shared_mount(spec.mounts)) and bool(gpus or adapters)

    def text_for(accounts: Accounts | None) -> str:
        queue = accounts.queue if accounts else None
        return node_cloud_init(
            cluster=cluster,
            mounts=spec.mounts,
            nfs_client_package=spec.image.nfs_client_package,
            host_patterns=[*host_patterns, spec.subnet.address_pattern],
            gpu_metrics=spec.monitored and sends_gpu_metrics(size),
            health=NodeHealth(gpus=gpus, adapters=adapters)
            if has_devices or health_probe
            else None,
            health_probe=health_probe,
            announced=slurm is None,
            # A single VM does not share its queue, and has no other nodes to notify.
            queue=queue.folder if queue and queue.mount else "",
            # If a VM has several identities, its jobs have to name theirs.
            identity=identity_id if spec.signed_in else "",
            people=accounts.setup_script() if accounts and slurm else "",
            idle=_idle(cluster, spec, queue, single=single),
            template="slurm_node.yaml.j2" if slurm else "node.yaml.j2",
            more=slurm.extension() if slurm else None,
            proxy=proxy,
        )

    text = text_for(spec.accounts)
    if (length := packed_size(text)) > LONGEST_PACKED:
        raise _too_long(cluster, length, packed_size(text_for(None)), spec)
    return text


def _too_long(name: str, size: int, others: int, spec: NodeSpec) -> UserError:
    """Returns the error for too much boot data; `others` is its length without users."""
    message = f"cluster `{name}`: its nodes boot with {size} bytes, compressed, and at most "
    message += f"{LONGEST_PACKED} fit"
    if spec.accounts is not None and spec.accounts.people and others <= LONGEST_PACKED:
        people = counted(len(spec.accounts.people), "user")
        message += f"; {size - others} of them are the accounts of {people}"
        return UserError.of("long-boot-data", message, "name fewer people")
    return UserError.of("long-boot-data", message, "mount fewer file systems")


def _idle(
    cluster: str, spec: NodeSpec, queue: SharedQueue | None, *, single: bool
) -> dict[str, str] | None:
    """Returns the program by which an idle machine stops itself, and its settings, or None if it
    never does.

    `after` are the seconds until it, `folder` is where the cluster's runs queue, and `mount` that
    folder's mount, "" for the machine's own disk; the cluster may have `others`.
    """
    if spec.idle is None:
        return None
    from fairway_core import archives
    from fairway_core.slurm.scripts import LIBRARY

    folder, mount = shared_folder(spec.mounts) or LOCAL_FOLDER, shared_mount(spec.mounts)
    if queue:
        folder, mount = queue.folder, queue.mount
    settings = {"after": spec.idle, "cluster": cluster, "folder": folder, "mount": mount}
    text = json.dumps({**settings, "others": not single})
    return {"text": text, **boot_package(f"{LIBRARY}-idle", archives.IDLE)}


def login_arguments(scope: Construct, blocks: ModuleType) -> dict[str, Any]:
    """Returns the arguments for logins: by the keys of the `AzureScope`, or at Azure's serial
    console.

    `blocks` is the module of the resource: each has its own classes for the same blocks. Raises
    UserError without a key: Azure creates no such machine.
    """
    keys = azure_scope_of(scope).ssh_keys
    if not keys:
        raise UserError.of(
            "no-ssh-key",
            "Azure makes no machine without an SSH public key, and its stack has none",
            'give the stack yours: ssh_keys=["ssh-ed25519 …"]',
        )
    return {
        "admin_username": ADMIN_USERNAME,
        "admin_ssh_key": [
            blocks.AdminSshKey(username=ADMIN_USERNAME, public_key=key) for key in keys
        ],
        "disable_password_authentication": True,
        "boot_diagnostics": blocks.BootDiagnostics(),
    }


def node_arguments(
    scope: Construct, blocks: ModuleType, name: str, spec: NodeSpec, *, local: bool | None
) -> dict[str, Any]:
    """Returns the arguments that a scale set and a single VM share; with `local` the system disk is
    on the node itself.

    Raises UserError for a system disk that does not fit the node.
    """
    plan = spec.image.plan
    agreed = [accept_terms(scope, plan)] if plan and spec.accept_terms else []
    return {
        "proximity_placement_group_id": spec.proximity_placement_group_id,
        "source_image_id": spec.image_id,
        # A gallery image replaces it.
        "source_image_reference": (
            None if spec.image_id else blocks.SourceImageReference(**spec.image.urn_parts)
        ),
        "plan": plan and blocks.Plan(**vars(plan)),
        "os_disk": _os_disk(blocks, name, spec, local=local),
        "termination_notification": blocks.TerminationNotification(
            enabled=True, timeout=_TERMINATION_NOTICE
        ),
        **login_arguments(scope, blocks),
        **spot_arguments(spec.spot),
        "depends_on": agreed,
    }


def spot_arguments(spot: Spot | None) -> dict[str, Any]:
    """Returns the arguments of Spot VMs; none for dedicated VMs.

    >>> from fairway_core.environment import Spot
    >>> spot_arguments(Spot(max_price=2.5))
    {'priority': 'Spot', 'eviction_policy': 'Delete', 'max_bid_price': 2.5}
    """
    if spot is None:
        return {}
    return {
        "priority": "Spot",
        "eviction_policy": spot.eviction.capitalize(),
        "max_bid_price": spot.max_price,
    }


# Constructs' arguments for the field names in messages and hints about an environment file.
_ARGUMENTS = {
    "`min`": "`minimum`",
    "`max`": "`maximum`",
    "`os_disk_gib:`": "`os_gib`",
    "`os_disk: managed`": "`local_os_disk=False`",
}


@contextmanager
def reword_errors(what: str) -> Iterator[None]:
    """Rewords errors about fields of an environment file in terms of a construct's arguments."""
    try:
        yield
    except (FieldError, UserError) as error:
        fault = as_field_error(error) if isinstance(error, UserError) else error
        message, hint = f"{what}: {fault}", fault.hint
        for field_, argument in _ARGUMENTS.items():
            message, hint = (text.replace(field_, argument) for text in (message, hint))
        raise UserError.of("bad-argument", message, hint) from None


def keeps_disk(spec: NodeSpec, *, single: bool = False) -> bool:
    """Returns True if stopped nodes keep their system disks: those in storage stay. A single VM has
    such a disk by default."""
    if spec.local_os_disk is not None or single:
        return not spec.local_os_disk
    return not node_rules.prefers_local_disk(
        spec.size, spec.os_gib or spec.image.os_disk_gib, spec.spot.eviction if spec.spot else None
    )


def check_image(name: str, spec: NodeSpec) -> None:
    """Raises UserError if the devices of such nodes would not work, or the image has no terms to
    accept."""
    with reword_errors(f"cluster `{name}`"):
        node_rules.check_image(spec.size, spec.image, own=spec.image_id is not None)
        node_rules.check_terms(spec.image, accepted=spec.accept_terms)


def _os_disk(blocks: ModuleType, name: str, spec: NodeSpec, *, local: bool | None) -> Any:
    with reword_errors(f"cluster `{name}`"):
        node_rules.check_os_disk(
            spec.size,
            spec.image,
            spec.os_gib,
            local=bool(local),
            eviction=spec.spot.eviction if spec.spot else None,
        )
    gib = spec.os_gib or spec.image.os_disk_gib
    if not local:
        return blocks.OsDisk(
            caching="ReadWrite", storage_account_type="Premium_LRS", disk_size_gb=gib
        )
    return blocks.OsDisk(
        caching="ReadOnly",
        storage_account_type="Standard_LRS",
        disk_size_gb=gib,
        diff_disk_settings=blocks.OsDiskDiffDiskSettings(option="Local", placement="ResourceDisk"),
    )
