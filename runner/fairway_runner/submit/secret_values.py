"""The values of a job's secrets: read when a run starts, handed on, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.engines.capabilities import runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_core.findings import Location
    from fairway_core.target import Target

# What is shorter stands in any log by chance, and masking it would blot out the rest.
_SHORTEST = 4


def secret_values(
    sources: Mapping[str, str],
    environment: Mapping[str, str],
    locate: Callable[[str], Location | None] = lambda _: None,
) -> dict[str, str]:
    """The value of each secret, from the variable of the `environment` that its source names.

    `locate` says where a secret stands in the job file. UserError with a finding for each
    that has no value, or one too short to be kept out of logs.
    """
    values, findings = {}, []
    for name, source in sources.items():
        if not source.startswith("env:"):
            continue
        variable = source.removeprefix("env:")
        value = environment.get(variable, "")
        path = f"secrets.{name}"
        if not value:
            message = f"`{path}`: the environment variable {variable} is not set"
            hint = f"read it in with: read -rs {variable} && export {variable}"
            findings.append(Finding("no-secret", message, hint, path, location=locate(name)))
        elif len(value.strip()) < _SHORTEST:
            message = f"`{path}`: what {variable} holds is too short to be masked in logs"
            hint = f"a secret has at least {_SHORTEST} characters; put anything else under `env:`"
            findings.append(Finding("short-secret", message, hint, path, location=locate(name)))
        values[name] = value
    if findings:
        raise UserError(findings)
    return values


def require_readable(
    sources: Mapping[str, str],
    target: Target,
    locate: Callable[[str], Location | None] = lambda _: None,
) -> None:
    """Refuses what the target cannot read: on `local` a vault, elsewhere this environment.

    A value of this machine would have to travel to the nodes, and lie in what a service keeps
    of a task; from a vault the nodes read it themselves, by their identity.
    """
    here, findings = runs_here(target.engine), []
    for name, source in sources.items():
        path, hint = f"secrets.{name}", ""
        if here and source.startswith("keyvault:"):
            message = f"`{path}`: `local` has no identity that could read a vault"
            hint = f"read it from a variable of your environment here: -s secrets.{name}=env:{name}"
        elif not here and source.startswith("env:"):
            message = f"`{path}`: a secret of this machine is not sent to `{target.name}`"
            hint = "put it into the environment's vault, and use keyvault:NAME"
        elif not here and not target.vault_url:
            message = f"`{path}`: the target `{target.name}` has no vault"
            hint = "give the environment a `vault:` section, and deploy it"
        if hint:
            findings.append(Finding("no-secret", message, hint, path, location=locate(name)))
    if findings:
        raise UserError(findings)
