"""The accounts of an environment's users on each of its machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.environment.filesystems import homes, shared_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cloud_init.people import Accounts
    from fairway_core.environment import Environment
    from fairway_core.environment.filesystems import SharedQueue


def accounts_of(
    environment: Environment,
    mounts: Sequence[str] = (),
    *,
    fenced: bool = False,
    queue: SharedQueue | None = None,
    containers: bool = False,
) -> Accounts | None:
    """Returns the accounts on a machine with these file systems, or None if all users share one.

    `fenced` is for machines whose identity may read Slurm's key; users' runs wait in `queue`;
    `containers` is for nodes. An empty list differs from None: a machine locks the users who are no
    longer in it.
    """
    if "users" not in environment.access.model_fields_set:
        return None
    people = [person for person in environment.access.users if person.keys]
    from fairway_constructs.cloud_init.people import Accounts

    place = homes(environment.filesystems, environment.clusters, mounts)
    return Accounts(
        people=people,
        homes=place,
        fenced=fenced,
        queue=queue,
        containers=containers,
        signed_in=[person.name for person in environment.access.users if person.entra],
    )


def queue_of(environment: Environment, name: str) -> SharedQueue | None:
    """Returns the queue of users' runs for a cluster's nodes, or None if all share one account or a
    scheduler has its own queue."""
    cluster = environment.clusters[name]
    if cluster.engine != "ssh" or "users" not in environment.access.model_fields_set:
        return None
    return shared_queue(environment.filesystems, name, cluster)


def folders_of(environment: Environment, mounts: Sequence[str] | None) -> dict[str, str] | None:
    """Returns each user's own folder for runs on machines with these file systems; "" for `mounts`
    None, as on a pool, where users have none. Returns None if all share one account."""
    folder = ""
    if mounts is not None:
        folder = homes(environment.filesystems, environment.clusters, mounts).folder
    found = {}
    for each in environment.access.users:
        # Entra ID creates the homes of the users who sign in with it.
        own = "~" if each.entra else f"{folder}/{each.name}"
        found[each.name] = folder and f"{own}/fairway"
    return found or None


def signed_in(environment: Environment) -> dict[str, bool]:
    """Returns the users who sign in with Entra ID, by object id, and whether they may use sudo."""
    return {each.entra: each.admin for each in environment.access.users if each.entra}
