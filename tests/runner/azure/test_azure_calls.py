"""Calls to a service that fails or is behind a gateway: retries, deadlines and messages."""

import logging
import queue
import socket
import ssl
import threading
from logging.handlers import QueueHandler
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.rest import HttpRequest
from azure.storage.blob import StorageErrorCode
from endings import refused
from targets import target_of

from fairway_core.target import Target
from fairway_runner.engines import azure_sdk, outage
from fairway_runner.engines.azure_calls import Calls, ServiceAway, ServiceError
from fairway_runner.engines.azure_sdk import Gateway, transport
from fairway_runner.engines.azure_storage import Storage


class Clock(threading.Event):
    """A clock that advances only while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()


def failing(*errors: Exception) -> Any:
    """Returns an operation that raises these errors in turn, and then returns 7."""
    left = list(errors)

    def operation() -> int:
        if left:
            raise left.pop(0)
        return 7

    return operation


def http(status: int, headers: dict[str, str] | None = None, text: str = "no") -> HttpResponseError:
    error = HttpResponseError(text)
    error.status_code = status
    error.response = SimpleNamespace(headers=headers or {})  # type: ignore[assignment]
    return error


def straight(deadline: float = 60.0) -> Any:
    """Connections without a gateway."""
    return transport(Target.local(), "https://a.batch.azure.com", deadline)


def calls(deadline: float = 30.0, **more: Any) -> Calls:
    clock = Clock()
    return Calls("Azure Batch", deadline, "az login", stopped=clock, clock=clock, **more)


@pytest.mark.parametrize(
    "error",
    [
        *(http(status) for status in (408, 429, 500, 502, 503, 504)),
        ServiceRequestError("cut"),
        ServiceResponseError("cut"),
        HttpResponseError("reset in the middle of an answer"),
    ],
)
def test_azure_call_retries_transient_errors(error: Exception) -> None:
    assert calls().call("a job", failing(error, error)) == 7


@pytest.mark.parametrize("status", [400, 404, 409, 412, 413])
def test_azure_call_does_not_retry_refusals(status: int) -> None:
    made = calls()
    with pytest.raises(ServiceError) as caught:
        made.call("a job", failing(http(status)))
    assert (caught.value.status, caught.value.exit_code) == (status, 5)


def test_azure_call_waits_for_retry_after_unless_past_its_deadline() -> None:
    made = calls()
    assert made.call("a job", failing(http(429, {"Retry-After": "7"}))) == 7
    assert made.clock() == 7
    made = calls(1.0)
    with pytest.raises(ServiceError, match="asks to wait 600 s"):
        made.call("a job", failing(http(429, {"Retry-After": "600"})))
    assert made.clock() == 0


def test_azure_call_to_a_closed_local_port_fails_at_once() -> None:
    with socket.socket() as bound:  # to a port without listening
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        made = calls(address=address)
        with straight() as connections, pytest.raises(ServiceRequestError) as caught:
            connections.send(HttpRequest("GET", address))
    error = caught.value
    said = f"nothing listens at {address}"
    finding = refused(lambda: made.call("a job", failing(error)), said, code=5)
    assert "bin/batch-simulator --background" in finding.hint
    assert calls(address="https://a.batch.azure.com").call("a job", failing(error)) == 7


@pytest.mark.parametrize("offered", [True, False])
def test_azure_call_gives_up_within_its_deadline(
    monkeypatch: pytest.MonkeyPatch, offered: bool
) -> None:
    """The hint names --deadline only if the command has the option."""
    monkeypatch.setattr(outage.Choice, "offered", offered)
    made = calls(100.0)
    fails = failing(*[http(503)] * 1000)
    finding = refused(lambda: made.call("a job", fails), "has not answered for 100 s")
    assert 80 < made.clock() <= 100
    more = ", or wait longer with --deadline" if offered else ""
    assert finding.hint == f"try again later{more}"


@pytest.mark.parametrize(("chosen", "seconds"), [(None, 30), (120.0, 120)])
def test_azure_call_of_a_read_only_command_gives_up_sooner_without_a_deadline_option(
    monkeypatch: pytest.MonkeyPatch, chosen: float | None, seconds: int
) -> None:
    monkeypatch.setattr(outage.Choice, "seconds", chosen)
    made = calls(outage.deadline())
    with made.soon(), pytest.raises(ServiceError, match=f"has not answered for {seconds} s"):
        made.call("a job", failing(*[http(503)] * 1000))
    assert made.clock() <= seconds
    assert made.deadline == outage.deadline()


def test_azure_call_is_not_retried_once_another_has_given_up() -> None:
    made = calls()
    made.stopped.set()
    with pytest.raises(ServiceAway):
        made.call("a job", failing(http(503)))


@pytest.mark.parametrize(("fails", "brief"), [(True, True), (False, True), (True, False)])
def test_azure_call_without_an_answer_logs_that_the_service_is_silent(
    monkeypatch: pytest.MonkeyPatch, fails: bool, brief: bool
) -> None:
    """A call that may take long counts as silent only after its first failure."""
    monkeypatch.setattr("fairway_runner.engines.outage._QUIET", 0.05)
    told: queue.Queue[logging.LogRecord] = queue.Queue()
    monkeypatch.setattr(logging.getLogger("fairway"), "handlers", [QueueHandler(told)])
    errors = [ServiceRequestError("no route to host")] if fails else []

    def hangs() -> str:
        if errors:
            raise errors.pop()
        return told.get(timeout=300).getMessage()

    said = calls().call("a job", hangs, brief=brief)
    assert said.startswith("Azure Batch does not answer")
    assert ("no route to host" in said) == fails
    assert "Ctrl-C ends it" in said


def test_azure_storage_refuses_invalid_connection_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "BlobEndpoint")
    finding = refused(lambda: Storage(Target.local(), 0.0).client)
    assert finding.id == "bad-connection-string"


@pytest.mark.parametrize(("deadline", "seconds"), [(600.0, 60), (30.0, 30), (1.0, 5)])
def test_azure_transport_read_timeout_is_at_most_deadline(deadline: float, seconds: float) -> None:
    with straight(deadline) as connections:
        assert connections.connection_config.read_timeout == seconds


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        *(
            (StorageErrorCode.AUTHORIZATION_FAILURE, "is closed to this machine's address", hint)
            # A hand-written target with a Bastion has no gateway.
            for hint in ("access.allowed", "`gateway: {host, user}`\nof the target")
        ),
        ("", "does not accept these credentials", "az login"),
        ("AuthorizationPermissionMismatch", "knows you", "Storage Blob Data Contributor"),
    ],
)
def test_azure_storage_403_hints_at_network_or_role_and_not_at_login(
    code: StorageErrorCode | str, message: str, hint: str
) -> None:
    """Azure Storage refuses the client's network, or a user without the role."""
    error = http(403, text="This request is not authorized to perform this operation.")
    error.error_code = code  # type: ignore[attr-defined]
    finding = refused(lambda: calls().call("a blob", failing(error)), message, code=2)
    assert hint in finding.hint


