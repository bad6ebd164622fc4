"""Values that Terraform keeps, and literal texts in which it evaluates nothing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from fairway_constructs.bindings.attributes import ObjectAttribute
from fairway_constructs.cdk import Resource

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct


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


def literal(text: str) -> str:
    """Escapes everything in the text that Terraform could evaluate, except its references.

    >>> literal("echo ${HOME}")
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
        part if index % 2 else json.dumps(literal(part), ensure_ascii=False)
        for index, part in enumerate(REFERENCE.split(text))
    )
    return f'${{md5(join("", [{", ".join(parts)}]))}}'
