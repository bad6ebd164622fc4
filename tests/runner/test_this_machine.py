"""Which targets lead to this machine, as an account that may read what we can."""

from __future__ import annotations

import getpass
import pwd
import socket
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.target import Target
from fairway_runner.targets.lookup import uses_this_machine

if TYPE_CHECKING:
    from pathlib import Path

OWN = getpass.getuser()
OTHER = next(each.pw_name for each in pwd.getpwall() if each.pw_name not in (OWN, "root"))


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host near\n  HostName 127.0.0.2\n"
        f"Host other\n  HostName localhost\n  User {OTHER}\n"
        f"Host mine\n  User {OWN}\n  HostName ::1\n"
        "Host away\n  HostName 192.0.2.1\n"
    )
    monkeypatch.setenv("FAIRWAY_SSH_CONFIG", str(file))


def target(host: str, user: str = OWN, **more: Any) -> Target:
    access = {"host": host, "user": user, "shared": "/s"}
    nodes = {"min": 1, "max": 1}
    return Target.model_validate(
        {"name": "a", "engine": "ssh", "nodes": nodes, "ssh": access, **more}
    )


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "127.1", "0x7f000001", "2130706433"),
        *("0.0.0.0", "::ffff:127.0.0.1", socket.gethostname(), "near"),
    ],
)
def test_host_that_is_this_machine_by_any_name_uses_it(host: str) -> None:
    assert uses_this_machine(target(host))
    assert uses_this_machine(target(host, "root"))


@pytest.mark.parametrize("host", ["192.0.2.1", "away", "no-such-host.invalid", "near.invalid"])
def test_another_host_does_not_use_this_machine(host: str) -> None:
    assert not uses_this_machine(target(host))


def test_account_on_this_machine_is_the_targets_or_that_of_the_configuration() -> None:
    """But `localhost` is used without ssh, as ourselves."""
    assert not uses_this_machine(target("127.0.0.1", OTHER))
    assert uses_this_machine(target("127.0.0.1", "no-such-account"))
    assert uses_this_machine(target("localhost", OTHER))
    assert not uses_this_machine(target("other", ""))
    assert uses_this_machine(target("near", ""))


def test_other_hosts_jumps_and_engines_lead_to_this_machine() -> None:
    access = {"host": "192.0.2.1", "user": OWN, "shared": "/s"}
    assert uses_this_machine(target("192.0.2.1", ssh={**access, "others": ["127.0.0.1"]}))
    slurm = {**access, "partition": "p", "hosts": ["192.0.2.1", "127.0.0.1"]}
    assert uses_this_machine(target("", engine="slurm", ssh=None, slurm=slurm))
    assert not uses_this_machine(target("127.0.0.1", reach={"jump": ["gate"]}))
    assert uses_this_machine(Target.local())
    batch = {"name": "a", "engine": "batch", "nodes": {"min": 1, "max": 1}, "batch": {"pool": "p"}}
    assert not uses_this_machine(Target.model_validate(batch))
