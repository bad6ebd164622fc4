"""Identities of pods and machines, the metadata service, and files that are replaced atomically."""

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from serving import Handler, in_thread, serving

from fairway_agent import access
from fairway_boot import files, http, identity, imds
from fairway_boot.files import AgentError
from fairway_boot.http import Failure
from fairway_boot.identity import Workload
from fairway_boot.imds import Metadata
from fairway_boot.slurm.people import token_server
from fairway_simulator.ssh.services import CLIENT, TENANT, Services, running

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
    """Returns the file with the service account's token, as Kubernetes writes it."""
    path = tmp_path / "azure-identity-token"
    path.write_text("one.two.three")
    return path


@pytest.fixture
def pod(services: Services, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the variables that AKS's webhook gives to a pod."""
    for name, value in zip(VARIABLES, (str(file), CLIENT, TENANT), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"{services.url}/")
    monkeypatch.setenv("FAIRWAY_METADATA_URL", services.url)


def asked(services: Services) -> list[str]:
    return [path.partition("?")[0] for path in services.requests]


EXCHANGE = f"/{TENANT}/oauth2/v2.0/token"


@pytest.mark.usefixtures("pod")
def test_identity_of_the_pod_and_not_of_the_node_reads_secrets_and_blobs(
    services: Services,
) -> None:
    assert access.secret_values({"KEY": "keyvault:key"}, services.url) == {"KEY": "42"}
    assert asked(services) == [EXCHANGE, "/secrets/key"]
    assert identity.bearer(STORAGE) == {"Authorization": f"Bearer token for {STORAGE}"}
    assert asked(services) == [EXCHANGE, "/secrets/key", EXCHANGE]


def test_identity_of_the_node_is_used_if_the_pod_has_none(
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
        AgentError, match="the pod's identity opens nothing: invalid_client: AADSTS70021"
    ):
        identity.bearer(VAULT)
    with pytest.raises(AgentError, match="AADSTS700213") as raised:
        access.secret_values({"KEY": "keyvault:key"}, services.url)
    assert "federated credential" in raised.value.record["hint"]
    assert "one.two.three" not in raised.value.said
    assert set(asked(services)) == {EXCHANGE}


@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize("faults", [(429, 429), (500, 500), (503, 503), (30, 0)])
def test_identity_token_request_is_retried_on_transient_errors_and_broken_answers(
    services: Services, faults: tuple[int, int]
) -> None:
    services.faults = [("/token", each) for each in faults]
    assert identity.bearer(VAULT)
    assert services.faults == []
    assert len(services.requests) == 3


@pytest.mark.usefixtures("pod")
def test_identity_token_is_cached_and_renewed_with_the_current_token_file(
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


FILE = "AZURE_FEDERATED_TOKEN_FILE"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AZURE_CLIENT_ID", "", "AZURE_CLIENT_ID names nothing"),  # no annotation at the account
        ("AZURE_TENANT_ID", "a/../b", "AZURE_TENANT_ID names nothing"),
        ("AZURE_AUTHORITY_HOST", "http://login.example.com", "no address with https://"),
        ("AZURE_AUTHORITY_HOST", "login.example.com", "no address with https://"),
        ("AZURE_AUTHORITY_HOST", "file:///etc", "no address with https://"),
        (FILE, "/no/such/file", "No such file"),
        # Contents of the file.
        *(("", text, FILE) for text in ("", "two words", "a\nb", "caf\xe9")),
        ("", "x" * (identity._MOST + 1), FILE),
    ],
)
@pytest.mark.usefixtures("pod")
def test_identity_variables_or_file_that_are_invalid_are_named(
    services: Services,
    file: Path,
    name: str,
    value: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name:
        monkeypatch.setenv(name, value)
    else:
        file.write_text(value)
    with pytest.raises(AgentError, match=said):
        identity.bearer(VAULT)
    assert services.requests == []


GOOD = {"token_type": "Bearer", "expires_in": 3599, "access_token": "abc"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        *((change, None) for change in ({}, {"expires_in": "3599"}, {"token_type": "bearer"})),
        (b"", "holds no token"),
        (b"[]", "holds no token"),
        ({"access_token": None}, "holds no token"),
        ({"access_token": ""}, "holds no token"),
        ({"access_token": "a\r\nHost: x"}, "holds no token"),
        ({"access_token": 7}, "holds no token"),
        ({"token_type": "mac"}, "of another type"),
        ({"expires_in": True}, "how long its token lasts"),
        ({"expires_in": -1}, "how long its token lasts"),
        ({"expires_in": "1e9"}, "how long its token lasts"),
        (b"{", "Expecting property name"),
        (b"<html>", "Expecting value"),
        (b" " * (identity._MOST + 1), "more than 131,072 bytes"),
    ],
)
def test_identity_token_answer_is_accepted_in_each_valid_form_and_refused_in_others(
    file: Path, answer: bytes | dict[str, Any], said: str | None
) -> None:
    text = answer if isinstance(answer, bytes) else json.dumps({**GOOD, **answer}).encode()

    class Same(Handler):
        def do_POST(self) -> None:
            self.body()
            self.answer(text)

    with serving(Same) as url:
        pod = Workload(file, CLIENT, TENANT, url)
        if said is None:
            assert pod.bearer(VAULT) == {"Authorization": "Bearer abc"}
            return
        with pytest.raises(Failure, match=said):
            pod.bearer(VAULT)