def test_azure_call_retries_after_an_expired_token_or_clock_skew() -> None:
    error = ClientAuthenticationError("expired")
    assert calls(has_token=True).call("a job", failing(error, error)) == 7
    with pytest.raises(ServiceError):
        calls(has_token=True).call("a job", failing(error, error, error))
    with pytest.raises(ServiceError):
        calls().call("a job", failing(error))
    date = {"Date": "Sat, 01 Mar 2031 12:00:00 GMT"}
    with pytest.raises(ServiceError, match="minutes behind Azure Batch's"):
        calls().call("a job", failing(http(403, date)))
    made = calls()
    made.skew = 0.0
    assert made.call("a job", failing(http(403, date))) == 7
    assert made.skew > 1e6


# As DefaultAzureCredential words it: the useful part comes last.
NOT_SET_UP = (
    "DefaultAzureCredential failed to retrieve a token from the included credentials.\n"
    "Attempted credentials:\n"
    "\tEnvironmentCredential: EnvironmentCredential authentication unavailable. Environment "
    "variables are not fully configured.\nVisit https://aka.ms/azsdk/python/identity/x\n"
    "\tAzureCliCredential: ERROR: %s\nTo mitigate this issue, please refer to …"
)


EXPIRED = "your sign-in to Azure has expired ("
MORE = "your organization requires more before it signs you in ("
NOBODY = "not signed in to Azure: "


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (NOT_SET_UP % "AADSTS70043: The refresh token has expired", f"{EXPIRED}AADSTS70043)"),
        (NOT_SET_UP % "AADSTS700082: The refresh token has expired", f"{EXPIRED}AADSTS700082)"),
        (NOT_SET_UP % "AADSTS50076: you must use multi-factor", f"{MORE}AADSTS50076)"),
        (NOT_SET_UP % "Please run 'az login'", f"{NOBODY}ERROR: Please run 'az login'"),
        ("AzureCliCredential: Azure CLI not found on path", f"{NOBODY}Azure CLI not found on path"),
        (
            "\tEnvironmentCredential: Authentication failed: AADSTS7000215: Invalid secret\n\tx",
            f"{NOBODY}Authentication failed: AADSTS7000215: Invalid secret",
        ),
    ],
)
def test_azure_call_without_sign_in_reports_one_sentence_and_az_login(said: str, why: str) -> None:
    """The SDK's full list of attempts would be cut off before the useful part."""
    fails = failing(ClientAuthenticationError(said))
    finding = refused(lambda: calls().call("a job", fails), code=2)
    assert finding.message == f"Azure Batch was not asked: {why}"
    assert finding.id == "no-access"
    *before, last = finding.hint.splitlines()
    assert last == "az login"
    assert any("install-azure-cli" in line for line in before) is ("not found" in why)


