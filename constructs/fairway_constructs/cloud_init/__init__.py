"""What a VM does when it boots: cloud-config rendered from the templates in this folder.

A template writes a script, its settings and a systemd unit that runs it at each boot. The
scripts are plain bash and can be run again at any time; what differs from VM to VM stands
in the settings, quoted for the shell.
"""

from __future__ import annotations

import base64
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from jinja2 import Environment as Templates

# The login user of every VM; Azure gives it the user id 1000 on each of them.
ADMIN_USERNAME = "azureuser"

# A reference in a Python string, whose value only Terraform will know.
_REFERENCE = re.compile(r"\$\{TfToken\[[^]]+\]\}")


@dataclass(frozen=True, kw_only=True)
class Mount:
    """An exported file system: `server` (an address or a reference), `export`, and `path`."""

    name: str
    server: str
    export: str
    path: str


def node_cloud_init(
    *,
    cluster: str,
    mounts: Sequence[Mount],
    nfs_client_package: str,
    host_patterns: Sequence[str],
    gpu_metrics: bool = False,
    peers: bool = True,
) -> str:
    """The cloud-config of a compute node; `host_patterns` match its peers for OpenSSH.

    With `gpu_metrics` it tells syslog each minute how busy its NVIDIA GPUs are. Without
    `peers` it shares no keys and tells nobody its address: a scheduler does both.
    """
    shared = shared_folder(mounts) if peers else ""
    return _render(
        "node.yaml.j2",
        script="node.sh",
        settings={"ADMIN": ADMIN_USERNAME, "CLUSTER": cluster, "SHARED": shared},
        mounts=mounts,
        nfs_client_package=nfs_client_package,
        host_patterns=host_patterns,
        gpu_metrics=_script("gpu_metrics.sh") if gpu_metrics else "",
    )


def nfs_server_cloud_init(
    *, name: str, disks: int, threads: int, clients: Sequence[IPv4Network]
) -> str:
    """The cloud-config of an NFS server that stripes `disks` disks and serves `clients`."""
    return _render(
        "nfs_server.yaml.j2",
        script="nfs_server.sh",
        settings={"NAME": name, "DISKS": str(disks), "EXPORT": export_path(name)},
        export=export_path(name),
        threads=threads,
        clients=clients,
    )


def export_path(name: str) -> str:
    """Where a server exports the file system of that name."""
    return f"/srv/fairway/{name}"


def shared_folder(mounts: Sequence[Mount]) -> str:
    """The folder that all nodes with these mounts see, or an empty string without any."""
    return f"{mounts[0].path}/fairway" if mounts else ""


def custom_data(cloud_init: str) -> str:
    """The text as Azure takes it: in base64, by Terraform where it holds references.

    A reference is a placeholder in the encoded text, which Terraform fills in: so nothing
    in a script can be taken for an expression of Terraform's.
    """
    if not _REFERENCE.search(cloud_init):
        return base64.b64encode(cloud_init.encode()).decode()
    return f"${{base64encode({terraform_text(cloud_init)})}}"


def terraform_text(text: str) -> str:
    """An expression by which Terraform gets the text, with its references filled in.

    >>> terraform_text("a")
    'base64decode("YQ==")'
    """
    references = list(dict.fromkeys(_REFERENCE.findall(text)))
    for index, reference in enumerate(references):
        text = text.replace(reference, f"@@{index}@@")
    expression = f'base64decode("{base64.b64encode(text.encode()).decode()}")'
    for index, reference in enumerate(references):
        expression = f'replace({expression}, "@@{index}@@", {reference})'
    return expression


def _render(template: str, *, script: str, settings: Mapping[str, str], **values: Any) -> str:
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    return (
        _templates().get_template(template).render(script=_script(script), settings=lines, **values)
    )


def _script(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def _templates() -> Templates:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(  # noqa: S701 - writes YAML and no HTML
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
