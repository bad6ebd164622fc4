"""The metadata service of a machine, from a loopback stand-in: its tokens, and how it is asked."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fairway_boot import http, identity, imds
from fairway_boot.http import Failure
from fairway_boot.imds import Metadata
from fairway_boot.slurm.people import token_server
from fairway_simulator.ssh.services import Services, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

VAULT = "https://vault.azure.net"


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(http, "_FIRST_PAUSE", 0.001)
    with running(Services()) as found:
        yield found


def test_a_token_is_asked_for_once(services: Services) -> None:
    metadata = Metadata(services.url)
    assert metadata.token(VAULT) == metadata.token(VAULT) == f"token for {VAULT}"
    assert len(services.requests) == 1


def test_imds_token_about_to_expire_is_fetched_anew(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of very many blobs takes longer than a token lasts."""
    metadata = Metadata(services.url)
    metadata.token(VAULT)
    later = time.time() + 86_400
    monkeypatch.setattr(imds.time, "time", lambda: later)
    metadata.token(VAULT)
    assert len(services.requests) == 2


@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_a_service_that_is_updated_is_asked_again(services: Services, status: int) -> None:
    """Microsoft Learn, how to acquire an access token on an Azure VM: "Retry guidance"."""
    services.faults = [("/metadata/", status), ("/metadata/", status)]
    assert Metadata(services.url).token(VAULT)
    assert services.faults == []


def test_a_machine_without_an_identity_is_refused_at_once(services: Services) -> None:
    services.faults = [("/metadata/", 400), ("/metadata/", 400)]
    with pytest.raises(Failure, match="HTTP 400"):
        Metadata(services.url).token(VAULT)
    assert len(services.faults) == 1


def test_no_proxy_is_asked(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same page: "IMDS is not intended to be used behind a proxy and doing so is
    unsupported": its address means this machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert Metadata(services.url).token(VAULT)


def test_imds_retry_waits_as_long_as_retry_after_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=waits.append))

    def ask() -> None:
        raise Failure(429, "TooManyRequests", "slower", retry_after=7.0 if not waits else None)

    with pytest.raises(Failure):
        http._patiently(ask, 4, ())
    assert waits == [7.0, 1.0, 2.0]


def test_imds_user_without_access_asks_the_substitute_service(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """People's accounts on a node of Slurm, and nobody else there."""
    place = tmp_path / "tokens"
    place.write_text(f"{services.url}\n")
    monkeypatch.setattr(imds, "_IN_ITS_PLACE", place)
    monkeypatch.setattr(imds, "ADDRESS", "http://127.0.0.1:1")
    monkeypatch.delenv("FAIRWAY_METADATA_URL", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 30_001)
    assert Metadata().token(VAULT) == f"token for {VAULT}"
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert imds._usual() == "http://127.0.0.1:1"
    place.unlink()
    monkeypatch.setattr("os.getuid", lambda: 30_001)
    assert imds._usual() == "http://127.0.0.1:1"


class TestInItsPlace:
    """What answers people's jobs on a node of Slurm."""

    @pytest.fixture
    def tokens(self, services: Services) -> Iterator[Metadata]:
        with token_server(Metadata(services.url), 0) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            yield Metadata(f"http://127.0.0.1:{server.server_port}")
            server.shutdown()
            thread.join()

    @pytest.mark.parametrize(
        "resource", ["https://storage.azure.com/", "https://management.azure.com"]
    )
    def test_imds_substitute_gives_tokens_for_blobs_and_images(
        self, tokens: Metadata, resource: str
    ) -> None:
        assert tokens.token(resource) == f"token for {resource.rstrip('/')}"

    def test_imds_substitute_gives_no_token_for_vaults(
        self, tokens: Metadata, services: Services
    ) -> None:
        for resource in (VAULT, f"{VAULT}/", "https://storage.azure.com.evil.net"):
            with pytest.raises(Failure, match="people's jobs get no token for https://"):
                tokens.token(resource)
        assert services.requests == []

    def test_imds_substitute_gives_no_machine_metadata(self, tokens: Metadata) -> None:
        with pytest.raises(Failure, match="tokens are all"):
            tokens.machine()


def test_imds_token_is_asked_for_the_chosen_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "identity"
    monkeypatch.setattr(identity, "_CHOSEN", file)
    assert identity._own() == {}
    file.write_text("/subscriptions/s/nodes\n")
    assert identity._own() == {"msi_res_id": "/subscriptions/s/nodes"}
