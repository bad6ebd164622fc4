"""The server: metadata of its cloud, tokens, and Azure Resource Manager, all at one address."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from fairway_simulator import http
from fairway_simulator.azure.answers import Answer, answer
from fairway_simulator.azure.cloud import (
    NOBODY,
    audience_of,
    metadata,
    openid_configuration,
    principal_of,
    token_response,
)
from fairway_simulator.azure.compute import Compute, Started
from fairway_simulator.azure.resource_ids import ResourcePath, refused
from fairway_simulator.azure.rights import Rights, action_of, linked_actions, refusal
from fairway_simulator.azure.store import ResourceStore
from fairway_simulator.certificate import serve_as_localhost
from fairway_simulator.http import Request, Server

if TYPE_CHECKING:
    from pathlib import Path


_TYPE = "microsoft.impact/workloadimpacts"
_REQUIRED = ("startDateTime", "impactCategory", "impactedResourceId")


@dataclass
class Impacts:
    """Reports by their paths; `registered` and `onboarded` describe the subscription."""

    registered: bool = True
    onboarded: bool = True
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    _to_say: list[str] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)

    def says(self, *codes: str) -> None:
        """Sets the status codes of a report's insights: one more of them at each look."""
        self._to_say = list(codes)

    def answer(self, method: str, path: ResourcePath, body: Any) -> tuple[int, Any] | None:
        if not path.type.startswith(_TYPE):
            return None
        if method == "PUT":
            return self._file(path, body or {})
        if path.type == f"{_TYPE}/insights":
            if self._to_say:
                self._said.append(self._to_say.pop(0))
            details = [{"additionalDetails": {"statusCode": code}} for code in self._said]
            return 200, {"value": [{"properties": each} for each in details]}
        found = self.reports.get(path.text)
        return (200, found) if found else refused(404, "NotFound", path.text)

    def _file(self, path: ResourcePath, body: dict[str, Any]) -> tuple[int, Any]:
        if not self.registered:
            message = "The subscription is not registered to use namespace 'Microsoft.Impact'."
            return refused(409, "MissingSubscriptionRegistration", message)
        if not self.onboarded:
            return refused(400, "BadRequest", "The subscription is not onboarded.")
        properties = body.get("properties") or {}
        missing = [name for name in _REQUIRED if not properties.get(name)]
        if missing:
            return refused(400, "InvalidRequest", f"{missing[0]} is missing")
        self.reports[path.text] = body
        return 201, {"id": path.text, **body}


_AUDIENCE = "https://vault.azure.net"
_SECRETS = "Microsoft.KeyVault/vaults/secrets"
READS_SECRET = f"{_SECRETS}/getSecret/action"
_ACTIONS = {"GET": READS_SECRET, "PUT": f"{_SECRETS}/setSecret/action"}


def forbidden(action: str) -> tuple[int, Any]:
    """Returns a vault's refusal of an account without a role for it."""
    status, found = refused(403, "Forbidden", f"Caller is not authorized to perform {action}")
    found["error"]["innererror"] = {"code": "ForbiddenByRbac"}
    return status, found


class Vaults:
    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self.secrets: dict[str, str] = {}
        self.tags: dict[str, dict[str, str]] = {}

    def answer(
        self, method: str, path: ResourcePath, body: Any, token: str, rights: Rights | None
    ) -> tuple[int, Any]:
        if not token or audience_of(token) != _AUDIENCE:
            return refused(401, "Unauthorized", "AKV10022: Invalid audience.")
        _, name, kind, *rest = (*path.parts, "", "")
        action = _ACTIONS.get(method, "")
        known = self._store.of_type("microsoft.keyvault/vaults")
        vault = next((each.text for each in known if each.name.lower() == name.lower()), "")
        if kind != "secrets" or not action or not vault:
            return refused(404, "NotFound", f"Nothing is at {path.text}.")
        if rights and not rights.allow(principal_of(token), action, vault, data=True):
            return forbidden(action)
        if method == "PUT":
            self.secrets[path.key] = body["value"]
            self.tags[path.key] = body.get("tags") or {}
        if path.key not in self.secrets:
            return refused(404, "SecretNotFound", f"A secret with {rest[0]} was not found.")
        secret: dict[str, Any] = {"value": self.secrets[path.key], "id": path.text}
        if tags := self.tags.get(path.key):
            secret["tags"] = tags
        return 200, secret


