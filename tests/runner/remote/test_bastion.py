"""Program between ssh and `az network bastion tunnel`: its messages, and the end of az."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endings import ends
from programs import finished
from running import RunFairway
from waiting import PATIENCE, until

from fairway_runner.engines.remote import bastion as program
from fairway_simulator.ssh.bastion import Bastion

pytestmark = pytest.mark.integration

ADDRESS = "10.231.77.4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the test's temporary folder the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bastion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bastion:
    """The stand-in, whose `az` comes first on PATH."""
    bastion = Bastion(tmp_path / "bastion")
    monkeypatch.setenv("PATH", f"{bastion.programs}:{os.environ['PATH']}")
    return bastion


@pytest.fixture
def echo(bastion: Bastion) -> Iterator[None]:
    """A host behind the Bastion that greets, and echoes everything that it receives."""

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=_echo, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        bastion.leads_to(ADDRESS, "127.0.0.1", server.getsockname()[1])
        threading.Thread(target=serve, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


def _echo(client: socket.socket) -> None:
    with client:
        client.sendall(b"hello\n")
        while data := client.recv(65536):
            client.sendall(data)


def _start(bastion: Bastion, **options: Any) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", program.__file__, bastion.id, ADDRESS, "22"]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, **options)


def _is_over(bastion: Bastion) -> bool:
    """Returns True if no az of this test runs, and none was killed with its session open."""
    listed = finished(["ps", "-eo", "args"], check=True)
    return str(bastion.folder) not in listed.stdout and not bastion.sessions


def test_bastion_tunnel_passes_all_bytes_both_ways(bastion: Bastion, echo: None) -> None:
    much = os.urandom(3_000_000)
    with _start(bastion) as process:
        assert process.stdout.readline() == b"hello\n"
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(process.stdout.read(len(much))))  # type: ignore[union-attr]
        reader.start()
        process.stdin.write(much)
        process.stdin.flush()
        reader.join(PATIENCE)
        assert said == [much]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""
    (words,) = bastion.calls
    assert words[words.index("--target-ip-address") + 1] == ADDRESS
    until(lambda: _is_over(bastion))


@pytest.mark.parametrize("is_ignored", [False, True], ids=["", "ctrl-c-ignored"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_bastion_tunnel_ended_by_a_signal_interrupts_az(
    bastion: Bastion, echo: None, number: signal.Signals, is_ignored: bool
) -> None:
    """az must get SIGINT, since its session stays open at the service otherwise; also if a shell
    has started ssh in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_ignored else None
    started = _start(bastion)
    if before is not None:
        signal.signal(signal.SIGINT, before)
    with started as process:
        assert process.stdout.readline() == b"hello\n"
        assert bastion.sessions
        process.send_signal(number)
        process.wait(PATIENCE)
        until(lambda: _is_over(bastion))


