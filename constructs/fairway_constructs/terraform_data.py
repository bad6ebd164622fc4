"""Terraform's own `terraform_data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.bindings.attributes import ObjectAttribute
from fairway_constructs.cdk import Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle


class TerraformData(Resource):
    """Keeps a value in the state and is replaced with it.

    A resource whose `Lifecycle.replace_triggered_by` names it is replaced when `input` or
    `triggers_replace` changes. Needs no provider.
    """

    TYPE = "terraform_data"
    PROVIDER = None
    output = ObjectAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        *,
        input: object = None,  # noqa: A002
        triggers_replace: object = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
    ) -> None:
        super().__init__(
            scope,
            id,
            {"input": input, "triggers_replace": triggers_replace},
            lifecycle=lifecycle,
            depends_on=depends_on,
        )
