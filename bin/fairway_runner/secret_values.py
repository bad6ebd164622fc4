"""The values of a job's secrets: read when a run starts, handed on, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_core.findings import Location

# What is shorter stands in any log by chance, and masking it would blot out the rest.
_SHORTEST = 4


def secret_values(
    sources: Mapping[str, str],
    environment: Mapping[str, str],
    place: Callable[[str], Location | None] = lambda _: None,
) -> dict[str, str]:
    """The value of each secret, from the variable of the `environment` that its source names.

    `place` says where a secret stands in the job file. UserError with a finding for each
    that has no value, or one too short to be kept out of logs.
    """
    values, findings = {}, []
    for name, source in sources.items():
        variable = source.removeprefix("env:")
        value = environment.get(variable, "")
        path = f"secrets.{name}"
        if not value:
            message = f"`{path}`: the environment variable {variable} is not set"
            mend = f"read it in with: read -rs {variable} && export {variable}"
            findings.append(Finding("no-secret", message, mend, path, location=place(name)))
        elif len(value.strip()) < _SHORTEST:
            message = f"`{path}`: what {variable} holds is too short to be masked in logs"
            mend = f"a secret has at least {_SHORTEST} characters; put anything else under `env:`"
            findings.append(Finding("short-secret", message, mend, path, location=place(name)))
        values[name] = value
    if findings:
        raise UserError(findings)
    return values