def test_bastion_tunnel_ignores_ctrl_c(bastion: Bastion, echo: None) -> None:
    """A terminal signals all its processes, and a master connection must keep its tunnel."""
    with _start(bastion) as process:
        assert process.stdout.readline() == b"hello\n"
        assert os.getsid(process.pid) == process.pid, "it has no terminal"
        process.send_signal(signal.SIGINT)
        process.stdin.write(b"more\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"more\n"


def test_bastion_tunnel_ends_if_ssh_has_ended_before_az_listens(
    bastion: Bastion, echo: None
) -> None:
    with _start(bastion) as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert (out, err) == (b"", b"")
    until(lambda: _is_over(bastion))


ANOTHER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/bastionHosts/b"


@pytest.mark.parametrize(
    ("changes", "code", "message", "hint"),
    [
        (
            {"extensions": ()},
            4,
            "lacks its extension `bastion` [missing-tool]",
            "az extension add --name bastion",
        ),
        ({"signed_in": False}, 5, "is not signed in [not-signed-in]", "az login"),
        (
            {"id": ANOTHER},
            5,
            "you have no access to a Bastion lab-bas [no-bastion]",
            "fairway targets sync",
        ),
        ({"reader": False}, 5, "you may not use the Bastion lab-bas [forbidden]", "access.admins"),
        ({"addresses": False}, 5, "no tunnels to addresses [no-tunnels]", "IP-based connection"),
        (
            {},
            5,
            "no such address in the network [no-connection]",
            "by hand: az network bastion tunnel --subscription 1111",
        ),
    ],
)
def test_bastion_tunnel_failure_has_a_reason_and_a_hint(
    bastion: Bastion, changes: dict[str, Any], code: int, message: str, hint: str
) -> None:
    """Both are on the program's standard error, for plain ssh too."""
    wanted = bastion.id
    for field, value in changes.items():
        setattr(bastion, field, value)
    bastion.write()
    bastion.id = wanted
    with _start(bastion) as process:
        said = process.stderr.read().decode()
        process.stdin.close()
        assert process.wait(PATIENCE) == code
    assert message in said
    assert hint in said


def _target(**fields: Any) -> None:
    """Writes a project file with a target into the current folder."""
    record = {
        "name": "box",
        "engine": "ssh",
        "nodes": {"min": 1, "max": 1},
        "ssh": {"host": ADDRESS, "user": "azureuser", "shared": "/home/azureuser/fairway"},
        **fields,
    }
    Path("fairway.yaml").write_text(json.dumps({"targets": [record]}))


def test_bastion_tunnel_failure_is_reported_by_a_command_without_retry(
    bastion: Bastion, fairway: RunFairway
) -> None:
    bastion.extensions = ()
    bastion.write()
    _target(ssh_route={"bastion": bastion.id})
    ended, _, said = fairway(Path(), "nodes", "list", "box")
    assert ended == 4
    assert f"azureuser@{ADDRESS} cannot be reached: the Azure CLI " in said
    assert "az extension add --name bastion" in said
    assert len(bastion.calls) == 1, "and it is not tried again"


def test_bastion_without_az_hints_at_what_to_install(
    fairway: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").symlink_to(str(shutil.which("ssh")))
    monkeypatch.setenv("PATH", str(programs))
    _target(ssh_route={"bastion": Bastion(tmp_path / "bastion").id})
    done = fairway(Path(), "nodes", "list", "box")
    ends(done, 4, "`az` is not on this machine's PATH", "az extension add --name bastion; az login")


def test_private_address_that_does_not_answer_is_reported_with_ways_to_reach_it(
    fairway: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config := tmp_path / "config").write_text("Host *\n    ProxyCommand false\n")
    monkeypatch.setenv("FAIRWAY_SSH_CONFIG", str(config))
    _target()
    code, _, said = fairway(Path(), "nodes", "list", "box")
    assert code == 5
    for part in (f"{ADDRESS} is a private address", "`access.ssh_route`", "fairway targets sync"):
        assert part in said
    _target(ssh={"host": "host.invalid", "user": "me", "shared": "/x"})
    assert "private address" not in fairway(Path(), "nodes", "list", "box")[2]


def test_ssh_config_block_has_the_address_user_and_jump_hosts(
    bastion: Bastion, fairway: RunFairway
) -> None:
    """The block is read by OpenSSH itself."""
    _target(ssh_route={"jump": ["me@gate.contoso.com:2222", "second"]})
    code, block, said = fairway(Path(), "ssh-config", "box")
    assert code == 0, said
    Path("config").write_text(block)
    query = ["ssh", "-G", "-F", "config", "box"]
    read = finished(query, check=True).stdout
    assert f"hostname {ADDRESS}\n" in read
    assert "user azureuser\n" in read
    assert "proxyjump me@gate.contoso.com:2222,second\n" in read


def test_ssh_config_block_has_what_ssh_knows_of_an_alias(
    bastion: Bastion, fairway: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(f"""
Host alias
    HostName {ADDRESS}
    Port 22022
    IdentityFile "/a \\"key\\""
    IdentityFile /b
    UserKnownHostsFile "/of me/known" /c
    ProxyJump gate
    SetEnv A="b c"
Host *
    ForwardAgent yes
""")
    monkeypatch.setenv("FAIRWAY_SSH_CONFIG", str(config))
    _target(ssh={"host": "alias", "user": "me", "shared": "/x"})
    code, block, said = fairway(Path(), "ssh-config", "box")
    assert code == 0, said
    Path("block").write_text(block)

    def read(*words: str | Path) -> set[str]:
        return {*finished(["ssh", "-G", "-F", *words], check=True).stdout.splitlines()}

    wanted = read(config, "-l", "me", "alias")
    assert wanted - read("block", "box") == {
        "host alias",
        "forwardagent yes",
        "serveraliveinterval 0",
        "setenv A=b c",
    }


def test_ssh_config_of_a_local_target_is_refused(fairway: RunFairway) -> None:
    done = fairway(Path(), "ssh-config", "local")
    ends(done, 2, "`local` is not reached by ssh: its engine is `local`")