class ControlPlane(Server):
    """The stand-in, served from a thread of its own while the context lasts.

    `folder` gets the file of the authority that signs its certificate, which is worthless
    afterwards. `requests` records every request with its answer's status, in order, `impacts` has
    the Guest Health Reports, `compute` the scale sets' instances and `vaults` the secrets. With
    `rights` only what these allow is permitted; without, everything is.

    >>> with ControlPlane(folder) as plane:  # doctest: +SKIP
    ...     plane.host
    'localhost:40123'
    """

    def __init__(self, folder: Path) -> None:
        context, self.authority = serve_as_localhost(folder)
        super().__init__(self._serve, context)
        self.host = f"localhost:{self.port}"
        self.store = ResourceStore()
        self.requests: list[tuple[str, str, int]] = []
        self.impacts = Impacts()
        self.compute = Compute(self.store)
        self.vaults = Vaults(self.store)
        self.rights: Rights | None = None
        self._given: dict[tuple[str, str], Answer] = {}

    def environment(self) -> dict[str, str]:
        """Returns the variables with which Terraform's azurerm provider takes this for Azure."""
        return {
            "ARM_METADATA_HOSTNAME": self.host,
            "ARM_CLIENT_ID": NOBODY,
            "ARM_CLIENT_SECRET": "none",
            "ARM_TENANT_ID": NOBODY,
            "ARM_SUBSCRIPTION_ID": NOBODY,
            "SSL_CERT_FILE": str(self.authority),
            "CHECKPOINT_DISABLE": "1",
        }

    @property
    def operation(self) -> str:
        """Returns the URL of an operation in progress; not found unless `give` has set it."""
        return (
            f"https://{self.host}/subscriptions/{NOBODY}/providers/Microsoft.Compute/locations"
            "/loopback/operations/given"
        )

    def give(self, path: str, body: Any, *, status: int = 200, method: str = "GET") -> None:
        """Sets the answer to requests for that path, whatever their query."""
        self._given[method, ResourcePath(path).key] = status, body

    def handle(self, request: Request) -> Answer:
        status, found = self._answer(request)
        self.requests.append((request.method, request.target, status))
        return status, found

    def _serve(self, request: Request) -> http.Answer:
        status, found = self.handle(request)
        headers = {"Content-Type": "application/json; charset=utf-8"}
        operation = self.operation
        if isinstance(found, Started):
            operation, found = f"https://{self.host}{found.path}", None
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if status == 202:
            # Clients poll the operation there; only this header has its path.
            headers |= {"Azure-AsyncOperation": operation, "Retry-After": "0"}
        return http.Answer(found, status, headers)

    def _answer(self, request: Request) -> Answer:
        method, body, token = request.method, request.body, request.token
        path = ResourcePath(unquote(request.path))
        public = self._public(method, path, body)
        if public:
            return public
        try:
            document = json.loads(body) if body else None
        except ValueError as error:
            return refused(400, "InvalidRequestContent", f"The body is no JSON: {error}")
        if path.key.startswith("/vaults/"):
            return self.vaults.answer(method, path, document, token, self.rights)
        refusal_ = self._refusal(method, path, document, token)
        if refusal_:
            return refusal_
        if self.rights and token and path.type == "microsoft.authorization/permissions":
            return 200, {"value": self.rights.listed(principal_of(token), path.scope)}
        given = self._given.get((method, path.key))
        if given:
            return given
        if not path.key.startswith(("/subscriptions", "/providers", "/tenants")):
            return refused(404, "NotFound", f"Nothing is at {path.text}.")
        if not token:
            return refused(401, "AuthenticationFailed", "The request has no bearer token.")
        impact = self.impacts.answer(method, path, document)
        return impact or answer(self.compute, method, path, request.option("$filter"), document)

    def _public(self, method: str, path: ResourcePath, body: bytes) -> Answer | None:
        """Answers requests without a token: the cloud's metadata, and tokens themselves."""
        if path.key == "/metadata/endpoints":
            return 200, metadata(self.host)
        tenant, _, rest = path.key.lstrip("/").partition("/")
        if rest == "v2.0/.well-known/openid-configuration":
            return 200, openid_configuration(f"https://{self.host}", tenant)
        if rest in ("oauth2/v2.0/token", "oauth2/token") and method == "POST":
            form = parse_qs(body.decode(errors="replace"))
            scope = (form.get("scope") or form.get("resource") or [""])[-1]
            return 200, token_response(tenant, scope)
        return None

    def _refusal(self, method: str, path: ResourcePath, body: Any, token: str) -> Answer | None:
        """The refusal of a request that the roles do not allow; None if it is allowed."""
        if self.rights is None or not token or not path.key.startswith("/subscriptions"):
            return None
        if audience_of(token).rstrip("/") != f"https://{self.host}":
            return refused(401, "InvalidAuthenticationTokenAudience", "It is for another service.")
        who = principal_of(token)
        action, scope = action_of(method, path)
        if not self.rights.allow(who, action, scope):
            return refusal(who, action, scope)
        if method in ("PUT", "PATCH"):
            resource = {"before": self.store.get(path), "new": body}
            for linked, where in linked_actions(path, resource):
                if not self.rights.allow(who, linked, where):
                    return refusal(who, linked, scope, linked=where)
        return None