def test_imds_token_is_cached_and_renewed_before_it_expires(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of very many blobs takes longer than a token lasts."""
    metadata = Metadata(services.url)
    assert metadata.token(VAULT)[0] == metadata.token(VAULT)[0] == f"token for {VAULT}"
    assert len(services.requests) == 1
    later = time.time() + 86_400
    monkeypatch.setattr(imds.time, "time", lambda: later)
    metadata.token(VAULT)
    assert len(services.requests) == 2


@pytest.mark.parametrize("status", [404, 410, 429, 500, 400])
def test_imds_token_request_is_retried_while_the_service_is_updated(
    services: Services, status: int
) -> None:
    """Microsoft Learn, how to acquire an access token on an Azure VM: "Retry guidance". A machine
    without an identity is refused with 400."""
    services.faults = [("/metadata/", status), ("/metadata/", status)]
    if status == 400:
        with pytest.raises(Failure, match="HTTP 400"):
            Metadata(services.url).token(VAULT)
        assert len(services.faults) == 1
        return
    assert Metadata(services.url).token(VAULT)[0] == f"token for {VAULT}"
    assert services.faults == []


def test_imds_is_reached_without_a_proxy(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Microsoft Learn, how to acquire an access token on an Azure VM: "IMDS is not intended to be
    used behind a proxy and doing so is unsupported": its address means this machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert Metadata(services.url).token(VAULT)[0] == f"token for {VAULT}"


def test_imds_retry_waits_as_long_as_retry_after_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(http, "_FIRST_PAUSE", 0.5)
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=waits.append))

    def ask() -> None:
        raise Failure(429, "TooManyRequests", "slower", retry_after=7.0 if not waits else None)

    with pytest.raises(Failure):
        http._patiently(ask, 4, ())
    assert waits == [7.0, 1.0, 2.0]


def test_imds_user_without_access_uses_the_substitute_service(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the accounts of users on a Slurm node do so."""
    place = tmp_path / "tokens"
    place.write_text(f"{services.url}\n")
    monkeypatch.setattr(imds, "_IN_ITS_PLACE", place)
    monkeypatch.setattr(imds, "ADDRESS", "http://127.0.0.1:1")
    monkeypatch.delenv("FAIRWAY_METADATA_URL", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 30_001)
    assert Metadata().token(VAULT)[0] == f"token for {VAULT}"
    monkeypatch.setattr("os.getuid", lambda: 1000)
    with pytest.raises(Failure, match=r"http://127\.0\.0\.1:1/metadata"):
        Metadata().token(VAULT)
    place.unlink()
    monkeypatch.setattr("os.getuid", lambda: 30_001)
    with pytest.raises(Failure, match=r"http://127\.0\.0\.1:1/metadata"):
        Metadata().token(VAULT)


def test_imds_substitute_gives_tokens_for_blobs_and_images_and_nothing_else(
    services: Services,
) -> None:
    """This server answers the jobs of users on a Slurm node."""
    server = token_server(Metadata(services.url), 0)
    assert server.RequestHandlerClass.timeout, "none keeps a thread for good"  # type: ignore[attr-defined]
    tokens = Metadata(f"http://127.0.0.1:{server.server_port}")
    with in_thread(server):
        for resource in (VAULT, f"{VAULT}/", "https://storage.azure.com.evil.net"):
            with pytest.raises(Failure, match="people's jobs get no token for https://"):
                tokens.token(resource)
        with pytest.raises(Failure, match="tokens are all"):
            tokens.machine()
        assert services.requests == []
        for resource in (STORAGE, "https://management.azure.com"):
            assert tokens.token(resource)[0] == f"token for {resource.rstrip('/')}"


def test_imds_token_is_requested_for_the_chosen_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "identity"
    monkeypatch.setattr(identity, "_CHOSEN", file)
    assert identity._own() == {}
    file.write_text("/subscriptions/s/nodes\n")
    assert identity._own() == {"msi_res_id": "/subscriptions/s/nodes"}


def test_files_write_json_replaces_the_file_entirely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    files.write_json(file, {"state": "queued"})

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr("pathlib.Path.replace", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space"):
        files.write_json(file, {"state": "running"})
    assert json.loads(file.read_text()) == {"state": "queued"}
    assert list(tmp_path.iterdir()) == [file]


def test_files_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with files.hold_lock(lock):
        assert files.try_lock(lock) is None
    held = files.try_lock(lock)
    assert held is not None
    assert files.try_lock(lock) is None
    assert not os.get_inheritable(held), "no program that is started keeps it"
    os.close(held)
    with files.hold_lock(lock):
        pass
