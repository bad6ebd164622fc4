"""Connections between the nodes of one task: an sshd of the task's own on each of them.

It needs no privilege and no open port outside the nodes' subnet, and lives as long as the task. All
nodes have the run's key pair, which is also the servers' host key, so that both sides know each
other without asking.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from fairway_agent import processes
from fairway_agent.fanout import remote_exec
from fairway_agent.processes import NESTED
from fairway_agent.task_logs import say

# Below Linux's ports for outgoing connections, and excluding Batch's own port.
_FIRST_PORT, _PORTS, _STEP, _CANDIDATES = 20_000, 10_000, 97, 16
_PATIENCE = 60.0  # seconds until a node of the task must be reachable
SERVICE = "_FAIRWAY_SERVICE"
"""The variable that marks what serves a task on its nodes and is none of its programs."""

_ALIAS = "fairway"  # name of every host in known_hosts

KEYS_ALONE = """\
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
X11Forwarding no
PrintMotd no
"""
"""Settings of every sshd that Fairway starts: it accepts only keys."""

_SERVER = f"""\
Port {{port}}
ListenAddress {{address}}
HostKey "{{folder}}/key"
AuthorizedKeysFile "{{escaped}}/authorized_keys"
{KEYS_ALONE}AllowTcpForwarding no
AllowAgentForwarding no
MaxStartups 1000
MaxSessions 100
LogLevel ERROR
AcceptEnv SHLVL
ForceCommand {{serve}}
"""

_CLIENT = """\
Host *
    User {user}
    IdentityFile "{folder}/key"
    IdentitiesOnly yes
    UserKnownHostsFile "{folder}/known_hosts"
    GlobalKnownHostsFile /dev/null
    HostKeyAlias {alias}
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 10
    ServerAliveInterval 15
    ServerAliveCountMax 4
    SendEnv SHLVL
    LogLevel ERROR
"""


@dataclass(frozen=True)
class SshMesh:
    """One task's servers: its `name`, which no other task on these nodes has; the `folder` on each
    node for keys and configurations; the file of the run's private `key` as it came; and the shell
    command that answers for a node, given the file that describes the node."""

    name: str
    folder: Path
    key: Path
    serve: str

    @property
    def ports(self) -> list[int]:
        """Candidate ports of the task's servers: each listens on the first that is free."""
        start = zlib.crc32(self.name.encode())
        return [_FIRST_PORT + (start + i * _STEP) % _PORTS for i in range(_CANDIDATES)]


def open_node(mesh: SshMesh, address: str, base: Path, code: Path) -> None:
    """Lets the task's other nodes start programs here: in the folder `code`, with this environment,
    and with their sessions noted below `base`. Raises OSError or CalledProcessError."""
    (base / "sessions").mkdir(parents=True, exist_ok=True)
    context = base / "context.json"
    facts = {"environment": dict(os.environ), "code": str(code), "base": str(base)}
    context.touch(mode=0o600)
    context.write_text(json.dumps(facts), encoding="utf-8")
    install_keys(mesh)
    start_server(mesh, address, context)


