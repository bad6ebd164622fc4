"""The common part of the stacks of an environment file: provider, tags, and where the state is
kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_constructs.cloud_init.mounts import machine_proxy
from fairway_constructs.environment_stack import EnvironmentStack
from fairway_stacks.state import keep_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_constructs.cdk import App
    from fairway_core.environment import Environment


# What the stacks of an environment are called after, in the order in which they are made.
ROLES = ("network", "data", "compute")


@dataclass(frozen=True, kw_only=True)
class Project:
    """The CDK app, the folder of cdktf.json, and where Terraform's files are written."""

    app: App
    folder: Path
    outdir: Path


class RoleStack(EnvironmentStack):
    """A stack of an environment file, named after it and its role: `demo-network`."""

    def __init__(self, project: Project, environment: Environment, role: str) -> None:
        name = f"{environment.name}-{role}"
        super().__init__(
            project.app,
            name,
            environment=environment.name,
            role=role,
            location=environment.location,
            zone=environment.zone_number,
            tags=environment.tags,
            resource_group=(
                environment.resource_group.existing if environment.resource_group else None
            ),
            proxy=machine_proxy(environment.network.proxy, environment.network.ranges.values()),
            ssh_keys=environment.access.ssh_keys or (),
            protect=environment.protect,
            naming=environment.names,
            # A Logic App that outlived its schedule would go on stopping nodes.
            deletes_deployed=role == "compute",
            short_addresses=True,
            checks=False,  # `write_stacks` runs them, with what the file asks for
        )
        keep_state(self, name, environment.state, project=project.folder, outdir=project.outdir)


def referred_to(clusters: Mapping[str, object], field: str) -> dict[str, str]:
    """The resource ids in a field of clusters: each id once, by the name of the first with it.

    >>> from types import SimpleNamespace as Cluster
    >>> referred_to({"a": Cluster(image_id="i"), "b": Cluster(image_id="i")}, "image_id")
    {'a': 'i'}
    """
    found: dict[str, str] = {}
    for name, cluster in clusters.items():
        resource = getattr(cluster, field)
        if resource and resource not in found.values():
            found[name] = resource
    return found
