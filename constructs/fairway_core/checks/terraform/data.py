"""Rules on what holds data: kept from being lost, and from being read by anyone."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import holds_data, stands_inside_another
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.terraform.stack import referred
from fairway_core.findings import Severity
from fairway_core.json_values import blocks
from fairway_core.secret_values import secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import Occurrence, StackSubject


def _holders(subject: StackSubject) -> Iterator[Occurrence]:
    resources = subject.resources
    locks = resources.get("azurerm_management_lock", {}).values()
    locked = {referred(lock.get("scope")) for lock in locks}
    for type_, named in resources.items():
        for name, arguments in named.items() if holds_data(type_) and subject.asked.protect else ():
            yield (
                (type_, name),
                {
                    "arguments": arguments,
                    "locked": stands_inside_another(type_) or f"{type_}.{name}" in locked,
                },
            )


@check("unprotected-data", Severity.ERROR, Subject.TERRAFORM, at=_holders)
def unprotected_data(arguments: Mapping[str, Any], locked: bool) -> Iterator[Fault]:
    """A resource that holds data and could be deleted, although `protect` is on.

    Terraform refuses to destroy it only with `prevent_destroy`, and Azure to delete it only
    with a delete lock.

    Wrong:
        resource:
          azurerm_managed_disk:
            data-disk-0: {name: demo-disk-data-0}

    Right:
        resource:
          azurerm_managed_disk:
            data-disk-0:
              name: demo-disk-data-0
              lifecycle: {prevent_destroy: true}
          azurerm_management_lock:
            data-disk-0-lock:
              {name: lock, scope: "${azurerm_managed_disk.data-disk-0.id}"}
    """
    if not arguments.get("lifecycle", {}).get("prevent_destroy"):
        yield Fault("Terraform could destroy what this holds", "lifecycle: prevent_destroy")
    if not locked:
        yield Fault("Azure could delete what this holds", "add a management lock CanNotDelete")


_SERVICES = (
    "azurerm_batch_account",
    "azurerm_container_registry",
    "azurerm_key_vault",
    "azurerm_storage_account",
)
# Where each of them says who may reach it, and by whom it is reached from inside.
_RULES = ("network_rules", "network_acls", "network_rule_set", "network_profile")
_LETS_IN = ("ip_rules", "ip_rule", "virtual_network_subnet_ids")


def _services(subject: StackSubject) -> Iterator[Occurrence]:
    endpoints = subject.resources.get("azurerm_private_endpoint", {}).values()
    served = {
        referred(connection.get("private_connection_resource_id"))
        for endpoint in endpoints
        for connection in blocks(endpoint.get("private_service_connection"))
    }
    served |= _vaults_of_batch(subject)
    for type_ in _SERVICES:
        for name, arguments in subject.resources.get(type_, {}).items():
            rules = _rules_of(arguments)
            closed = arguments.get("public_network_access_enabled") is False
            yield (
                (type_, name),
                {
                    "open_to_all": not (
                        closed or any(rule.get("default_action") == "Deny" for rule in rules)
                    ),
                    "reached": f"{type_}.{name}" in served
                    or (not closed and any(rule.get(key) for rule in rules for key in _LETS_IN)),
                    "asked": arguments.get("name") in subject.asked.public_accounts
                    or (type_ in _OPEN_WITHOUT_ENDPOINTS and not subject.asked.private_endpoints),
                },
            )


# Without private endpoints nodes reach these over the internet, as Entra ID lets them.
_OPEN_WITHOUT_ENDPOINTS = ("azurerm_batch_account", "azurerm_container_registry")


def _rules_of(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules = [rule for key in _RULES for rule in blocks(arguments.get(key))]
    return [each for rule in rules for each in blocks(rule.get("account_access", rule))]


def _vaults_of_batch(subject: StackSubject) -> set[str]:
    """The vaults that a Batch account keeps secrets in, and lets Azure's own services into."""
    accounts = subject.resources.get("azurerm_batch_account", {}).values()
    named = {
        referred(reference.get("id"))
        for account in accounts
        for reference in blocks(account.get("key_vault_reference"))
    }
    return {
        f"azurerm_key_vault.{name}"
        for name, vault in subject.resources.get("azurerm_key_vault", {}).items()
        if f"azurerm_key_vault.{name}" in named
        and any(rules.get("bypass") == "AzureServices" for rules in _rules_of(vault))
    }


@check("public-service", Severity.ERROR, Subject.TERRAFORM, at=_services)
def public_service(open_to_all: bool, reached: bool, asked: bool) -> Iterator[Fault]:
    """An account, a vault or a registry that answers everyone, or that nobody can reach.

    One that is closed to the internet needs a private endpoint, a subnet with a service
    endpoint, or an address range of `access.allowed`. The vault in which Batch keeps secrets
    of its nodes needs to let Azure's own services in, and nobody else.

    Wrong:
        resource:
          azurerm_key_vault: {vault: {public_network_access_enabled: true}}

    Right:
        resource:
          azurerm_key_vault: {vault: {public_network_access_enabled: false}}
          azurerm_private_endpoint:
            vault-endpoint:
              private_service_connection:
                {private_connection_resource_id: "${azurerm_key_vault.vault.id}"}
    """
    if open_to_all and not asked:
        yield Fault(
            "every network may reach this", "deny by default, and name the networks to admit"
        )
    if not open_to_all and not reached:
        yield Fault("nobody can reach this", "give it a private endpoint, or name a subnet")


# Attributes whose value Terraform would keep in its state and show to anyone who reads outputs.
_SECRET_ATTRIBUTE = re.compile(
    r"azurerm_\w{1,100}\.[\w-]+(?:\[\d+\])?\."
    r"(?:\w*(?:access_key|connection_string|shared_key|password|sas)(?![\w-])|(?:value|secret)\b)"
)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def _texts(subject: StackSubject) -> Iterator[Occurrence]:
    for type_, named in subject.resources.items():
        for name, arguments in named.items():
            for argument in ("custom_data", "user_data"):
                if argument in arguments:
                    yield (type_, name, argument), {"text": _decoded(arguments[argument])}
            if type_ == "azurerm_batch_pool" and "start_task" in arguments:
                text = json.dumps(arguments["start_task"], indent=0)
                yield (type_, name, "start_task"), {"text": text}
    for name, output in subject.outputs.items():
        yield ("output", name), {"text": json.dumps(output.get("value"))}


def _decoded(text: str) -> str:
    """The text, and what stands in it in base64."""
    texts = [text]
    for match in _ENCODED.finditer(text):
        try:
            texts.append(base64.b64decode(match[0], validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return "\n".join(texts)


@check("plain-secret", Severity.ERROR, Subject.TERRAFORM, at=_texts)
def plain_secret(text: str) -> Iterator[Fault]:
    """A key or a password in the start-up data of a VM, in a start task, or in an output.

    Anyone who may read the resource or the state can read all of these.

    Wrong:
        output:
          key: {value: "${azurerm_storage_account.storage.primary_access_key}"}

    Right:
        output:
          url: {value: "${azurerm_storage_account.storage.primary_blob_endpoint}"}
    """
    hint = "let the node's managed identity read it from the key vault"
    for what in secrets_in(text):
        yield Fault(f"{what} is in plain text here", hint)
    if match := _SECRET_ATTRIBUTE.search(text):
        yield Fault(f"`{match[0]}` is a secret that everyone can read here", hint)
