"""Text as Terraform takes it: without looking for expressions in it, but for references."""

from __future__ import annotations

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
