"""The boot of a VM: cloud-config rendered from the templates in this folder.

A template writes a script, its settings and a systemd unit that runs it at each boot. The scripts
are plain bash and can be rerun at any time; the values that differ between VMs are in the settings,
quoted for the shell.
"""

from __future__ import annotations

import base64
import gzip
import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_constructs import network_access

# Checks of arguments find its type `Mounts` once it is loaded.
from fairway_constructs.cloud_init.mounts import Mount  # noqa: TC001
from fairway_constructs.terraform_data import REFERENCE
from fairway_core.local_disks import with_local_disks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from jinja2 import Environment as Templates

    from fairway_constructs.cloud_init.mounts import MachineProxy

# The login user of every VM; Azure gives it the user id 1000 on each of them.
ADMIN_USERNAME = "azureuser"

# Azure's limit for the boot data of a VM. Source: Azure documentation, custom data.
LONGEST_CUSTOM_DATA = 65_535

# The most that `packed_size` may say: Terraform's gzip takes a little more room than Python's, and
# ids, which it fills in, more than their placeholders, which compress to nothing.
LONGEST_PACKED = LONGEST_CUSTOM_DATA - 1_000

# Longer boot data is compressed: what Terraform fills in may be longer than its placeholder.
_LONGEST_PLAIN = 60_000
_PLACEHOLDER = "?" * 40

# The folder of the login user's runs on a machine with only its own disk.
LOCAL_FOLDER = f"/home/{ADMIN_USERNAME}/fairway"

# The home of the login user if /home is a shared file system.
_LOCAL_HOME = f"/var/lib/{ADMIN_USERNAME}"

# A port of the loopback address, below Linux's ephemeral ports.
HEALTH_PORT = 18642

