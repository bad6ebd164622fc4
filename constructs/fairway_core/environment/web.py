"""The environment's page: `fairway serve` for all its users, on a login node of Slurm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, field_validator

from fairway_core.documents import FieldError, Model, matching, require
from fairway_core.environment.values import Range
from fairway_core.public_ranges import is_private
from fairway_core.resource_ids import GUID, VaultId

if TYPE_CHECKING:
    from fairway_core.environment.access import Access
    from fairway_core.environment.clusters.slurm.scheduler import Slurm
    from fairway_core.environment.network import Network

USER = "fairway-web"
"""The account of the server itself, only on the login node."""

_URL = re.compile(r"https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
# For pip, which reads project and version from the file's name.
_WHEEL = matching(
    r"(https://[\w./%+~-]+|file:///[\w./%+~-]+)/fairway_hpc-[\w.+-]+\.whl#sha256=[0-9a-f]{64}",
    "the login node installs a wheel of Fairway whose digest is known, and nothing else",
    "write https://HOST/fairway_hpc-VERSION-py3-none-any.whl#sha256=DIGEST",
)


_PRIVATE = require(
    is_private,
    "nobody connects from `{}`: the login node has no public address",
    "name ranges of your networks or VPN, for example 10.8.0.0/16",
)
_Id = Annotated[
    str,
    matching(
        GUID,
        "`{}` is not an id of Entra ID",
        "az ad app list --display-name NAME --query [].appId -o tsv",
    ),
    StringConstraints(to_lower=True),
]
_SecretName = Annotated[
    str,
    matching(
        "[A-Za-z0-9-]{1,127}",
        "`{}` cannot be a name in a key vault",
        "letters, digits and hyphens, at most 127",
    ),
]


class Web(Model, defer_build=True):
    """Runs in a browser for all people of the environment: `fairway serve --behind-proxy` on the
    first login node, at its private address, behind a sign-in by Entra ID.

    It shows and submits to partitions and pools. What people may do follows from their app roles.
    """

    url: str
    """The URL that people open, for example `https://runs.example.org`. You make the DNS name
    that leads to the login node."""
    tenant: _Id
    """The id of the Entra ID tenant in which people sign in."""
    client_id: _Id
    """The client id of the application that you have registered there."""
    vault: VaultId
    """The id of a key vault of yours, with role-based access, that holds the certificate and the
    secret."""
    certificate: _SecretName
    """The name of the certificate of `url` in the vault; a renewed one is picked up within a
    day."""
    client_secret: _SecretName
    """The name of the vault's secret that holds the application's client secret."""
    account: str
    """The account that submits to Slurm: a name from `access.users` without `admin`."""
    allowed: tuple[Annotated[Range, _PRIVATE], ...] = Field(default=())
    """Private address ranges, such as those of a VPN, that may open the page."""
    package: Annotated[str, _WHEEL]
    """The wheel of Fairway with its digest: `https://…/fairway_hpc-VERSION-py3-none-any.whl#sha256=…`,
    or `file:///…` on a file system that the login node mounts."""

    @field_validator("url")
    @classmethod
    def _is_https(cls, url: str) -> str:
        found = url.lower().removesuffix("/").removesuffix(":443")
        if not _URL.fullmatch(found):
            message = f"`{url}` is not https:// and a name alone"
            raise FieldError(message, "for example `https://runs.example.org`")
        return found


def check_web(web: Web | None, slurm: Slurm | None, access: Access, network: Network) -> None:
    """Raises FieldError if the rest of the environment cannot host the page."""
    if web is None:
        return
    if slurm is None or slurm.login is None:
        raise FieldError(
            "the page needs a machine that neither runs jobs nor is the scheduler, and "
            "there is none",
            "add a login node: `slurm: {login: {}}`",
            ("web",),
        )
    person = next((each for each in access.users if each.name == web.account), None)
    if person is None or person.admin:
        what = "is an administrator" if person else "is not under `access.users`"
        raise FieldError(
            f"`{web.account}` {what}, but the page's jobs run as an account without sudo",
            "name one of them, with a key of yours and without `admin`",
            ("web", "account"),
        )
    if any(each.name == USER for each in access.users):
        message = f"`{USER}` is the account of the page's own server"
        raise FieldError(message, "choose another name", ("access", "users"))
    if network.existing and web.allowed:
        message = "the rules of an existing network belong to its owner, who has to admit people"
        raise FieldError(message, "leave it out", ("web", "allowed"))
    if not network.existing and not web.allowed:
        message = "nobody could open the page"
        hint = "name the private ranges that may, for example `allowed: [10.8.0.0/16]`"
        raise FieldError(message, hint, ("web",))