def install_keys(mesh: SshMesh) -> None:
    """Installs the run's keys for server and client, readable by this user only."""
    folder = mesh.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = folder / "key"
    key.unlink(missing_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(mesh.key.read_bytes())
    words = ["ssh-keygen", "-y", "-f", str(key)]
    public = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    (folder / "authorized_keys").write_text(f"{public}\n", encoding="ascii")
    (folder / "known_hosts").write_text(f"{_ALIAS} {public}\n", encoding="ascii")
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        message = f"the image has no user with the id {os.getuid()}, and ssh wants one"
        raise OSError(f"{message}: add it in the image") from None
    text = _CLIENT.format(user=user, folder=_escaped(folder), alias=_ALIAS)
    (folder / "config").write_text(text, encoding="utf-8")


def _escaped(folder: Path) -> str:
    return str(folder).replace("%", "%%")  # begins a token in most of the settings


def program() -> str | None:
    """Returns the path of this machine's sshd; None if it has none."""
    return shutil.which("sshd", path=f"/usr/sbin:{os.environ.get('PATH', '')}")


def start_server(mesh: SshMesh, address: str, context: Path) -> int:
    """Starts this node's server in the background and returns its port. Raises OSError."""
    sshd = program()
    if sshd is None:
        raise OSError("sshd is not on this node, or not in this image: install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # required by root's sshd
    folder, errors = mesh.folder, ""
    serve = f"{mesh.serve} {shlex.quote(str(context))}"
    facts = {"address": address, "serve": serve, "folder": folder, "escaped": _escaped(folder)}
    file, log = folder / "sshd_config", folder / "sshd.log"
    words = [sshd, "-f", str(file), "-E", str(log)]
    # Hides it from searches for the task's own programs on this node.
    marked = {**os.environ, SERVICE: "1"}
    for port in mesh.ports:
        file.write_text(_SERVER.format(port=port, **facts), encoding="utf-8")
        # It only daemonizes once it listens.
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=marked)
        if done.returncode == 0:
            return port
        errors = log.read_text(errors="replace") + done.stderr.decode()
    raise OSError(f"sshd does not start: {errors.strip()[-500:]}")


def connect(mesh: SshMesh, hosts: Sequence[str]) -> Path:
    """Finds each host's port, and returns a configuration for ssh with them. Raises OSError."""
    folder = mesh.folder
    with ThreadPoolExecutor(min(32, len(hosts))) as pool:
        found = list(pool.map(lambda host: _port_of(mesh, host), hosts))
    text = "".join(
        f"Host {host}\n    Port {port}\n" for host, port in zip(hosts, found, strict=True)
    )
    config = folder / f"config.{os.getpid()}"
    config.write_text(text + (folder / "config").read_text(encoding="utf-8"), encoding="utf-8")
    return config


def _port_of(mesh: SshMesh, host: str) -> int:
    end, config = time.monotonic() + _PATIENCE, str(mesh.folder / "config")
    errors = ""
    while True:
        for port in mesh.ports:
            done = _ask(["ssh", "-F", config, "-p", str(port), host, "true"])
            if done.returncode == 0:
                return port
            errors = done.stderr.decode(errors="replace").strip() or errors
        if time.monotonic() > end:
            raise OSError(f"the node {host} cannot be reached: {errors}")
        time.sleep(0.5)


def _ask(words: Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a client. The shell that its server starts reads no bashrc, which might print something
    that looks like an answer, or take any length of time."""
    null, environment = subprocess.DEVNULL, {**os.environ, **NESTED}
    return subprocess.run(words, stdin=null, capture_output=True, timeout=timeout, env=environment)


def command_all(config: Path, hosts: Sequence[str], command: str) -> dict[str, bytes]:
    """Runs one of `serve`'s own commands on all hosts at once and returns what each printed,
    nothing for one that does not answer within 30 seconds."""

    def ask(host: str) -> bytes:
        try:
            return _ask(["ssh", "-F", str(config), host, command], timeout=30).stdout
        except subprocess.TimeoutExpired:
            say(f"{host} does not answer")
            return b""

    if not hosts:
        return {}
    with ThreadPoolExecutor(min(32, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(ask, hosts), strict=True))


# Variables that belong to one node and must not be copied to another.
_OWN = ("_FAIRWAY_", "AZ_BATCH_", "SSH_", "FAIRWAY_NODE_ADDRESS", "FAIRWAY_METADATA_URL")
_MARK = "_FAIRWAY_STARTED_IN"  # variable of all processes that another node started
_SERVED = "served-"  # prefix of files that record these sessions
_OWN_NAMES = {"HOSTNAME", "HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "SHLVL", "_"}


def serve(context_file: str) -> int:
    """Carries out the other node's request and returns its exit code."""
    context = json.loads(Path(context_file).read_bytes())
    original = os.environ.get("SSH_ORIGINAL_COMMAND", "true")
    os.environ.clear()
    os.environ.update(context["environment"])
    # MPI's daemons look here for the program that replaces ssh.
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{processes.BUNDLE}"
    base = Path(context["base"])
    os.chdir(context["code"])
    match original.split():
        case ["fairway-run", *_]:
            note_session(base, _SERVED)
            return remote_exec.serve_command(_as_here)
        case ["fairway-signal", name, *_]:
            processes.signal_sessions(sessions(base), signal.Signals[f"SIG{name}"])
        case ["fairway-output", name, *_]:
            file = Path(os.environ["AZ_BATCH_TASK_DIR"], name)
            if file.is_file():
                sys.stdout.buffer.write(file.read_bytes())
                sys.stdout.flush()
        case ["fairway-event", kind, *_]:
            (base / "event").write_text(kind, encoding="ascii")
        case _:
            note_session(base)
            os.environ[_MARK] = str(base)
            os.execv("/bin/bash", ["bash", "-c", original])  # noqa: S606
    return 0


def sessions(base: Path) -> set[int]:
    """Returns the sessions that other nodes started here, and those that MPI's daemons create."""
    noted = _noted(base)
    return noted | processes.sessions_with(f"{_MARK}={base}") if noted else noted


def served_sessions(base: Path) -> set[int]:
    """Returns the sessions that serve a command of another node to its end: the programs that it
    starts have sessions of their own, and are signalled over its channel."""
    return _noted(base, _SERVED)


def note_session(base: Path, kind: str = "") -> None:
    """Records this process's session, and when its leader began: a number is used again."""
    (base / "sessions").mkdir(exist_ok=True)
    leader = os.getsid(0)
    (base / "sessions" / f"{kind}{leader}-{processes.start_ticks(leader)}").touch()


def _noted(base: Path, kind: str = "") -> set[int]:
    """Returns the recorded sessions of a kind whose leader is the same, or has ended."""
    found = set()
    for entry in (base / "sessions").glob(f"{kind}[0-9]*"):
        leader, began = map(int, entry.name.removeprefix(kind).split("-"))
        if processes.start_ticks(leader) in (0, began):
            found.add(leader)
    return found


def _as_here(command: remote_exec.Command) -> remote_exec.Command:
    """Adapts a command of another node to this node's own paths and variables."""
    sent = {
        name: value
        for name, value in command.environment.items()
        if not name.startswith(_OWN) and name not in _OWN_NAMES
    }
    folder = command.cwd if Path(command.cwd).is_dir() else str(Path.cwd())
    return replace(command, cwd=folder, environment={**os.environ, **sent})
