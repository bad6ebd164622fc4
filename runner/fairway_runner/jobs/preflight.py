"""Checks of the nodes before the launcher: put into its script, in front of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_runner.jobs import templating

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2.sandbox import SandboxedEnvironment

# The exit code of a script whose nodes did not pass: EX_UNAVAILABLE of sysexits.h, which
# neither a shell nor an MPI launcher uses.
UNFIT_NODES = 69


def with_preflight(
    script: str, environment: SandboxedEnvironment, context: Mapping[str, object]
) -> str:
    """The script with the checks after its opening comments; they end it where a node fails.

    The text is `_preflight.sh.j2`, found as any template is; TemplateFault where it fails.
    """
    template = templating.compile_text(environment, '{% include "_preflight.sh.j2" %}')
    checks = templating.render(template, {**context, "unfit_nodes": UNFIT_NODES})
    lines = script.splitlines(keepends=True)
    head = 0
    while head < len(lines) and lines[head].startswith("#"):
        head += 1
    return "".join([*lines[:head], checks, *lines[head:]])
