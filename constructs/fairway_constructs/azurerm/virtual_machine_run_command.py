"""Resource azurerm_virtual_machine_run_command of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, ObjectAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ErrorBlobManagedIdentity(Block):
    """The block `error_blob_managed_identity`."""

    client_id: str | None = None
    object_id: str | None = None


class OutputBlobManagedIdentity(Block):
    """The block `output_blob_managed_identity`."""

    client_id: str | None = None
    object_id: str | None = None


class Parameter(Block):
    """The block `parameter`."""

    name: str
    value: str


class ProtectedParameter(Block):
    """The block `protected_parameter`."""

    name: str
    value: str


class SourceScriptUriManagedIdentity(Block):
    """The block `source.script_uri_managed_identity`."""

    client_id: str | None = None
    object_id: str | None = None


class Source(Block):
    """The block `source`."""

    command_id: str | None = None
    script: str | None = None
    script_uri: str | None = None
    script_uri_managed_identity: SourceScriptUriManagedIdentity | None = None


class VirtualMachineRunCommand(Resource):
    """The resource azurerm_virtual_machine_run_command."""

    TYPE = "azurerm_virtual_machine_run_command"

    error_blob_uri = StringAttribute()
    id = StringAttribute()
    instance_view = ObjectAttribute()
    location = StringAttribute()
    name = StringAttribute()
    output_blob_uri = StringAttribute()
    run_as_password = StringAttribute()
    run_as_user = StringAttribute()
    tags = MapAttribute()
    virtual_machine_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        virtual_machine_id: str,
        source: Source,
        error_blob_uri: str | None = None,
        output_blob_uri: str | None = None,
        run_as_password: str | None = None,
        run_as_user: str | None = None,
        tags: Mapping[str, str] | None = None,
        error_blob_managed_identity: ErrorBlobManagedIdentity | None = None,
        output_blob_managed_identity: OutputBlobManagedIdentity | None = None,
        parameter: Sequence[Parameter] | None = None,
        protected_parameter: Sequence[ProtectedParameter] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "virtual_machine_id": virtual_machine_id,
                "source": source,
                "error_blob_uri": error_blob_uri,
                "output_blob_uri": output_blob_uri,
                "run_as_password": run_as_password,
                "run_as_user": run_as_user,
                "tags": tags,
                "error_blob_managed_identity": error_blob_managed_identity,
                "output_blob_managed_identity": output_blob_managed_identity,
                "parameter": parameter,
                "protected_parameter": protected_parameter,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
