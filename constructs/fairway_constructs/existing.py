"""Resources that exist already: Terraform stops if one is not as described."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Output

if TYPE_CHECKING:
    from fairway_constructs.cdk import Component


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
