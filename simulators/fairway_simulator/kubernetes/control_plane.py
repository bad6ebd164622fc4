"""A command with a real Kubernetes control plane and the stand-in's nodes.

`python -m fairway_simulator.kubernetes.control_plane DIR COMMAND…` starts etcd, kube-apiserver,
kube-controller-manager and kube-scheduler (1.36 or newer) from the folder DIR on loopback, and runs
the command with FAIRWAY_KUBECONFIG. It ends with the command, and with its exit code.
"""

from __future__ import annotations

import os
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import trustme

from fairway_agent.fanout.launchers import free_port
from fairway_simulator.command import write_private
from fairway_simulator.kubernetes.client import Client, ErrorResponse
from fairway_simulator.kubernetes.cluster import CONTEXT, default_nodes, kubeconfig_text
from fairway_simulator.kubernetes.kubelet.host import network
from fairway_simulator.kubernetes.kubelet.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Flags = dict[str, str | int | Path]

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_PATIENCE = 300.0  # seconds; only a hang takes that long

# The stand-in's nodes send no heartbeats, and no cloud manages them.
_CONTROLLERS = "*,-node-lifecycle-controller,-node-ipam-controller,-taint-eviction-controller"


def main() -> int:
    if len(sys.argv) < 3:
        sys.stderr.write(f"usage: {Path(sys.argv[0]).name} DIR COMMAND…\n")
        return 2
    programs = Path(sys.argv[1]).resolve()
    if lacking := [name for name in PROGRAMS if not os.access(programs / name, os.X_OK)]:
        sys.stderr.write(f"control-plane: {programs} has no {', '.join(lacking)}\n")
        return 4
    # SIGTERM too ends this program by an exception, and with it all that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="control-plane-") as folder, ExitStack() as running:
        config = _start(programs, Path(folder), running)
        variables = {**os.environ, "FAIRWAY_KUBECONFIG": str(config)}
        return subprocess.run(sys.argv[2:], env=variables, check=False).returncode


def _start(programs: Path, folder: Path, running: ExitStack) -> Path:
    """Starts the programs and three nodes. Returns the kubeconfig of an administrator."""

    def start(name: str, flags: _Flags) -> None:
        words = [f"--{flag.replace('_', '-')}={value}" for flag, value in flags.items()]
        running.enter_context(_Program(programs / name, words, folder / f"{name}.log"))

    first = free_port(3)
    config = _write_credentials(folder, first + 2)
    start("etcd", _store_flags(folder, first))
    start("kube-apiserver", _api_flags(folder, first))
    client = Client.of_kubeconfig(config)
    _wait_for(client)
    start("kube-controller-manager", _controller_flags(folder, config))
    start("kube-scheduler", {"kubeconfig": config, "leader_elect": "false", "secure_port": 0})
    kubelet = _kubelet(client, folder)
    kubelet.start()
    running.callback(kubelet.stop)
    return config


def _write_credentials(folder: Path, port: int) -> Path:
    """Writes the certificate of all servers and the administrator's token. Returns the
    administrator's kubeconfig."""
    authority = trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1", "kubernetes.default.svc")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own.cert_chain_pems[0].write_to_path(folder / "server.pem")
    own.private_key_pem.write_to_path(folder / "server.key")
    token = secrets.token_urlsafe(32)
    write_private(folder / "tokens.csv", f"{token},admin,admin,system:masters\n")
    config, url = folder / "kubeconfig", f"https://127.0.0.1:{port}"
    write_private(config, kubeconfig_text(CONTEXT, url, folder / "ca.pem", token, "default"))
    return config


def _store_flags(folder: Path, port: int) -> _Flags:
    clients, peers = (f"http://127.0.0.1:{port + more}" for more in (0, 1))
    return {
        "data_dir": folder / "etcd",
        "listen_client_urls": clients,
        "advertise_client_urls": clients,
        "listen_peer_urls": peers,
        "initial_advertise_peer_urls": peers,
        "initial_cluster": f"default={peers}",
        "unsafe_no_fsync": "true",
    }


def _api_flags(folder: Path, port: int) -> _Flags:
    key, certificate = folder / "server.key", folder / "server.pem"
    return {
        "etcd_servers": f"http://127.0.0.1:{port}",
        "bind_address": "127.0.0.1",
        "secure_port": port + 2,
        "tls_cert_file": certificate,
        "tls_private_key_file": key,
        "kubelet_certificate_authority": folder / "ca.pem",
        "kubelet_client_certificate": certificate,
        "kubelet_client_key": key,
        "kubelet_preferred_address_types": "InternalIP",
        "service_account_issuer": "https://kubernetes.default.svc",
        "service_account_key_file": certificate,
        "service_account_signing_key_file": key,
        "service_cluster_ip_range": "10.0.0.0/24",
        "token_auth_file": folder / "tokens.csv",
        "authorization_mode": "Node,RBAC",
        "allow_privileged": "true",
        "endpoint_reconciler_type": "none",
    }


def _controller_flags(folder: Path, config: Path) -> _Flags:
    return {
        "kubeconfig": config,
        "controllers": _CONTROLLERS,
        "leader_elect": "false",
        "use_service_account_credentials": "true",
        "service_account_private_key_file": folder / "server.key",
        "root_ca_file": folder / "ca.pem",
        "secure_port": 0,
    }


def _kubelet(client: Client, folder: Path) -> Kubelet:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    tls.verify_mode = ssl.CERT_REQUIRED
    nodes, between = default_nodes(3), network(private=False)
    return Kubelet(client, folder / "nodes", nodes, between, tls=tls)


def _wait_for(client: Client) -> None:
    """Waits until the API server has created its own objects."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            client.get("/api/v1/namespaces/kube-system")
            return
        except ErrorResponse:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


class _Program:
    def __init__(self, program: Path, words: Sequence[str], log: Path) -> None:
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [program, *words], stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        self._log.close()


if __name__ == "__main__":
    sys.exit(main())
