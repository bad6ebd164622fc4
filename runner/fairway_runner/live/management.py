"""Azure Resource Manager through plain authenticated requests."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from fairway_core.findings import UserError
from fairway_runner.engines.outage import SlowCallNotice, deadline
from fairway_runner.quantities import duration

if TYPE_CHECKING:
    from azure.core import PipelineClient
    from azure.core.credentials import TokenCredential
    from azure.core.rest import HttpResponse

Facts = Mapping[str, Any]
"""Something that Azure describes, by the names on the wire."""

_FAILED = 5


@dataclass(frozen=True)
class Cloud:
    """Address of Azure Resource Manager, address for signing in, and audience of tokens for Azure
    Batch.

    `authorities` is a file of certificate authorities that replace the usual ones. `own` says that
    it was found through a metadata host of its own.
    """

    manager: str
    login: str
    batch: str = "https://batch.core.windows.net"
    authorities: str | None = None
    own: bool = False

    @property
    def scope(self) -> str:
        """Scope that a token must have."""
        return f"{self.manager}/.default"


# Source: Azure documentation, Authenticate to and develop with national clouds, 2026-11-21.
_CLOUDS = {
    "public": Cloud("https://management.azure.com", "https://login.microsoftonline.com"),
    "usgovernment": Cloud(
        "https://management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
        "https://batch.core.usgovcloudapi.net",
    ),
    "china": Cloud(
        "https://management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
        "https://batch.chinacloudapi.cn",
    ),
}


def chosen_cloud() -> Cloud:
    """Returns the cloud of ARM_METADATA_HOSTNAME, or of ARM_ENVIRONMENT, or the public one. Raises
    UserError if there is no such cloud, or its host does not answer."""
    authorities = os.environ.get("SSL_CERT_FILE") or None
    if host := os.environ.get("ARM_METADATA_HOSTNAME"):
        found = _metadata(host, authorities)
        manager, login = found["resourceManager"], found["authentication"]["loginEndpoint"]
        return Cloud(manager.rstrip("/"), login.rstrip("/"), authorities=authorities, own=True)
    name = os.environ.get("ARM_ENVIRONMENT", "public").lower()
    if name not in _CLOUDS:
        message = f"ARM_ENVIRONMENT: there is no cloud `{name}`"
        raise UserError.of("unknown-cloud", message, f"one of: {', '.join(_CLOUDS)}")
    return replace(_CLOUDS[name], authorities=authorities)


def credential_for(cloud: Cloud) -> TokenCredential:
    """Returns the credential that Terraform would sign in with: a service principal from its
    variables, or the user of `az login`, of this machine or of AZURE_… variables."""
    import logging

    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    # Its report on each credential that it tried belongs in logs, not on a terminal.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    options: dict[str, Any] = {"authority": cloud.login, "disable_instance_discovery": cloud.own}
    if cloud.authorities:
        options["connection_verify"] = cloud.authorities
    names = ("ARM_TENANT_ID", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET")
    tenant, client, secret = (os.environ.get(name, "") for name in names)
    if tenant and client and secret:
        return ClientSecretCredential(tenant, client, secret, **options)
    return DefaultAzureCredential(**options)


def _metadata(host: str, authorities: str | None) -> dict[str, Any]:
    import ssl
    import urllib.error
    import urllib.request

    url = f"https://{host}/metadata/endpoints?api-version=2022-09-01"
    try:
        context = ssl.create_default_context(cafile=authorities)
        with urllib.request.urlopen(url, context=context, timeout=30) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError) as error:
        message = f"{host} of ARM_METADATA_HOSTNAME does not describe a cloud: {error}"
        hint = "name the host of the cloud's Resource Manager, or: unset ARM_METADATA_HOSTNAME"
        raise UserError.of("unknown-cloud", message, hint, exit_code=_FAILED) from None


_SERVICE = "Azure Resource Manager"
_RETRIES = 3
_BATCH_VERSION = "2025-06-01"
_DONE = (200, 201, 202)
_SETTLED = ("", "Succeeded", "Canceled")  # states of a resource without an operation in progress

_PAUSE = 10.0  # seconds between two polls of an operation, if Azure names none


class NotAllowed(Exception):
    """Error for a request that the caller may not make; `action` is the missing permission."""

    def __init__(self, action: str) -> None:
        self.action = action
        super().__init__(action)


class AzureRefused(Exception):
    """Error for a permanent refusal of a request; `code` is the service's."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(f"{code}: {message}" if message else code)


