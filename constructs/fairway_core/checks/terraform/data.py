"""Rules on resources with data: protection against loss and against public access."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import FIREWALLS, holds_data, is_nested
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.terraform.stack import every, referenced_address
from fairway_core.findings import Severity
from fairway_core.json_values import blocks
from fairway_core.plain_secrets import secrets_in
from fairway_core.secret_values import secret_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import CheckContext, Match
    from fairway_core.checks.terraform.stack import Resources


@check("unprotected-data", Severity.ERROR, Subject.TERRAFORM)
def unprotected_data(resources: Resources, context: CheckContext) -> Iterator[Violation]:
    """A resource that holds data and could be deleted, although `protect` is on.

    Terraform refuses to destroy it only with `prevent_destroy`, and Azure to delete it only
    with a delete lock.

    Wrong:
        azurerm_managed_disk.data-disk-0: {name: demo-disk-data-0}

    Right:
        azurerm_managed_disk.data-disk-0:
          {name: demo-disk-data-0, lifecycle: {prevent_destroy: true}}
        azurerm_management_lock.data-disk-0-lock:
          {name: lock, scope: "${azurerm_managed_disk.data-disk-0.id}"}
    """
    locks = resources.get("azurerm_management_lock", {}).values()
    locked = {referenced_address(lock.get("scope")) for lock in locks}
    for path, facts in every(resources) if context.protect else ():
        type_, address = facts["type"], ".".join(map(str, path))
        if not holds_data(type_):
            continue
        if not facts["arguments"].get("lifecycle", {}).get("prevent_destroy"):
            message = "Terraform could destroy what this holds"
            yield Violation(message, "lifecycle: prevent_destroy", path)
        if not is_nested(type_) and address not in locked:
            message = "Azure could delete what this holds"
            yield Violation(message, "add a management lock CanNotDelete", path)


_SERVICES = (
    "azurerm_batch_account",
    "azurerm_container_registry",
    "azurerm_key_vault",
    "azurerm_storage_account",
)
# The attributes of their firewalls that admit ranges and subnets.
_LETS_IN = ("ip_rules", "ip_rule", "virtual_network_subnet_ids")


# Without private endpoints nodes reach these over the internet, authorized by Entra ID.
_OPEN_WITHOUT_ENDPOINTS = ("azurerm_batch_account", "azurerm_container_registry")


def _rules_of(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = [rule for key in FIREWALLS for rule in blocks(arguments.get(key))]
    return [each for rule in rules for each in blocks(rule.get("account_access", rule))]


def _vaults_of_batch(resources: Resources) -> set[str]:
    """Returns the vaults in which a Batch account keeps secrets and that admit Azure's services."""
    accounts = resources.get("azurerm_batch_account", {}).values()
    named = {
        referenced_address(reference.get("id"))
        for account in accounts
        for reference in blocks(account.get("key_vault_reference"))
    }
    return {
        f"azurerm_key_vault.{name}"
        for name, vault in resources.get("azurerm_key_vault", {}).items()
        if f"azurerm_key_vault.{name}" in named
        and any(rules.get("bypass") == "AzureServices" for rules in _rules_of(vault))
    }


@check("public-service", Severity.ERROR, Subject.TERRAFORM)
def public_service(resources: Resources, context: CheckContext) -> Iterator[Violation]:
    """An account, a vault or a registry that answers everyone, or that nobody can reach.

    One that is closed to the internet needs a private endpoint, a subnet with a service
    endpoint, or an address range of `access.allowed`. The vault in which Batch keeps secrets
    of its nodes needs to let Azure's own services in, and nobody else.

    Wrong:
        azurerm_key_vault.vault: {public_network_access_enabled: true}

    Right:
        azurerm_key_vault.vault: {public_network_access_enabled: false}
        azurerm_private_endpoint.vault-endpoint:
          private_service_connection:
            {private_connection_resource_id: "${azurerm_key_vault.vault.id}"}
    """
    endpoints = resources.get("azurerm_private_endpoint", {}).values()
    served = {
        referenced_address(connection.get("private_connection_resource_id"))
        for endpoint in endpoints
        for connection in blocks(endpoint.get("private_service_connection"))
    }
    served |= _vaults_of_batch(resources)
    for (type_, name), facts in every(resources):
        if type_ not in _SERVICES:
            continue
        arguments, rules = facts["arguments"], _rules_of(facts["arguments"])
        closed = arguments.get("public_network_access_enabled") is False
        denies = closed or any(rule.get("default_action") == "Deny" for rule in rules)
        is_asked = arguments.get("name") in context.public_accounts or (
            type_ in _OPEN_WITHOUT_ENDPOINTS and not context.private_endpoints
        )
        admits = not closed and any(rule.get(key) for rule in rules for key in _LETS_IN)
        if not denies and not is_asked:
            hint = "deny by default, and name the networks to admit"
            yield Violation("every network may reach this", hint, (type_, name))
        if denies and not admits and f"{type_}.{name}" not in served:
            hint = "give it a private endpoint, or name a subnet or a range with no private address"
            yield Violation("nobody can reach this", hint, (type_, name))


_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def _texts(resources: Resources, outputs: Mapping[str, Any]) -> Iterator[Match]:
    for path, facts in every(resources):
        arguments = facts["arguments"]
        for argument in ("custom_data", "user_data"):
            if argument in arguments:
                yield (*path, argument), {"text": _decoded(arguments[argument])}
        if facts["type"] == "azurerm_batch_pool" and "start_task" in arguments:
            text = json.dumps(arguments["start_task"], indent=0)
            yield (*path, "start_task"), {"text": text}
    for name, output in outputs.items():
        yield ("output", name), {"text": json.dumps(output.get("value"))}


def _decoded(text: str) -> str:
    """Returns the text, followed by its decoded base64 parts."""
    texts = [text]
    for match in _ENCODED.finditer(text):
        try:
            texts.append(base64.b64decode(match[0], validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return "\n".join(texts)


@check("plain-secret", Severity.ERROR, Subject.TERRAFORM, select=_texts)
def plain_secret(text: str) -> Iterator[Violation]:
    """A key or a password in the start-up data of a VM, in a start task, or in an output.

    Anyone who may read the resource or the state can read all of these.

    Wrong:
        output.key: {value: "${azurerm_storage_account.storage.primary_access_key}"}

    Right:
        output.url: {value: "${azurerm_storage_account.storage.primary_blob_endpoint}"}
    """
    hint = "let the node's managed identity read it from the key vault"
    for what in secrets_in(text):
        yield Violation(f"{what} is in plain text here", hint)
    if reference := secret_reference(text):
        yield Violation(f"`{reference}` is a secret that everyone can read here", hint)