def test_azure_call_to_an_unknown_host_name_gives_up_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairway_runner.engines.azure_calls._UNKNOWN_NAME", 0.0)
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    monkeypatch.setattr(socket, "getaddrinfo", looked := Mock(side_effect=error))
    request = HttpRequest("GET", "https://nobody.batch.azure.com")
    with straight() as connections:
        made = calls(600)
        with pytest.raises(ServiceError, match="Failed to resolve"):
            made.call("a job", lambda: connections.send(request))
    assert looked.call_count == 2


@pytest.mark.parametrize(
    ("kind", "lasts"),
    [(ssl.SSLCertVerificationError, True), (ssl.SSLError, True), (ssl.SSLEOFError, False)],
)
def test_azure_call_to_another_service_than_azures_gives_up_before_its_deadline(
    monkeypatch: pytest.MonkeyPatch, kind: type[ssl.SSLError], *, lasts: bool
) -> None:
    monkeypatch.setattr("fairway_runner.engines.azure_calls._UNKNOWN_NAME", 0.0)
    lost = ServiceRequestError("no TLS", error=OSError(kind(1, "no TLS")))
    made = calls(600)
    if lasts:
        with pytest.raises(ServiceError, match="refuses a job: no TLS"):
            made.call("a job", failing(lost, lost))
    else:
        assert made.call("a job", failing(lost, lost)) == 7


class _Ssh:
    """A connection with only a name and its messages."""

    name, said = "azureuser@10.40.0.4", ""


def _gateway(said: str) -> Gateway:
    ssh = _Ssh()
    found = Gateway(cast("Any", ssh), 1.0)
    ssh.said = said
    return found


def test_gateway_returns_the_reason_of_the_latest_failure() -> None:
    found = _gateway(
        "channel 2: open failed: connect failed: Connection refused\r\n"
        "channel 3: open failed: connect failed: Name or service not known\r\n"
    )
    assert found.failure_since("") == "Name or service not known"
    assert found.failure_since(found.ssh.said) == ""
    found = _gateway("channel 2: open failed: administratively prohibited: open failed\r\n")
    finding = refused(lambda: found.failure_since(""))
    assert finding.id == "no-forwarding"
    said = "azureuser@10.40.0.4 does not forward connections ("
    assert finding.message.startswith(said)
    assert "AllowTcpForwarding" in finding.hint


def _resolver(addresses: dict[str, list[str]]) -> Any:
    def resolve(host: str, port: None) -> list[Any]:
        if host not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(2, 1, 6, "", (address, 0)) for address in addresses[host]]

    return resolve


@pytest.mark.parametrize(
    ("addresses", "near"),
    [
        (["10.40.3.4"], True),
        (["127.0.0.1", "::1"], True),
        (["20.150.1.2"], False),
        (["10.40.3.4", "20.150.1.2"], False),
        (None, False),
    ],
)
def test_gateway_is_bypassed_for_a_host_with_only_private_addresses(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str] | None, near: bool
) -> None:
    known = {} if addresses is None else {"lab.blob.core.windows.net": addresses}
    monkeypatch.setattr(azure_sdk.socket, "getaddrinfo", _resolver(known))
    assert azure_sdk._is_near("lab.blob.core.windows.net") is near


def test_gateway_without_a_host_address_is_not_used() -> None:
    """A cluster's host has no address while Azure lacks the capacity for it."""
    target = target_of("ssh", {"host": ""}, gateway={"host": "", "user": "azureuser"})
    adapter = azure_sdk.adapter_for(target, "https://lab.invalid", 1.0)
    assert type(adapter).__name__ == "HTTPAdapter"
