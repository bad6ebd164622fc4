"""Resource azurerm_storage_blob of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class StorageBlob(Resource):
    """The resource azurerm_storage_blob."""

    TYPE = "azurerm_storage_blob"

    access_tier = StringAttribute()
    cache_control = StringAttribute()
    content_md5 = StringAttribute()
    content_type = StringAttribute()
    encryption_scope = StringAttribute()
    id = StringAttribute()
    metadata = MapAttribute()
    name = StringAttribute()
    parallelism = NumberAttribute()
    size = NumberAttribute()
    source = StringAttribute()
    source_content = StringAttribute()
    source_uri = StringAttribute()
    storage_container_id = StringAttribute()
    type = StringAttribute()
    url = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        storage_container_id: str,
        type: str,
        access_tier: str | None = None,
        cache_control: str | None = None,
        content_md5: str | None = None,
        content_type: str | None = None,
        encryption_scope: str | None = None,
        metadata: Mapping[str, str] | None = None,
        parallelism: float | None = None,
        size: float | None = None,
        source: str | None = None,
        source_content: str | None = None,
        source_uri: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "storage_container_id": storage_container_id,
                "type": type,
                "access_tier": access_tier,
                "cache_control": cache_control,
                "content_md5": content_md5,
                "content_type": content_type,
                "encryption_scope": encryption_scope,
                "metadata": metadata,
                "parallelism": parallelism,
                "size": size,
                "source": source,
                "source_content": source_content,
                "source_uri": source_uri,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