@dataclass
class Management:
    """Azure Resource Manager, for one subscription. Failed requests are retried.

    >>> with signed_in_to(subscription) as azure:  # doctest: +SKIP
    ...     azure.list("providers/Microsoft.Compute/skus", "2021-07-01")  # doctest: +SKIP
    """

    cloud: Cloud
    credential: TokenCredential
    subscription: str
    _notice: SlowCallNotice = field(default_factory=SlowCallNotice, repr=False)

    def get(self, path: str, version: str, **query: str) -> Any:
        """Returns the JSON at a path below the subscription, or at a full id; None if nothing is
        there. Raises NotAllowed if the caller may not see it, UserError if the service failed."""
        return self._ask(self._url(path), path, {"api-version": version, **query})

    def put(self, path: str, version: str, body: Facts) -> Any:
        """Creates a resource at a path below the subscription and returns Azure's answer. Raises
        NotAllowed, AzureRefused, and UserError as `get` does."""
        return self._ask(self._url(path), path, {"api-version": version}, body)

    def _items(self, url: str, path: str, query: dict[str, str], link: str) -> list[Facts]:
        items: list[Facts] = []
        while url:
            page = self._ask(url, path, query) or {}
            items += page.get("value", ())
            url, query = page.get(link, ""), {}
        return items

    def list(self, path: str, version: str, **query: str) -> list[Facts]:
        """Returns all items of a collection, from all pages."""
        return self._items(self._url(path), path, {"api-version": version, **query}, "nextLink")

    def do(self, path: str, version: str) -> bool:
        """Carries out an action on a resource, named last in the path, and waits for its end.

        Returns False if there is no such resource. Raises NotAllowed, AzureRefused, and UserError
        if it does not succeed.
        """
        answer = self._send("POST", self._url(path), {"api-version": version})
        if answer.status_code == 404:
            return False
        if answer.status_code not in _DONE:
            self._read(answer, path, writes=True)
        # Source: Azure documentation, track asynchronous Azure operations.
        operation = answer.headers.get("Azure-AsyncOperation", "")
        while operation:
            time.sleep(float(answer.headers.get("Retry-After") or _PAUSE))
            answer = self._send("GET", operation, {})
            if answer.status_code in (403, 404):
                self._wait_for_state(path.rpartition("/")[0], version)
                break
            found = self._read(answer, path) or {}
            status, error = found.get("status"), found.get("error") or {}
            if status in ("Failed", "Canceled"):
                raise AzureRefused(str(error.get("code") or status), error.get("message") or "")
            if status == "Succeeded":
                break
        return True

    def _wait_for_state(self, path: str, version: str) -> None:
        """Waits for the end of operations on a resource, by its own state: operations belong to the
        subscription, where somebody with a role on one machine may not read them. Raises
        AzureRefused if the state is `Failed`, UserError if that takes longer than the command's
        deadline."""
        seconds = deadline()
        until = time.monotonic() + seconds
        while True:
            properties = (self.get(path, version) or {}).get("properties") or {}
            state = str(properties.get("provisioningState", ""))
            if state == "Failed":
                raise AzureRefused(
                    state, "why is not known: reading it needs the role Reader on the subscription"
                )
            if state in _SETTLED:
                return
            if time.monotonic() >= until:
                name = path.rpartition("/")[2]
                message = f"{_SERVICE}: {name} is still `{state}` after {duration(seconds)}"
                hint = "Azure continues; repeat the command to wait until it is done"
                raise UserError.of("service-failed", message, hint, exit_code=_FAILED)
            time.sleep(_PAUSE)

    def own_id(self) -> str:
        """Returns the object id of the signed-in account; "" if the token does not say. Raises
        UserError without one. Source: Microsoft identity platform, access token claims (`oid`)."""
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        try:
            payload = self.credential.get_token(self.cloud.scope).token.split(".")[1:2]
        except ClientAuthenticationError as error:
            raise not_signed_in(error) from None
        except AzureError as error:
            raise _no_answer(error) from None
        try:
            text = base64.urlsafe_b64decode(f"{payload[0]}{'=' * (-len(payload[0]) % 4)}")
            return str(json.loads(text).get("oid", ""))
        except (AttributeError, IndexError, ValueError):
            return ""

    def pool_images(self, endpoint: str) -> Sequence[Facts]:
        """Returns the pool images that the Batch account at that address lists."""
        cloud = replace(self.cloud, manager=self.cloud.batch)  # the audience of the token
        account, path = Management(cloud, self.credential, self.subscription), "supportedimages"
        url, query = f"https://{endpoint}/{path}", {"api-version": _BATCH_VERSION}
        try:
            return account._items(url, path, query, "odata.nextLink")
        finally:
            account._close_client()

    def _url(self, path: str) -> str:
        if path.startswith("/subscriptions/"):
            return f"{self.cloud.manager}{path}"
        return f"{self.cloud.manager}/subscriptions/{self.subscription}/{path}".rstrip("/")

    def _ask(self, url: str, path: str, query: dict[str, str], body: Facts | None = None) -> Any:
        method = "GET" if body is None else "PUT"
        return self._read(self._send(method, url, query, body), path, writes=body is not None)

    def _send(
        self, method: str, url: str, query: dict[str, str], body: Facts | None = None
    ) -> HttpResponse:
        from azure.core.exceptions import AzureError, ClientAuthenticationError
        from azure.core.rest import HttpRequest

        try:
            request = HttpRequest(method, url, params=query, json=body)
            with self._notice.watch(_SERVICE, deadline()):
                return cast("HttpResponse", self._client.send_request(request))
        except ClientAuthenticationError as error:
            raise not_signed_in(error) from None
        except AzureError as error:
            raise _no_answer(error) from None

    def _read(self, answer: HttpResponse, path: str, *, writes: bool = False) -> Any:
        status = answer.status_code
        if status in _DONE:
            try:
                return answer.json()
            except ValueError as error:
                raise _no_answer(error) from None
        if status == 401:
            raise not_signed_in(f"the token was refused for {path}")
        if status == 403:
            raise NotAllowed(path or "the subscription")
        if status == 404 and not writes:
            return None
        if writes and status < 500:
            raise AzureRefused(*_error_of(answer.text()))
        message = f"{_SERVICE} answers {status} for {path}"
        raise UserError.of("service-failed", message, _LATER, exit_code=_FAILED)

    @cached_property
    def _client(self) -> PipelineClient[Any, Any]:
        from azure.core import PipelineClient
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy, RetryPolicy
        from azure.core.pipeline.transport import RequestsTransport

        return PipelineClient(
            self.cloud.manager,
            policies=[
                RetryPolicy(retry_total=_RETRIES, timeout=round(deadline())),
                BearerTokenCredentialPolicy(self.credential, self.cloud.scope),
            ],
            transport=RequestsTransport(connection_verify=self.cloud.authorities or True),
        )

    def close(self) -> None:
        """Closes the connections."""
        self._close_client()
        if close := getattr(self.credential, "close", None):
            close()

    def _close_client(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()


@contextmanager
def signed_in_to(subscription: str, cloud: Cloud | None = None) -> Iterator[Management]:
    """Opens a subscription, by default of the chosen cloud, as the signed-in account."""
    cloud = cloud or chosen_cloud()
    azure = Management(cloud, credential_for(cloud), subscription)
    try:
        yield azure
    finally:
        azure.close()


_LATER = "try again later; can this machine reach Azure? az account show"


def _no_answer(error: object) -> UserError:
    message = f"{_SERVICE} does not answer: {_first_line(error)}"
    return UserError.of("service-failed", message, _LATER, exit_code=_FAILED)


def not_signed_in(error: object) -> UserError:
    """Returns the error for a missing or expired sign-in."""
    from fairway_runner.engines.azure_sdk import how_to_sign_in, sign_in_again, why_not_signed_in

    message = sign_in_again(error) or f"not signed in to Azure: {why_not_signed_in(error)}"
    return UserError.of("not-signed-in", message, how_to_sign_in(error))


def _error_of(text: str) -> tuple[str, str]:
    try:
        error = json.loads(text)["error"]
        return str(error.get("code", "")), _first_line(error.get("message", ""))
    except (AttributeError, KeyError, TypeError, ValueError):
        return "", _first_line(text)


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["no reason was given"])[0][:300]
