"""Resources that exist already: their ids are checked, and Terraform stops if one is not as
described."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Output
from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from fairway_constructs.cdk import Component


def parts_of_id(kind: str, resource_id: str) -> dict[str, str]:
    """The named parts of an id; UserError for the id of anything else.

    >>> parts_of_id("resource group", "/subscriptions/00000000-0000-0000-0000-000000000000"
    ...             "/resourceGroups/team")["name"]
    'team'
    """
    try:
        return parts_of(kind, resource_id)
    except FieldError as error:
        raise UserError.of("bad-id", str(error), error.hint) from None


def stop_unless(
    scope: Component, name: str, condition: str, message: str, *, value: str, description: str
) -> None:
    """An output with a value that holds only where the Terraform expression `condition` does.

    >>> stop_unless(self, "group", 'data.….id == "…"', "no such group", value=id,
    ...             description="Existing resource group")  # doctest: +SKIP
    """
    output = Output(
        scope, name, value=value, description=description, static_id=scope.short_addresses
    )
    # An override: cdktf takes a precondition of an output, and does not write it.
    output.add_override(
        "precondition", {"condition": f"${{{condition}}}", "error_message": message}
    )
