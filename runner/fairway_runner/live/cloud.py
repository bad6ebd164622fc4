"""Which Azure is meant, by the variables that Terraform's azurerm provider reads too."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure.core.credentials import TokenCredential

_FAILED = 5

# Azure documentation: Authenticate to and develop with national clouds, 2026-11-21.
_CLOUDS = {
    "public": (
        "https://management.azure.com",
        "https://login.microsoftonline.com",
        "https://batch.core.windows.net",
    ),
    "usgovernment": (
        "https://management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
        "https://batch.core.usgovcloudapi.net",
    ),
    "china": (
        "https://management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
        "https://batch.chinacloudapi.cn",
    ),
}


@dataclass(frozen=True)
class Cloud:
    """The address of Azure Resource Manager, and that at which one signs in.

    `authorities` is a file of authorities that are trusted in place of the usual ones.
    `own` says that it was found by a metadata host of its own. `batch` is what tokens for Azure
    Batch are for.
    """

    manager: str
    login: str
    authorities: str | None = None
    own: bool = False
    batch: str = "https://batch.core.windows.net"

    @property
    def scope(self) -> str:
        """What a token must be good for."""
        return f"{self.manager}/.default"


def chosen_cloud(environ: Mapping[str, str] | None = None) -> Cloud:
    """The cloud of ARM_METADATA_HOSTNAME, or of ARM_ENVIRONMENT, or the public one.

    Raises UserError where there is no such cloud, or where its host does not answer.
    """
    variables = os.environ if environ is None else environ
    authorities = variables.get("SSL_CERT_FILE") or None
    host = variables.get("ARM_METADATA_HOSTNAME")
    if host:
        found = _metadata(host, authorities)
        login = found["authentication"]["loginEndpoint"]
        manager = found["resourceManager"]
        return Cloud(manager.rstrip("/"), login.rstrip("/"), authorities, own=True)
    name = variables.get("ARM_ENVIRONMENT", "public").lower()
    if name not in _CLOUDS:
        message = f"ARM_ENVIRONMENT: there is no cloud `{name}`"
        raise UserError.of("unknown-cloud", message, f"one of: {', '.join(_CLOUDS)}")
    manager, login, batch = _CLOUDS[name]
    return Cloud(manager, login, authorities, batch=batch)


def credential_for(cloud: Cloud, environ: Mapping[str, str] | None = None) -> TokenCredential:
    """The identity Terraform would sign in as: a service principal of its variables, or the user.

    The user is the one that `az login`, an identity of this machine or AZURE_… variables say.
    """
    import logging

    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    # What it says of each way in that it tried is for those who listen, and not for a terminal.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    variables = os.environ if environ is None else environ
    options: dict[str, Any] = {"authority": cloud.login, "disable_instance_discovery": cloud.own}
    if cloud.authorities:
        options["connection_verify"] = cloud.authorities
    names = ("ARM_TENANT_ID", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET")
    tenant, client, secret = (variables.get(name, "") for name in names)
    if tenant and client and secret:
        return ClientSecretCredential(tenant, client, secret, **options)
    return DefaultAzureCredential(**options)


def _metadata(host: str, authorities: str | None) -> dict[str, Any]:
    import json
    import ssl
    import urllib.error
    import urllib.request

    url = f"https://{host}/metadata/endpoints?api-version=2022-09-01"
    try:
        context = ssl.create_default_context(cafile=authorities)
        with urllib.request.urlopen(url, context=context, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError) as error:
        message = f"{host} of ARM_METADATA_HOSTNAME does not describe a cloud: {error}"
        hint = "name the host of the cloud's Resource Manager, or: unset ARM_METADATA_HOSTNAME"
        raise UserError.of("unknown-cloud", message, hint, exit_code=_FAILED) from None
