"""Terraform's own means: values that it keeps, literal texts, templates that Azure deploys."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm.resource_group_template_deployment import (
    ResourceGroupTemplateDeployment,
)
from fairway_constructs.bindings.attributes import ObjectAttribute
from fairway_constructs.cdk import Resource, context_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable


class TerraformData(Resource):
    """A value in Terraform's state, replaced when it changes.

    A resource whose `Lifecycle.replace_triggered_by` names it is replaced when `input` changes. It
    needs no provider.
    """

    TYPE = "terraform_data"
    PROVIDER = None
    output = ObjectAttribute()

    def __init__(self, scope: Construct, id: str, *, input: object) -> None:
        super().__init__(scope, id, {"input": input})


# A reference in a Python string, whose value only Terraform will know.
REFERENCE = re.compile(r"(\$\{TfToken\[[^]]+\]\})")


def escape_template(text: str) -> str:
    """Escapes everything in the text that Terraform could evaluate, except its references.

    >>> escape_template("echo ${HOME}")
    'echo $${HOME}'
    """
    parts = REFERENCE.split(text)
    return "".join(
        part if index % 2 else part.replace("${", "$${").replace("%{", "%%{")
        for index, part in enumerate(parts)
    )


def md5_of(text: str) -> str:
    """Returns an expression for the MD5, in hexadecimal, of the text with its references' values.

    >>> md5_of("hello")
    '${md5(join("", ["hello"]))}'
    """
    # cdktf writes a reference in an expression without the braces around it.
    parts = (
        part if index % 2 else json.dumps(escape_template(part), ensure_ascii=False)
        for index, part in enumerate(REFERENCE.split(text))
    )
    return f'${{md5(join("", [{", ".join(parts)}]))}}'


SCHEMAS = "https://schema.management.azure.com"


def deploy_template(
    scope: Construct,
    id: str,
    name: str,
    resource: Mapping[str, object],
    values: Mapping[str, object],
    *,
    outputs: Mapping[str, object] | None = None,
    depends_on: Sequence[ITerraformDependable] = (),
) -> ResourceGroupTemplateDeployment:
    """Deploys an ARM template of one resource; `values` are its parameters: texts, or mappings."""
    azure = context_of(scope).scope_and_azure[1]
    kinds = {key: "object" if isinstance(it, dict) else "string" for key, it in values.items()}
    template: dict[str, Any] = {
        "$schema": f"{SCHEMAS}/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {key: {"type": kind} for key, kind in kinds.items()},
        "resources": [resource],
    }
    if outputs:
        template["outputs"] = outputs
    return ResourceGroupTemplateDeployment(
        scope,
        id,
        name=azure.deployment_name(name),
        resource_group_name=azure.resource_group,
        deployment_mode="Incremental",
        template_content=json.dumps(template, sort_keys=True),
        parameters_content=json.dumps({key: {"value": each} for key, each in values.items()}),
        tags=azure.tags,
        depends_on=depends_on,
    )