# Comments of the document itself: the texts of files are indented further.
_REMARK = re.compile(r"^ {0,2}#(?!cloud-config).*\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class NodeHealth:
    """Hardware of a healthy node: its NVIDIA GPUs, and its InfiniBand adapters that are up."""

    gpus: int
    adapters: int


def node_cloud_init(
    *,
    cluster: str,
    mounts: Sequence[Mount],
    nfs_client_package: str,
    host_patterns: Sequence[str],
    gpu_metrics: bool = False,
    health: NodeHealth | None = None,
    health_probe: bool = False,
    peers: bool = True,
    announced: bool = True,
    queue: str = "",
    people: str = "",
    idle: Mapping[str, str] | None = None,
    identity: str = "",
    template: str = "node.yaml.j2",
    more: Mapping[str, Any] | None = None,
    proxy: MachineProxy | None = None,
) -> str:
    """Returns the cloud-config of a compute node; `host_patterns` match its peers for OpenSSH.

    With `gpu_metrics` the node logs to syslog each minute how busy its NVIDIA GPUs are. With
    `health` it checks that its hardware is complete, for the other nodes if it is announced, and
    for Azure on HEALTH_PORT with `health_probe`. Without `peers` it shares no keys. It announces
    its address each minute in a folder that all nodes see, unless `announced` is false, as when a
    scheduler knows it; that folder is `queue` if the runs of several users queue there. `people` is
    a script that creates their accounts. With `idle`, the program of `boot_package` and the `text`
    of its settings, it stops itself when nobody uses it. It reaches the internet by `proxy`, if
    there is one. `template` may extend the usual one, and gets `more`.

    If a file system is mounted on /home, the login user's home is elsewhere: so keys work whether
    the file system is available or not.
    """
    shared = shared_folder(mounts) if peers else ""
    settings = {"ADMIN": ADMIN_USERNAME, "CLUSTER": cluster, "SHARED": shared}
    if shared and announced:
        settings["MOUNT"] = shared_mount(mounts)
        settings |= {"QUEUE": queue} if queue else {}
    if health:
        settings |= {"GPUS": str(health.gpus), "ADAPTERS": str(health.adapters)}
    return _render(
        template,
        program="node.sh",
        settings=settings,
        mounts=mounts,
        local_home=_LOCAL_HOME if any(mount.path == "/home" for mount in mounts) else "",
        login_user=ADMIN_USERNAME,
        mount_blobs=script("mount_blobs.sh"),
        nfs_3=any(mount.nfs_3 for mount in mounts),
        ports=network_access,
        nfs_client_package=nfs_client_package,
        host_patterns=host_patterns,
        gpu_metrics=script("gpu_metrics.sh") if gpu_metrics else "",
        health=script("health.sh") if health else "",
        health_port=HEALTH_PORT if health_probe else 0,
        people=people,
        idle=idle,
        identity=identity,
        announce=script("announce.sh") if shared and announced else "",
        proxy=proxy,
        **(more or {}),
    )


def nfs_server_cloud_init(
    *,
    name: str,
    disks: int,
    threads: int,
    clients: Sequence[IPv4Network],
    versions: Sequence[float] = (4.1,),
    proxy: MachineProxy | None = None,
) -> str:
    """Returns the cloud-config of an NFS server that stripes `disks` disks and serves `clients`.

    `versions` are the supported versions of NFS, of 3 and 4.1.
    """
    return _render(
        "nfs_server.yaml.j2",
        program="nfs_server.sh",
        settings={"NAME": name, "DISKS": str(disks), "EXPORT": export_path(name)},
        export=export_path(name),
        threads=threads,
        clients=clients,
        nfs_3=3 in versions,
        nfs_4=any(version >= 4 for version in versions),
        ports=network_access,
        proxy=proxy,
    )


def server_cloud_init(proxy: MachineProxy) -> str:
    """Returns the cloud-config of a machine that only needs to know its proxy."""
    return _templates().get_template("server.yaml.j2").render(proxy=proxy)


def export_path(name: str) -> str:
    """Returns the path at which a server exports the file system of that name."""
    return f"/srv/fairway/{name}"


def shared_folder(mounts: Sequence[Mount]) -> str:
    """Returns the folder that all nodes with these mounts see, or "" without any."""
    mount = shared_mount(mounts)
    return f"{mount}/fairway" if mount else ""


def shared_mount(mounts: Sequence[Mount]) -> str:
    """Returns the path of the first of these mounts that can hold runs, or ""."""
    return next((mount.path for mount in mounts if mount.holds_runs), "")


def custom_data(cloud_init: str) -> str:
    """Returns the text as Azure's custom data: in base64, by Terraform if it holds references.

    A reference is a placeholder in the encoded text, which Terraform fills in: so nothing in a
    script can be mistaken for a Terraform expression. Terraform compresses a long text, as gzip's
    output differs between Pythons. Source: cloud-init documentation, "Gzip compressed content".
    """
    if len(_measured(cloud_init)) > _LONGEST_PLAIN:
        return f"${{base64gzip({terraform_text(cloud_init)})}}"
    if not REFERENCE.search(cloud_init):
        return base64.b64encode(cloud_init.encode()).decode()
    return f"${{base64encode({terraform_text(cloud_init)})}}"


def packed_size(cloud_init: str) -> int:
    """Returns about how many bytes the text takes as custom data once it is compressed."""
    return len(gzip.compress(_measured(cloud_init)))


def _measured(cloud_init: str) -> bytes:
    return REFERENCE.sub(_PLACEHOLDER, cloud_init).encode()


def terraform_text(text: str) -> str:
    """Returns an expression for the text in Terraform, with its references filled in.

    >>> terraform_text("a")
    'base64decode("YQ==")'
    """
    references = list(dict.fromkeys(REFERENCE.findall(text)))
    for index, reference in enumerate(references):
        text = text.replace(reference, f"@@{index}@@")
    expression = f'base64decode("{base64.b64encode(text.encode()).decode()}")'
    for index, reference in enumerate(references):
        expression = f'replace({expression}, "@@{index}@@", {reference})'
    return expression


def _render(template: str, *, program: str, settings: Mapping[str, str], **values: Any) -> str:
    found = _templates().get_template(template)
    text = found.render(script=script(program), settings=assignments(settings), **values)
    # Comments in the document count against Azure's limit; files keep theirs.
    return _REMARK.sub("", text)


def assignments(settings: Mapping[str, str]) -> list[str]:
    """Returns lines that set these variables in a script.

    >>> assignments({"MOUNT": "/data", "LOGIN": ""})
    ['MOUNT=/data', "LOGIN=''"]
    """
    return [f"{name}={shlex.quote(value)}" for name, value in settings.items()]


def boot_package(library: str, modules: Sequence[str]) -> dict[str, str]:
    """Returns the folder of these modules of `fairway_boot` on a machine, and the path and the
    content, in base64, of their archive."""
    from fairway_core import archives

    digest, packed = archives.boot(modules)
    return {
        "library": library,
        "package": f"{library}/fairway_boot.{digest}.tar.bz2",
        "packed": base64.b64encode(packed).decode(),
    }


def render_plain(template: str, **values: Any) -> str:
    """Renders a template of this folder that is not cloud-config, such as a configuration file."""
    return _templates().get_template(template).render(**values)


def script(name: str) -> str:
    """Returns the text of a script of this folder, with the parts that others share."""
    text, part = (
        (Path(__file__).parent / each).read_text(encoding="utf-8") for each in (name, "apt.sh")
    )
    return with_local_disks(text.replace("# apt.sh\n", part))


@cache
def _templates() -> Templates:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(  # noqa: S701 - writes YAML and no HTML
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # a template is used only a few times: folding its constants takes longer
    )
