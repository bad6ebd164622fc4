"""A cloud in which this server is every service, with one made-up principal."""

from __future__ import annotations

import base64
import json
import time
from typing import Any


def metadata(host: str) -> dict[str, Any]:
    """Returns the answer of `/metadata/endpoints` for a server at `host`, a name with a port.

    The fields are those of api-version 2022-09-01.
    """
    base = f"https://{host}"
    return {
        "name": "AzureLoopback",
        "portal": base,
        "resourceManager": f"{base}/",
        "graph": f"{base}/",
        "graphAudience": f"{base}/",
        "microsoftGraphResourceId": f"{base}/",
        "gallery": base,
        "batch": f"{base}/",
        "media": base,
        "vmImageAliasDoc": f"{base}/",
        "activeDirectoryDataLake": f"{base}/",
        "sqlManagement": base,
        "ossrDbmsResourceId": f"{base}/",
        "logAnalyticsResourceId": f"{base}/",
        "applicationInsightsResourceId": f"{base}/",
        "applicationInsightsTelemetryChannelResourceId": f"{base}/",
        "attestationResourceId": f"{base}/",
        "synapseAnalyticsResourceId": f"{base}/",
        "authentication": {
            "loginEndpoint": f"{base}/",
            "audiences": [f"{base}/"],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "suffixes": {
            "storage": "core.windows.net",
            "keyVaultDns": host,
            "mhsmDns": host,
            "acrLoginServer": "azurecr.io",
            "sqlServerHostname": "database.windows.net",
            "mysqlServerEndpoint": "mysql.database.azure.com",
            "postgresqlServerEndpoint": "postgres.database.azure.com",
            "azureFrontDoorEndpointSuffix": "azurefd.net",
            "storageSyncEndpointSuffix": "afs.azure.net",
            "azureDataLakeStoreFileSystem": "azuredatalakestore.net",
            "azureDataLakeAnalyticsCatalogAndJob": "azuredatalakeanalytics.net",
            "synapseAnalytics": "dev.azuresynapse.net",
            "attestationEndpoint": host,
        },
    }


NOBODY = "00000000-0000-0000-0000-000000000000"
"""The id of the tenant, the subscription, the application, and the user who signs in."""

_LIFETIME = 3600


def token_response(tenant: str, scope: str, principal: str = NOBODY) -> dict[str, Any]:
    """Returns the answer of a token endpoint: a token of that principal for that scope, for an
    hour."""
    audience = scope.partition(" ")[0].removesuffix("/.default")
    return {
        "access_token": _unsigned(tenant, audience, principal),
        "token_type": "Bearer",
        "expires_in": _LIFETIME,
        "ext_expires_in": _LIFETIME,
    }


def openid_configuration(base: str, tenant: str) -> dict[str, str]:
    """Returns the endpoints for a tenant's tokens, which sign-in libraries look up first."""
    authority = f"{base}/{tenant}"
    return {
        "issuer": f"{authority}/v2.0",
        "token_endpoint": f"{authority}/oauth2/v2.0/token",
        "authorization_endpoint": f"{authority}/oauth2/v2.0/authorize",
        "device_authorization_endpoint": f"{authority}/oauth2/v2.0/devicecode",
    }


def principal_of(token: str) -> str:
    """Returns the object id of a token's owner; NOBODY if the token does not say."""
    return str(_claims(token).get("oid", NOBODY))


def audience_of(token: str) -> str:
    """Returns the service that a token is for; "" if it does not say."""
    return str(_claims(token).get("aud", ""))


def _claims(token: str) -> dict[str, Any]:
    """Returns the claims of a token; none if it is not a token of ours."""
    try:
        part = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _unsigned(tenant: str, audience: str, principal: str) -> str:
    """Returns a JSON Web Token with an empty signature; the provider reads its own ids from it."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": f"https://sts.windows.net/{tenant}/",
        "iat": now,
        "nbf": now,
        "exp": now + _LIFETIME,
        "appid": NOBODY,
        "oid": principal,
        "sub": principal,
        "tid": tenant,
        "ver": "1.0",
    }
    return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(claims)}."


def _part(value: dict[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
