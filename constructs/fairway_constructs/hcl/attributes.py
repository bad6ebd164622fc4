"""The arguments of a resource as cdktf's own output of HCL takes them.

cdktf writes `name = "VALUE"` around a text and escapes next to nothing, writes a text that looks
like a number as one, and has to be told of each argument whether it is a block. So texts are
escaped here, and everything that is in a list or a map has its quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.hcl.templates import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.hcl.document import Shape

# How cdktf writes a list or a map whose value only it knows yet: they have to stay as they are.
_TOKENS = ("#{TfToken[", "&{TfToken[")


def cdktf_attributes(attributes: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Returns the arguments as `synthesizeHclAttributes` of cdktf has to."""
    return {name: _attribute(name, value, shape) for name, value in attributes.items()}


def _attribute(name: str, value: Any, shape: Shape) -> dict[str, Any]:
    if shape.is_block(name, value):
        inside = shape.inside(name)
        bodies = value if isinstance(value, list) else [value]
        found = [cdktf_attributes(body, inside) for body in bodies]
        return {"value": found, "isBlock": True, "type": "list", "storageClassType": "objectList"}
    if isinstance(value, str):
        text = quoted(value)
        return {"value": text, "isBlock": False, "type": "simple", "storageClassType": "string"}
    if isinstance(value, dict | list):
        return {"value": _quoted(value), "isBlock": False, "type": "any", "storageClassType": "any"}
    return {"value": value, "isBlock": False, "type": "simple", "storageClassType": "boolean"}


def _quoted(value: Any) -> Any:
    """The value with the texts in it as cdktf writes them unchanged."""
    match value:
        case str() if not value.startswith(_TOKENS):
            return quoted(value) if "${" in value else f'"{quoted(value)}"'
        case dict():
            return {quoted(name): _quoted(each) for name, each in value.items()}
        case list():
            return [_quoted(each) for each in value]
        case _:
            return value
