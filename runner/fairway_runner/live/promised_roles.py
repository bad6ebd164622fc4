"""The roles that deploying gives to people, on what is there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.environment.researchers import data_roles, researchers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_core.environment import Environment


@dataclass(frozen=True)
class PromisedRole:
    """A built-in role on a resource, by its id, for a principal; `who` says who that is.

    Azure shows the `reason` beside it. Terraform has it at `address`, in the stack's `folder`; the
    environment file names it at `path`, "" where it does not.
    """

    scope: str
    role: str
    principal: str
    who: str
    reason: str
    address: str
    folder: str
    path: str


def promised_roles(
    environment: Environment, own_id: Callable[[], str], *, storage: str, batch: str
) -> Iterator[PromisedRole]:
    """Those on the containers of a storage account and on a Batch account, by their ids: "" for one
    that is still to be made. `own_id` tells who is signed in."""
    containers = environment.storage.containers if storage else ()
    for person in researchers_of(environment.access.researchers):
        for each in data_roles(containers, pools=bool(batch)):
            key = f"{each.key}-used-by-{person.key}"
            within = f"{storage}/blobServices/default/containers/{each.container}"
            yield PromisedRole(
                scope=within if each.container else batch,
                role=each.role,
                principal=person.object_id or own_id(),
                who=f"`{person.object_id}`" if person.object_id else "the account that deploys",
                reason=f"{each.reason}; {person.why}",
                address=f"azurerm_role_assignment.{key}",
                folder=f"cdktf.out/stacks/{environment.name}-data",
                path="access.researchers" if person.object_id else "",
            )
