"""The server: metadata of its cloud, tokens, and Azure Resource Manager, all at one address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from fairway_simulator import http
from fairway_simulator.azure.answers import Answer, answer
from fairway_simulator.azure.cloud import metadata
from fairway_simulator.azure.compute import Compute, Started
from fairway_simulator.azure.errors import refused
from fairway_simulator.azure.identity import (
    NOBODY,
    audience_of,
    openid_configuration,
    principal_of,
    token_response,
)
from fairway_simulator.azure.impacts import Impacts
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.rights import Rights, action_of, linked_actions, refusal
from fairway_simulator.azure.store import ResourceStore
from fairway_simulator.azure.vaults import Vaults
from fairway_simulator.certificate import serve_as_localhost
from fairway_simulator.http import Request, Server

if TYPE_CHECKING:
    from pathlib import Path


class ControlPlane(Server):
    """The stand-in, served from a thread of its own while the context lasts.

    `folder` gets the file of the authority whose certificate it shows, which is worthless
    afterwards. `requests` holds every request with its answer's status, in order, `impacts`
    the Guest Health Reports, `compute` the scale sets' instances and `vaults` the secrets. With
    `rights` nobody may do anything but what these allow; without, everybody may do everything.

    >>> with ControlPlane(folder) as plane:  # doctest: +SKIP
    ...     plane.host
    'localhost:40123'
    """

    def __init__(self, folder: Path) -> None:
        context, self.authority = serve_as_localhost(folder)
        super().__init__(self._serve, context)
        self.host = f"localhost:{self.port}"
        self.store = ResourceStore(self.host)
        self.requests: list[tuple[str, str, int]] = []
        self.impacts = Impacts()
        self.compute = Compute(self.store)
        self.vaults = Vaults(self.store)
        self.rights: Rights | None = None
        self._given: dict[tuple[str, str], Answer] = {}

    def environment(self) -> dict[str, str]:
        """The variables by which Terraform's azurerm provider takes this for Azure."""
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
        """Where what goes on after an answer is looked at; nothing is there unless it is given."""
        return (
            f"https://{self.host}/subscriptions/{NOBODY}/providers/Microsoft.Compute/locations"
            "/loopback/operations/given"
        )

    def give(self, path: str, body: Any, *, status: int = 200, method: str = "GET") -> None:
        """Answers requests for that path, whatever their query, with this from now on."""
        self._given[method, ResourcePath(path).key] = status, body

    def handle(self, request: Request) -> Answer:
        """The status and the body that a request gets."""
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
            # It is looked at there; its path is known nowhere else.
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
        """What is answered without a token: the cloud's metadata, and tokens themselves."""
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
        """What is said to who may not do this, where anything is forbidden at all."""
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
