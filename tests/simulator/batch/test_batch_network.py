"""Network namespace of a node: its ports, its address, and the addresses that it reaches."""

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from fairway_simulator.batch import BatchSimulator
from fairway_simulator.batch.agent import isolation


@pytest.fixture
def apart() -> None:
    """Skips the test unless nodes can have their own networks."""
    if not isolation.can_have_networks():
        pytest.skip("needs root and `ip` (Debian: iproute2), for nodes with networks of their own")


def python(program: str) -> str:
    return f"/bin/bash -c {quote(f'exec python3 -c {quote(program)}')}"


@pytest.mark.usefixtures("apart")
def test_batch_node_has_its_own_ports(service: Any, client: Any, job: str) -> None:
    """Three tasks listen on the same port at the same time, each on its node."""
    program = (
        "import os, socket, pathlib, time; s = socket.create_server(('0.0.0.0', 5000));"
        "d = pathlib.Path(os.environ['AZ_BATCH_NODE_MOUNTS_DIR'], 'shared');"
        "(d / os.uname().nodename).touch();"
        "[time.sleep(0.05) for _ in iter(lambda: len(list(d.iterdir())) < 3, False)]"
    )
    for number in range(3):
        client.create_task(job, {"id": str(number), "commandLine": python(program)})
    for number in range(3):
        service.wait_for_task(job, str(number))
        assert client.get_task(job, str(number)).execution_info.exit_code == 0


@pytest.mark.usefixtures("apart")
def test_batch_node_can_bind_only_its_own_address(run: Any, read: Any, client: Any) -> None:
    """A task finds the address itself, without a variable."""
    one, two, _ = (node.ip_address for node in client.list_nodes("sim"))
    program = (
        "import os, socket\n"
        f"for address in ({one!r}, {two!r}):\n"
        "    try: socket.create_server((address, 0))\n"
        "    except OSError as error: print(error.errno)\n"
        "print(os.environ.get('FAIRWAY_NODE_ADDRESS'))"
    )
    task = run(f"exec python3 -c {quote(program)}")
    assert task.execution_info.exit_code == 0
    assert read().splitlines() == [str(errno.EADDRNOTAVAIL), "None"]


@pytest.mark.usefixtures("apart")
def test_batch_nodes_reach_each_other_and_the_account_only(
    service: Any, client: Any, job: str, read: Callable[..., str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        unknown = other.getsockname()[1]
        program = (
            "import os, socket\n"
            "main, _, _ = os.environ['AZ_BATCH_MASTER_NODE'].partition(':')\n"
            "peer = next(h for h in os.environ['AZ_BATCH_HOST_LIST'].split(',') if h != main)\n"
            f"for place in ((peer, 5001), ('127.0.0.1', {service.port}), "
            f"('127.0.0.1', {unknown}), ('192.0.2.1', 80)):\n"
            "    try: socket.create_connection(place, timeout=60).close(); print('yes')\n"
            "    except OSError as error: print(error.strerror)"
        )
        listens = (
            "import os, socket, pathlib, threading\n"
            "d = pathlib.Path(os.environ['AZ_BATCH_TASK_SHARED_DIR'])\n"
            "s = socket.create_server(('', 5001))\n"
            "if os.fork() == 0: threading.Event().wait()"
        )
        settings = {"numberOfInstances": 2, "coordinationCommandLine": python(listens)}
        spec = {"id": "1", "commandLine": python(program), "multiInstanceSettings": settings}
        client.create_task(job, spec)
        service.wait_for_task(job, "1")
    info = client.get_task(job, "1").node_info
    path = f"{info.task_root_directory}/stdout.txt"
    said = b"".join(client.download_node_file("sim", info.node_id, path)).decode().splitlines()
    assert said == ["yes", "yes", "Connection refused", "Network is unreachable"]


@pytest.mark.usefixtures("apart")
def test_batch_node_networks_are_removed_with_the_node(tmp_path: Path) -> None:
    def networks() -> int:
        found = 0
        for path in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the descriptor of this listing is closed by now
                found += path.readlink().name.startswith("net:")
        return found

    before = networks()
    with BatchSimulator(tmp_path, nodes=1) as service:
        with service._core.account.changed:
            (node,) = service._core.account.pool("sim").nodes.values()
        supervisor = service._core.agent.supervise(node, node.generation)
        assert networks() == before + 2, "its own, and that of the wire"
        service._core.agent.dismiss(node, supervisor)
    assert networks() == before


def test_batch_nodes_can_share_the_network_of_this_machine(tmp_path: Path, connect: Any) -> None:
    """They do so if the simulator does not run as root."""
    with BatchSimulator(tmp_path, nodes=1, shared_network=True) as service:
        assert service.nodes_share_network
        client = connect(service)
        client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}})
        with socket.create_server(("127.0.0.1", 0)) as here:
            program = (
                "import os, socket;"
                f"socket.create_connection(('127.0.0.1', {here.getsockname()[1]})).close();"
                "socket.create_server((os.environ['FAIRWAY_NODE_ADDRESS'], 0))"
            )
            client.create_task("j", {"id": "1", "commandLine": python(program)})
            service.wait_for_task("j", "1")
        assert client.get_task("j", "1").execution_info.exit_code == 0
        (node,) = client.list_nodes("sim")
        assert node.ip_address == "127.0.1.1"
