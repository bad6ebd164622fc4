"""What each kind of check is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datetime
    from collections.abc import Collection, Mapping
    from ipaddress import IPv4Network

    from fairway_core.checks.resource_change import ResourceChange
    from fairway_core.environment import Environment
    from fairway_core.target import Target


@dataclass(frozen=True)
class EnvironmentSubject:
    """An environment, and the date against which retirements are set."""

    environment: Environment
    today: datetime.date


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the environment file asked for, as far as it decides what Terraform may hold.

    `public_accounts` are the names of storage accounts that may answer to every network.
    """

    protect: bool = True
    allowed: tuple[IPv4Network, ...] = ()
    bastion: bool = False
    private_endpoints: bool = True
    public_accounts: tuple[str, ...] = ()

    @classmethod
    def by(cls, environment: Environment) -> Asked:
        """What this environment asks for."""
        # Imported here: a review of plans needs no environment, and is to start at once.
        from fairway_core.environment.state import AzurermState

        access, state = environment.access, environment.state
        public: tuple[str, ...] = ()
        if isinstance(state, AzurermState) and state.public_access:
            public = (state.storage_account,)
        return cls(
            protect=environment.protect,
            allowed=access.allowed,
            bastion=access.bastion,
            private_endpoints=environment.network.private_endpoints,
            public_accounts=public,
        )


@dataclass(frozen=True)
class StackSubject:
    """A synthesized stack without nulls and comments, and what was asked for."""

    resources: Mapping[str, Mapping[str, Mapping[str, Any]]]
    outputs: Mapping[str, Mapping[str, Any]]
    asked: Asked


@dataclass(frozen=True)
class PlanSubject:
    """A plan's changes, and the addresses of the resources whose loss is meant.

    `others` are the changes in the plans of other stacks, for what stands in a subnet; `own` are
    the ids of the identities that the environment itself has made.
    """

    changes: Collection[ResourceChange]
    allow: Collection[str]
    others: Collection[ResourceChange] = ()
    own: Collection[str] = ()


@dataclass(frozen=True)
class JobSubject:
    """A job as plain data, with no more than its file says, and where it is to run."""

    job: Mapping[str, Any]
    target: Target
