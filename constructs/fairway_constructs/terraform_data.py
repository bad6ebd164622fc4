"""Values that Terraform keeps, and texts in which it is to find nothing to evaluate."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from fairway_constructs.bindings.attributes import ObjectAttribute
from fairway_constructs.cdk import Resource

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct


class TerraformData(Resource):
    """Keeps a value in the state and is replaced with it.

    A resource whose `Lifecycle.replace_triggered_by` names it is replaced when `input` changes.
    Needs no provider.
    """

    TYPE = "terraform_data"
    PROVIDER = None
    output = ObjectAttribute()

    def __init__(self, scope: Construct, id: str, *, input: object) -> None:  # noqa: A002
        super().__init__(scope, id, {"input": input})


# A reference in a Python string, whose value only Terraform will know.
REFERENCE = re.compile(r"(\$\{TfToken\[[^]]+\]\})")


def literal(text: str) -> str:
    """The text with all that Terraform could take for an expression escaped, but its references.

    >>> literal("echo ${HOME}")
    'echo $${HOME}'
    """
    parts = REFERENCE.split(text)
    return "".join(
        part if index % 2 else part.replace("${", "$${").replace("%{", "%%{")
        for index, part in enumerate(parts)
    )


def md5_of(text: str) -> str:
    """An expression for the MD5 of the text, in hexadecimal digits, with its references' values.

    >>> md5_of("hello")
    '${md5(join("", ["hello"]))}'
    """
    # cdktf writes a reference in an expression without the braces around it.
    parts = (
        part if index % 2 else json.dumps(literal(part), ensure_ascii=False)
        for index, part in enumerate(REFERENCE.split(text))
    )
    return f'${{md5(join("", [{", ".join(parts)}]))}}'
