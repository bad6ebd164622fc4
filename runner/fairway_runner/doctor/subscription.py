"""Who is signed in to Azure, which subscription is meant, and what it offers."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.doctor.examined import Examined
from fairway_runner.doctor.programs import az_default_subscription
from fairway_runner.live.cloud import chosen_cloud, credential_for
from fairway_runner.live.management import Management, NotAllowed, not_signed_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import Environment
    from fairway_runner.live.cloud import Cloud

_SUBSCRIPTIONS = "2022-12-01"
_SET = "export ARM_SUBSCRIPTION_ID=$(az account show --query id --output tsv)"


def examine_subscription(environment: Environment | None) -> Iterator[Examined]:
    """Sign-in, subscription, and what the environment needs of it.

    What cannot be asked without the one before it is left out.
    """
    try:
        cloud = chosen_cloud()
    except UserError as error:
        yield Examined("Azure", "not found", error.findings)
        return
    signed_in = _sign_in(cloud)
    yield signed_in
    subscription = os.environ.get("ARM_SUBSCRIPTION_ID", "")
    if not subscription:
        yield _no_subscription()
        return
    if signed_in.missing:
        return
    azure = Management(cloud, credential_for(cloud), subscription)
    try:
        named = _subscription(azure)
        yield named
        if environment is not None and not named.missing:
            yield _needs(environment, azure)
    finally:
        azure.close()


def open_subscription() -> Management:
    """The subscription that Terraform would use; UserError where none is named.

    >>> azure = open_subscription()  # doctest: +SKIP
    """
    subscription = os.environ.get("ARM_SUBSCRIPTION_ID", "") or az_default_subscription()
    if not subscription:
        message = "neither ARM_SUBSCRIPTION_ID nor az names a subscription"
        raise UserError.of("no-subscription", message, _how_to_choose())
    cloud = chosen_cloud()
    return Management(cloud, credential_for(cloud), subscription)


def _sign_in(cloud: Cloud) -> Examined:
    from azure.core.exceptions import AzureError

    credential = credential_for(cloud)
    try:
        credential.get_token(cloud.scope)
    except (AzureError, ValueError) as error:
        return Examined("Azure sign-in", "not signed in", not_signed_in(error).findings)
    finally:
        close = getattr(credential, "close", None)
        if close:
            close()
    return Examined("Azure sign-in", "signed in")


def _no_subscription() -> Examined:
    known = az_default_subscription()
    also = f"; az would use {known}" if known else ""
    message = f"ARM_SUBSCRIPTION_ID is not set, and Terraform needs it{also}"
    hint = _SET if known else _how_to_choose()
    return Examined("subscription", "none", (Finding("no-subscription", message, hint),))


def _how_to_choose() -> str:
    """The command that names a subscription, with or without the Azure CLI."""
    return f"az login && {_SET}" if shutil.which("az") else "export ARM_SUBSCRIPTION_ID=ID"


def _subscription(azure: Management) -> Examined:
    try:
        found = azure.get("", _SUBSCRIPTIONS)
    except NotAllowed:
        found = None
    except UserError as error:
        return Examined("subscription", azure.subscription, error.findings)
    hint = "az account list --output table\nand set ARM_SUBSCRIPTION_ID to one that you may use"
    if found is None:
        message = f"subscription {azure.subscription} does not exist, or you have no access to it"
        finding = Finding("no-subscription", message, hint)
        return Examined("subscription", azure.subscription, (finding,))
    name, state = found.get("displayName") or azure.subscription, found.get("state")
    if state not in (None, "Enabled", "Warned", "PastDue"):
        message = f"subscription `{name}` is {state}"
        return Examined("subscription", name, (Finding("no-subscription", message, hint),))
    return Examined("subscription", name)


def _needs(environment: Environment, azure: Management) -> Examined:
    from fairway_runner.live.azure_queries import check_live

    what = f"what `{environment.name}` needs"
    try:
        findings = tuple(check_live(environment, azure))
    except UserError as error:
        findings = error.findings
    return Examined(
        what, "not all available" if findings else "offered, and within quota", findings
    )
