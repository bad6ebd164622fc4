"""The metadata of a cloud in which every service is this server."""

from __future__ import annotations

from typing import Any

STORAGE_SUFFIX = "core.windows.net"
"""The data plane of storage is never asked: accounts have the names that Azure would give."""


def metadata(host: str) -> dict[str, Any]:
    """The answer of `/metadata/endpoints` for a server at `host`, a name with a port.

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
            "storage": STORAGE_SUFFIX,
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
