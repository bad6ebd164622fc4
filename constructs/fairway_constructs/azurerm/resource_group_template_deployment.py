"""Resource azurerm_resource_group_template_deployment of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ResourceGroupTemplateDeployment(Resource):
    """The resource azurerm_resource_group_template_deployment."""

    TYPE = "azurerm_resource_group_template_deployment"

    debug_level = StringAttribute()
    deployment_mode = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    output_content = StringAttribute()
    parameters_content = StringAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()
    template_content = StringAttribute()
    template_spec_version_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment_mode: str,
        name: str,
        resource_group_name: str,
        debug_level: str | None = None,
        parameters_content: str | None = None,
        tags: Mapping[str, str] | None = None,
        template_content: str | None = None,
        template_spec_version_id: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "deployment_mode": deployment_mode,
                "name": name,
                "resource_group_name": resource_group_name,
                "debug_level": debug_level,
                "parameters_content": parameters_content,
                "tags": tags,
                "template_content": template_content,
                "template_spec_version_id": template_spec_version_id,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
