"""Storage and Batch in a private network, reached through its Bastion and a host in the network,
whose network namespace alone has the services' names and ports. Needs root."""

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from batch_service import Batch
from waiting import PATIENCE

from fairway_runner.engines import azure_sdk
from fairway_runner.engines.azure_storage import Storage
from fairway_runner.targets.lookup import find_target
from fairway_simulator.batch import StorageAccess
from fairway_simulator.sockets import Relay, within
from fairway_simulator.ssh.bastion import Bastion
from fairway_simulator.ssh.cluster import SshCluster, missing
from fairway_simulator.ssh.host import Host

ADDRESS = "10.231.77.5"
NAME = "storage-of-the-lab"


@dataclass
class Inside:
    """A private network, with its host and the Bastion that leads to it."""

    host: Host
    bastion: Bastion
    hosts_file: Path
    _relays: list[Relay] = field(default_factory=list)

    @property
    def way(self) -> dict[str, Any]:
        """The fields of a target that is reached through the Bastion and the host."""
        gateway = {"host": ADDRESS, "user": "root"}
        return {"ssh_route": {"bastion": self.bastion.id}, "gateway": gateway}

    def name(self, name: str) -> None:
        """Makes a name resolve to the services, on the host only."""
        with self.hosts_file.open("a") as hosts:
            hosts.write(f"127.0.0.1 {name}\n")

    def serve(self, port: int) -> None:
        """Forwards a port of the host to the same port of this machine."""
        descriptor = os.open(f"/proc/{self.host.pids()[0]}/ns/net", os.O_RDONLY)
        listener = within(descriptor, partial(socket.create_server, ("127.0.0.1", port)))
        os.close(descriptor)
        reach = partial(socket.create_connection, ("127.0.0.1", port))
        self._relays.append(Relay(listener, reach))

    @property
    def used(self) -> dict[int, int]:
        """Number of connections to each forwarded port."""
        return {relay.port: relay.used for relay in self._relays}

    def close(self) -> None:
        """Ends the forwarding, once the host has stopped."""
        for relay in self._relays:
            relay.close()
            assert relay.join(PATIENCE)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    lacking = missing() or ("" if shutil.which("ip") else "no ip (Debian: iproute2)")
    if lacking:
        pytest.skip(lacking)
    with SshCluster(tmp_path / "cluster", ["n1"], private=ADDRESS) as cluster:
        bastion = Bastion(tmp_path / "bastion")
        bastion.lets_in(cluster.hosts["n1"])
        monkeypatch.setenv("PATH", f"{bastion.programs}:{os.environ['PATH']}")
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        inside = Inside(cluster.hosts["n1"], bastion, cluster.folder / "hosts")
        yield inside
    inside.close()


def _port(url: str) -> int:
    return urlsplit(url).port


def test_batch_gateway_transfers_data_by_names_that_only_its_host_resolves(
    fairway: Any,
    inside: Inside,
    storage: StorageAccess,
    make_batch: Callable[..., Batch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = _port(storage.url)
    inside.name(NAME)
    inside.serve(port)
    named = storage.connection_string.replace("127.0.0.1", NAME)
    assert named != storage.connection_string
    batch = make_batch(nodes=0)
    batch.target(**inside.way)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", named)
    (fairway.folder / "a").write_text("alpha")
    fairway.ok("data", "put", "a", "batch-sim:datasets/gateway/")
    fairway.ok("data", "get", "batch-sim:datasets/gateway/a", "back")
    assert (fairway.folder / "back" / "a").read_text() == "alpha"
    assert inside.used[port] >= 2
    assert len(inside.bastion.calls) == 2  # one connection per command
    batch.target()  # without a gateway the services cannot be reached
    words = ("data", "get", "batch-sim:datasets/gateway/", "nothing", "--deadline", "1s")
    fairway.refused(*words, says=NAME, code=5)
    assert not (fairway.folder / "nothing").exists()


@pytest.mark.nightly
def test_batch_gateway_lets_a_job_be_submitted_followed_and_fetched(
    inside: Inside,
    storage: StorageAccess,
    make_batch: Callable[..., Batch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = make_batch(nodes=1)
    batch.target(**inside.way)
    # The services' loopback addresses are never reached through a gateway otherwise.
    monkeypatch.setattr(azure_sdk, "_is_near", lambda _: False)
    ports = [_port(os.environ["AZURE_BATCH_ENDPOINT"]), _port(storage.url)]
    for port in ports:
        inside.serve(port)
    job = batch.fairway.job(
        'echo hello; echo 42 >"$FAIRWAY_OUTPUT_WORD/w"', template="plain", outputs={"word": {}}
    )
    code, said = batch.watch(job)
    assert code == 0, said
    assert "hello" in said
    (run,) = batch.runs()
    batch.ok("fetch", run)
    assert (batch.fairway.folder / run / "0" / "word" / "w").read_text() == "42\n"
    assert all(inside.used[port] for port in ports)
    assert len(inside.bastion.calls) == 2, "one for each command"


@pytest.mark.nightly
def test_batch_gateway_reconnects_after_its_tunnel_was_killed(
    inside: Inside,
    storage: StorageAccess,
    make_batch: Callable[..., Batch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside.name(NAME)
    inside.serve(_port(storage.url))
    make_batch(nodes=0).target(**inside.way)
    named = storage.connection_string.replace("127.0.0.1", NAME)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", named)
    monkeypatch.chdir(inside.bastion.folder.parent)
    account = Storage(find_target("batch-sim"), PATIENCE)
    assert not account.exists("datasets", "nothing")
    (session,) = inside.bastion.sessions
    os.kill(int(session), signal.SIGKILL)
    assert not account.exists("datasets", "nothing")
    assert len(inside.bastion.calls) == 2


@pytest.mark.nightly
def test_batch_gateway_reports_host_and_reason_of_a_refused_connection(
    fairway: Any, inside: Inside, make_batch: Callable[..., Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.name(NAME)
    make_batch(nodes=0).target(**inside.way)
    text = f"AccountName=lab;AccountKey=bGFi;BlobEndpoint=http://{NAME}:9/lab"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    said = fairway.within("data", "ls", "batch-sim:datasets", "--deadline", "1s")
    assert said.returncode == 5, said.stderr
    assert f"root@{ADDRESS} cannot connect to it: Connection refused" in " ".join(
        said.stderr.split()
    )
