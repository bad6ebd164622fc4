"""Address of a pool's node: a port that the pool maps, or the node's own address."""

import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import refused as refused_as
from pool import refused
from targets import target_of

from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import engine

BASTION = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg"
    "/providers/Microsoft.Network/bastionHosts/b"
)


MAPPED = {"remoteLoginIPAddress": "203.0.113.7", "remoteLoginPort": 50001}


def engine_that(answer: Any, **fields: Any) -> Any:
    """Returns an engine whose pool has this answer for the remote login settings."""

    def settings(_pool: str, _node: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(_what: str, operation: Callable[[], Any]) -> Any:
        return operation()

    node = {"id": "tvm-1", "state": "running", "ipAddress": "10.0.2.4"}
    made: Any = engine.BatchEngine(target_of("batch", **fields))
    client = SimpleNamespace(
        get_node=lambda _pool, _node: node, get_node_remote_login_settings=settings
    )
    made.account = SimpleNamespace(client=client, calls=SimpleNamespace(call=call), pool="pool")
    return made


def test_batch_login_goes_through_the_jump_hosts_of_the_target_as_a_user_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user expires within an hour, but after two renewals."""
    mine = engine_that(refused(409), ssh_route={"jump": ["me@gate.example.com"]})
    users: dict[str, Any] = {}
    mine.account.client.create_node_user = lambda _pool, _node, user: users.update(user)
    mine.account.client.delete_node_user = lambda _pool, _node, _user: None
    run: list[str] = []
    monkeypatch.setattr(engine, "run_on_terminal", run.extend)
    mine.shell("tvm-1", ["true"])
    assert "ProxyJump=me@gate.example.com" in run
    assert run[-4:] == [users["name"], "--", "10.0.2.4", "true"]
    left = datetime.fromisoformat(users["expiryTime"]) - datetime.now(UTC)
    assert timedelta(seconds=2 * engine._RENEWAL) < left <= timedelta(hours=1)


def test_batch_login_after_a_lost_answer_uses_and_removes_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, removed = engine_that(MAPPED), Mock()
    mine.account.client.create_node_user = Mock(side_effect=refused(409, "NodeUserExists"))
    mine.account.client.delete_node_user = removed
    monkeypatch.setattr(engine, "run_on_terminal", lambda _: 0)
    assert mine.shell("tvm-1", ["true"]) == 0
    assert removed.call_count == 1


def test_batch_login_reports_why_its_user_was_refused_and_not_the_cleanup() -> None:
    mine = engine_that(MAPPED)
    mine.account.client.create_node_user = Mock(side_effect=refused(409))
    mine.account.client.delete_node_user = Mock(side_effect=refused(403))
    with pytest.raises(ServiceError) as caught:
        mine.shell("tvm-1")
    assert caught.value.status == 409


@pytest.mark.parametrize("answer", [MAPPED, refused(404), refused(409), {}])
def test_batch_login_uses_the_mapped_port_or_the_address_of_the_node(answer: Any) -> None:
    way = ("203.0.113.7", {"Port": "50001"}) if answer is MAPPED else ("10.0.2.4", {})
    assert engine_that(answer)._way_to("tvm-1") == way
    with pytest.raises(ServiceError):
        engine_that(refused(403))._way_to("tvm-1")  # an unexpected error


def test_batch_login_through_a_bastion_without_the_azure_cli_exits_with_4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    mine = engine_that(refused(409), ssh_route={"bastion": BASTION})
    refused_as(lambda: mine._way_to("tvm-1"), code=4)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_batch_login_ended_by_a_signal_removes_its_user_and_key(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = engine_that(MAPPED)
    users = []

    def create(_pool: str, _node: str, user: Any) -> None:
        assert list(tmp_path.glob("*/key"))
        assert signal.getsignal(number) != signal.SIG_DFL
        users.append(user["name"])
        signal.raise_signal(number)

    mine.account.client.create_node_user = create
    mine.account.client.delete_node_user = lambda _pool, _node, user: users.remove(user)
    with pytest.raises(KeyboardInterrupt):
        mine.shell("tvm-1")
    assert (users, list(tmp_path.iterdir())) == ([], [])


def test_batch_login_user_is_renewed_during_the_connection_despite_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_RENEWAL", 0.01)
    renewed, twice = [], threading.Event()

    def replace(pool: str, node: str, user: str, options: Any) -> None:
        renewed.append((pool, node, user, options["sshPublicKey"]))
        if len(renewed) == 1:
            raise refused(503)  # the next renewal succeeds
        twice.set()

    there = engine_that({}).account
    there.client.create_node_user = there.client.delete_node_user = lambda *_: None
    there.client.replace_node_user = replace
    with engine._user(there, "tvm-1", "me", "ssh-ed25519 A"):
        assert twice.wait(300)
    assert set(renewed) == {("pool", "tvm-1", "me", "ssh-ed25519 A")}
