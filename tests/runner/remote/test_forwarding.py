"""When services are asked through a gateway, and what is said where it forwards nothing."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.azure import sdk
from fairway_runner.engines.azure.sdk import Forwarding
from fairway_runner.engines.remote.connection import Ended


class _Ssh:
    """A connection of which nothing is asked but what it has said."""

    name, said = "azureuser@10.40.0.4", ""


def _forwarding(said: str) -> Forwarding:
    ssh = _Ssh()
    found = Forwarding(cast("Any", ssh), 1.0)
    assert found.mark() == 0
    ssh.said = said
    return found


def test_the_reason_of_the_far_side_is_that_of_the_latest_failure() -> None:
    found = _forwarding(
        "channel 2: open failed: connect failed: Connection refused\r\n"
        "channel 3: open failed: connect failed: Name or service not known\r\n"
    )
    assert found.failure_since(0) == "Name or service not known"
    assert found.failure_since(found.mark()) == ""


def test_a_host_that_forwards_nothing_is_not_asked_again() -> None:
    found = _forwarding("channel 2: open failed: administratively prohibited: open failed\r\n")
    with pytest.raises(UserError) as error:
        found.failure_since(0)
    (finding,) = error.value.findings
    assert finding.id == "no-forwarding"
    said = "azureuser@10.40.0.4 does not forward connections ("
    assert finding.message.startswith(said)
    assert "AllowTcpForwarding" in finding.hint


def test_a_port_that_is_not_forwarded_is_named() -> None:
    class Refusing(_Ssh):
        socket = None

        def run_with_retry(self, *_: object, **__: object) -> Ended:
            return Ended(255, b"", "mux_client_forward: forwarding request failed\n")

    there = Forwarding(cast("Any", Refusing()), 1.0)
    with pytest.raises(UserError) as error:
        there.open("lab.blob.core.windows.net", 443)
    there.close()
    (finding,) = error.value.findings
    assert finding.message == (
        "azureuser@10.40.0.4 forwards nothing to lab.blob.core.windows.net: "
        "mux_client_forward: forwarding request failed"
    )
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
def test_a_name_with_a_private_address_is_connected_to_straight(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str] | None, near: bool
) -> None:
    known = {} if addresses is None else {"lab.blob.core.windows.net": addresses}
    monkeypatch.setattr(sdk.socket, "getaddrinfo", _resolver(known))
    assert sdk._is_near("lab.blob.core.windows.net") is near


def test_a_gateway_that_is_not_there_now_is_not_used() -> None:
    """A cluster's host has no address while Azure lacks the capacity for it."""
    record = {
        "name": "box",
        "engine": "ssh",
        "nodes": {"min": 1, "max": 1},
        "ssh": {"host": "", "user": "azureuser", "shared": "/data"},
        "gateway": {"host": "", "user": "azureuser"},
    }
    target = Target.model_validate(record)
    adapter = sdk.adapter_for(target, "https://lab.invalid", 1.0)
    assert type(adapter).__name__ == "HTTPAdapter"
