"""The way to a node of a pool: a port that the pool maps, or the node's own address."""

import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pool import refused
from targets import target_of

from fairway_core.findings import UserError
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import engine

BASTION = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg"
    "/providers/Microsoft.Network/bastionHosts/b"
)


def account(answer: Any, **fields: Any) -> Any:
    """An account that gives this answer about remote logins."""

    def settings(_pool: str, _node: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(_what: str, operation: Callable[[], Any]) -> Any:
        return operation()

    node = {"id": "tvm-1", "state": "running", "ipAddress": "10.0.2.4"}
    client = SimpleNamespace(
        get_node=lambda _pool, _node: node, get_node_remote_login_settings=settings
    )
    target = target_of("batch", **fields)
    return SimpleNamespace(
        client=client, calls=SimpleNamespace(call=call), target=target, pool="pool"
    )


def test_the_targets_jump_hosts_lead_there() -> None:
    reach = {"jump": ["me@gate.example.com"]}
    host, port, way = engine._address(account(refused(409), reach=reach), "tvm-1")
    words = engine._words(Path("key"), "me", host, port, ["true"], "", way)
    assert "ProxyJump=me@gate.example.com" in words
    assert words[-4:] == ["me", "--", "10.0.2.4", "true"]


def test_a_user_that_nobody_renews_goes_within_the_hour() -> None:
    left = datetime.fromisoformat(engine._access("")["expiryTime"]) - datetime.now(UTC)
    assert timedelta(seconds=2 * engine._RENEWAL) < left <= timedelta(hours=1)


def test_another_failure_is_said() -> None:
    with pytest.raises(ServiceError):
        engine._address(account(refused(403)), "tvm-1")


def test_a_user_who_is_refused_is_not_removed_but_said() -> None:

    def users(status: int) -> Callable[..., None]:
        def refuse(*_: object) -> None:
            raise refused(status)

        return refuse

    mine = account(MAPPED)
    mine.client.create_node_user, mine.client.delete_node_user = users(409), users(403)
    with pytest.raises(ServiceError) as caught:
        engine.shell(mine, "tvm-1", [], forward="")
    assert caught.value.status == 409


MAPPED = {"remoteLoginIPAddress": "203.0.113.7", "remoteLoginPort": 50001}


@pytest.mark.parametrize("answer", [MAPPED, refused(404), refused(409), {}])
def test_way_to_a_node_is_a_port_that_the_pool_maps_or_its_own_address(answer: Any) -> None:
    way = ("203.0.113.7", 50001, {}) if answer is MAPPED else ("10.0.2.4", 22, {})
    assert engine._address(account(answer), "tvm-1") == way


def test_a_bastion_needs_the_azure_cli(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError) as caught:
        engine._address(account(refused(409), reach={"bastion": BASTION}), "tvm-1")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_program_before_the_connection_leaves_no_user_and_no_key(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = account(MAPPED)
    users = []

    def create(_pool: str, _node: str, user: Any) -> None:
        assert list(tmp_path.glob("*/key"))
        assert signal.getsignal(number) != signal.SIG_DFL
        users.append(user["name"])
        signal.raise_signal(number)

    mine.client.create_node_user = create
    mine.client.delete_node_user = lambda _pool, _node, user: users.remove(user)
    with pytest.raises(KeyboardInterrupt):
        engine.shell(mine, "tvm-1", [], forward="")
    assert (users, list(tmp_path.iterdir())) == ([], [])


def test_the_user_of_a_connection_is_renewed_for_as_long_as_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_RENEWAL", 0.01)
    renewed, twice = [], threading.Event()

    def replace(pool: str, node: str, user: str, options: Any) -> None:
        renewed.append((pool, node, user, options["sshPublicKey"]))
        if len(renewed) == 1:
            raise refused(503)  # the next one makes it good
        twice.set()

    there = account({})
    there.client.replace_node_user = replace
    with engine._renewed(there, "tvm-1", "me", "ssh-ed25519 A"):
        assert twice.wait(300)
    assert set(renewed) == {("pool", "tvm-1", "me", "ssh-ed25519 A")}
