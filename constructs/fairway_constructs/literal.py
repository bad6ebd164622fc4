"""Text as Terraform takes it: without looking for expressions in it, but for references."""

from __future__ import annotations

import json
import re

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
