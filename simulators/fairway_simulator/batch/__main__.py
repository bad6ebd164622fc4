"""`python -m fairway_simulator.batch`: an Azure Batch account on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the port is taken, 4 Azurite is
missing, 5 the account does not start.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.fanout import sshd_mesh
from fairway_simulator.batch import BatchSimulator, orders
from fairway_simulator.batch.agent import layout
from fairway_simulator.batch.agent.supervisor_client import namespaces
from fairway_simulator.batch.azurite import AzuriteMissing
from fairway_simulator.batch.simulator import DEFAULT_POOL
from fairway_simulator.command import (
    folder,
    interrupted,
    make_own,
    number,
    published,
    write_private,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

PORT = 10100
"""The default port of clients."""
# The path in the repository's fairway.yaml.
DATA = Path("/tmp/fairway-batch-sim/data")  # noqa: S108 - refused unless this user owns it


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in orders.ACTIONS:
        return orders.order(sys.argv[1:])
    options = _options()
    return orders.COMMAND.run(options, lambda ready: _serve(options, ready), "source FILE")


def _serve(options: argparse.Namespace, ready: Callable[[], None]) -> int:
    """Runs the account until a signal ends it; calls `ready` once it accepts requests."""
    wait = interrupted()
    if not _make_data():
        return orders.COMMAND.say(f"{DATA.parent} is not a folder of your own; remove it first", 2)
    with tempfile.TemporaryDirectory(prefix="batch-simulator-") as own:
        state = options.state or Path(own)
        service = BatchSimulator(
            state,
            nodes=options.nodes,
            vm_size=options.vm_size,
            port=options.port,
            key=_key(state),
            storage=True,
            shared_network=options.shared_network,
            mounts=[DATA],
        )
        try:
            service.start()
        except AzuriteMissing as missing:
            return orders.COMMAND.say(f"Azurite is not installed; type: {missing}", 4)
        except RuntimeError as error:
            return orders.COMMAND.say(str(error), 5)
        except OSError as error:
            return orders.COMMAND.not_started(error, options.port)
        try:
            with published(service.environment(), options.env, orders.COMMAND.process):
                _say_ready(service)
                ready()
                wait()
        finally:
            service.stop()
    return 0


def _options() -> argparse.Namespace:
    parser = orders.COMMAND.parser(
        "An Azure Batch account on this machine, with Azurite beside it for storage. "
        "Its pool is `sim`. It runs until interrupted, and prints the variables to set.",
        "While it runs: bin/batch-simulator preempt|lose|restore NODE acts on a node, and "
        "bin/batch-simulator fault KIND makes requests fail.",
    )
    parser.add_argument("--nodes", type=number(0, 100), default=4, help="nodes of the pool (4)")
    parser.add_argument(
        "--port", type=number(0, 65535), default=PORT, help=f"port on 127.0.0.1 ({PORT}; 0: any)"
    )
    parser.add_argument(
        "--shared-network",
        action="store_true",
        help="let nodes use this machine's network, with its internet access",
    )
    parser.add_argument(
        "--state",
        type=folder,
        metavar="DIR",
        help="folder for storage, the shared folder and the key",
    )
    parser.add_argument(
        "--vm-size", default="Standard_D4s_v6", help="the VM size of the nodes (Standard_D4s_v6)"
    )
    return parser.parse_args()


def _make_data() -> bool:
    """Makes the folder that nodes and this machine share. Returns False if another user owns it."""
    if not make_own(DATA.parent):
        return False
    DATA.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        # Tasks run as another user.
        DATA.parent.chmod(0o711)
        DATA.chmod(layout.OPEN)
    return True


def _key(state: Path) -> str:
    """Returns the account's key: kept with the state, or new each time without `--state`."""
    file = state / "account-key"
    if not file.exists():
        write_private(file, base64.b64encode(secrets.token_bytes(64)).decode())
    return file.read_text()


def _say_ready(service: BatchSimulator) -> None:
    sys.stderr.write(f"ready: {service.endpoint}, pool {DEFAULT_POOL}\n")
    if sshd_mesh.program() is None:
        sys.stderr.write(
            "note: no sshd, so that jobs of several nodes do not start; on Debian: "
            "sudo apt-get install --no-install-recommends openssh-server\n"
        )
    if not namespaces():
        sys.stderr.write("note: no right to make namespaces; all nodes share one host name\n")
    if service.nodes_share_network:
        sys.stderr.write("note: nodes share this machine's network: its ports and addresses\n")
    else:
        sys.stderr.write(
            "note: nodes have a network of their own, which leads to this account and its storage "
            "alone; with the internet: --shared-network\n"
        )


if __name__ == "__main__":
    sys.exit(main())
