"""The identity of a pod: tokens from a loopback stand-in for Entra ID, and what is no token."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from serving import Handler, serving

from fairway_agent.azure import access
from fairway_boot import http, identity
from fairway_boot.files import Fault
from fairway_boot.http import Failure
from fairway_boot.identity import Workload
from fairway_simulator.ssh.services import CLIENT, TENANT, Services, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VAULT, STORAGE = "https://vault.azure.net", "https://storage.azure.com/"
VARIABLES = ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(http, "_FIRST_PAUSE", 0.001)
    identity._of_pod.cache_clear()
    yield
    identity._of_pod.cache_clear()


@pytest.fixture(scope="module")
def _services() -> Iterator[Services]:
    with running(Services(secrets={"key": "42"})) as found:
        yield found


@pytest.fixture
def services(_services: Services) -> Services:
    _services.requests, _services.faults = [], []
    _services.federated = {"one.two.three"}
    return _services


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The token of the service account, as Kubernetes writes it."""
    path = tmp_path / "azure-identity-token"
    path.write_text("one.two.three")
    return path


@pytest.fixture
def pod(services: Services, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that AKS's webhook gives to a pod."""
    for name, value in zip(VARIABLES, (str(file), CLIENT, TENANT), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"{services.url}/")
    monkeypatch.setenv("FAIRWAY_METADATA_URL", services.url)


def asked(services: Services) -> list[str]:
    return [path.partition("?")[0] for path in services.requests]


EXCHANGE = f"/{TENANT}/oauth2/v2.0/token"


@pytest.mark.usefixtures("pod")
def test_secrets_are_read_by_it_and_never_by_the_nodes(services: Services) -> None:
    assert access.secret_values({"KEY": "keyvault:key"}, services.url) == {"KEY": "42"}
    assert asked(services) == [EXCHANGE, "/secrets/key"]


@pytest.mark.usefixtures("pod")
def test_blobs_are_read_by_the_workload_identity_alone(services: Services) -> None:
    assert identity.bearer(STORAGE) == {"Authorization": f"Bearer token for {STORAGE}"}
    assert asked(services) == [EXCHANGE]


def test_without_one_the_nodes_is_asked(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FAIRWAY_METADATA_URL", services.url)
    monkeypatch.setattr(identity.METADATA, "_kept", {})
    assert identity.bearer(VAULT) == {"Authorization": f"Bearer token for {VAULT}"}
    assert asked(services) == ["/metadata/identity/oauth2/token"]


@pytest.mark.usefixtures("pod")
def test_identity_unknown_to_entra_fails_without_falling_back_to_the_nodes(
    services: Services,
) -> None:
    services.federated.clear()
    with pytest.raises(
        Fault, match="the pod's identity opens nothing: invalid_client: AADSTS70021"
    ):
        identity.bearer(VAULT)
    with pytest.raises(Fault, match="AADSTS700213") as raised:
        access.secret_values({"KEY": "keyvault:key"}, services.url)
    assert "federated credential" in raised.value.record["hint"]
    assert "one.two.three" not in raised.value.said
    assert set(asked(services)) == {EXCHANGE}


@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize("status", [429, 500, 503])
def test_identity_token_request_is_retried_on_transient_errors(
    services: Services, status: int
) -> None:
    services.faults = [("/token", status), ("/token", status)]
    assert identity.bearer(VAULT)
    assert services.faults == []


@pytest.mark.usefixtures("pod")
def test_an_answer_that_breaks_off_is_asked_for_again(services: Services) -> None:
    services.faults = [("/token", 30), ("/token", 0)]
    assert identity.bearer(VAULT)
    assert len(services.requests) == 3


@pytest.mark.usefixtures("pod")
def test_a_token_is_kept_and_the_files_is_read_anew(
    services: Services, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity.bearer(VAULT)
    identity.bearer(VAULT)
    assert len(services.requests) == 1
    file.write_text("four.five.six\n")
    services.federated = {"four.five.six"}
    later = time.time() + 3599 - 299
    monkeypatch.setattr(identity.time, "time", lambda: later)
    identity.bearer(VAULT)
    assert len(services.requests) == 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AZURE_CLIENT_ID", "", "AZURE_CLIENT_ID names nothing"),  # no annotation at the account
        ("AZURE_TENANT_ID", "a/../b", "AZURE_TENANT_ID names nothing"),
        ("AZURE_AUTHORITY_HOST", "http://login.example.com", "no address with https://"),
        ("AZURE_AUTHORITY_HOST", "login.example.com", "no address with https://"),
        ("AZURE_AUTHORITY_HOST", "file:///etc", "no address with https://"),
        ("AZURE_FEDERATED_TOKEN_FILE", "/no/such/file", "No such file"),
    ],
)
@pytest.mark.usefixtures("pod")
def test_variables_that_name_no_identity_are_named(
    services: Services, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Fault, match=said):
        identity.bearer(VAULT)
    assert services.requests == []


@pytest.mark.parametrize("text", ["", "two words", "a\nb", "caf\xe9", "x" * (identity._MOST + 1)])
@pytest.mark.usefixtures("pod")
def test_a_file_that_holds_no_token(services: Services, file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(Fault, match="AZURE_FEDERATED_TOKEN_FILE"):
        identity.bearer(VAULT)
    assert services.requests == []


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """Says the same to everybody."""

    class Same(Handler):
        def do_POST(self) -> None:
            self.body()
            self.answer(text)

    with serving(Same) as url:
        yield url


GOOD = {"token_type": "Bearer", "expires_in": 3599, "access_token": "abc"}


def token(answer: bytes, file: Path) -> str:
    with answering(answer) as url:
        return Workload(file, CLIENT, TENANT, url).bearer(VAULT)["Authorization"]


@pytest.mark.parametrize("change", [{}, {"expires_in": "3599"}, {"token_type": "bearer"}])
def test_an_answer(file: Path, change: dict[str, Any]) -> None:
    assert token(json.dumps({**GOOD, **change}).encode(), file) == "Bearer abc"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "holds no token"),
        (b"[]", "holds no token"),
        (b'"abc"', "holds no token"),
        ({"access_token": None}, "holds no token"),
        ({"access_token": ""}, "holds no token"),
        ({"access_token": "a\r\nHost: x"}, "holds no token"),
        ({"access_token": 7}, "holds no token"),
        ({"token_type": "mac"}, "of another type"),
        ({"token_type": None}, "of another type"),
        ({"expires_in": None}, "how long its token lasts"),
        ({"expires_in": True}, "how long its token lasts"),
        ({"expires_in": -1}, "how long its token lasts"),
        ({"expires_in": "1e9"}, "how long its token lasts"),
        (b"{", "Expecting property name"),
        (b"<html>", "Expecting value"),
        (b" " * (identity._MOST + 1), "more than 131,072 bytes"),
    ],
)
def test_an_answer_that_is_none(file: Path, answer: bytes | dict[str, Any], said: str) -> None:
    text = answer if isinstance(answer, bytes) else json.dumps({**GOOD, **answer}).encode()
    with pytest.raises(Failure, match=said):
        token(text, file)
