"""Secrets of the environment's vault for users' jobs on Slurm, each for the users that it names."""

import json
import logging
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from serving import in_thread
from vaults import FakeVault

from fairway_agent import access
from fairway_boot.files import AgentError
from fairway_boot.identity import KeyVault, Secret
from fairway_boot.slurm import people
from fairway_boot.slurm.people import SecretDenied, secret_for, secret_server

PEOPLE = {30_001: "ada", 30_002: "bob"}
SECRETS = {
    "hers": Secret("for ada's eyes", {"fairway-users": "ada"}),
    "both": Secret("for two", {"fairway-users": "ada, bob"}),
    "all": Secret("for everybody", {"fairway-users": "*"}),
    "none": Secret("for nobody", {}),
    "like": Secret("for adam", {"fairway-users": "adam,*bob"}),
    "long": Secret("\x01" * 25_000, {"fairway-users": "*"}),
}


@pytest.mark.parametrize("name", ["", "../munge-key", "a/b", "a?x=1", "a b", "x" * 128, "é"])
def test_people_secret_with_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(SecretDenied, match="not the name of a secret"):
        secret_for("ada", name, FakeVault(SECRETS))


def serving(path: Path) -> AbstractContextManager[None]:
    return in_thread(secret_server(path, FakeVault(SECRETS), PEOPLE.__getitem__))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields the socket of the service."""
    path = tmp_path / "socket"
    with serving(path):
        monkeypatch.setattr(access, "_SERVICE", path)
        yield path


def _be(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """Makes the kernel and this process report another user."""
    monkeypatch.setattr(os, "getuid", lambda: uid)
    packed = struct.pack("3i", os.getpid(), uid, uid)
    monkeypatch.setattr(people, "_credentials", lambda _: packed)


def test_people_secrets_of_its_user_are_given_to_a_job(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be(monkeypatch, 30_001)
    sources = {"A": "keyvault:hers", "B": "keyvault:both", "C": "keyvault:long"}
    found = access.secret_values(sources, "https://lab.vault.azure.net/")
    assert found == {"A": "for ada's eyes", "B": "for two", "C": "\x01" * 25_000}
    _be(monkeypatch, 30_002)
    sources = {"B": "keyvault:both", "D": "keyvault:all"}
    found = access.secret_values(sources, "https://lab.vault.azure.net/")
    assert found == {"B": "for two", "D": "for everybody"}


@pytest.mark.parametrize(
    ("uid", "name", "said"),
    [
        (30_002, "hers", "it is not for bob: its tag `fairway-users`"),
        (30_001, "none", "it is not for ada"),
        *((uid, "like", f"it is not for {person}") for uid, person in PEOPLE.items()),
        (30_001, "missing", "missing is not there"),
        (30_009, "all", "30009"),
    ],
)
def test_people_secret_of_another_user_is_refused_with_the_reason(
    service: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    uid: int,
    name: str,
    said: str,
) -> None:
    _be(monkeypatch, uid)
    caplog.set_level(logging.INFO)
    with pytest.raises(AgentError, match=f"the secret {name} in https://lab") as fault:
        access.secret_values({"A": f"keyvault:{name}"}, "https://lab.vault.azure.net/")
    assert said in str(fault.value)
    told = caplog.text + str(fault.value)
    assert not any(secret.value in told for secret in SECRETS.values())


_ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as service:
    service.connect(sys.argv[1])
    service.sendall(b"hers\\n")
    print(service.makefile().readline(), end="")
"""


def test_people_secrets_service_identifies_the_user_by_the_kernel() -> None:
    """Nothing else identifies the user: a request contains only the name of a secret."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert python, "one that everybody may run"
    with TemporaryDirectory(prefix="fairway-secrets-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with serving(folder / "socket"):
            words = [python, "-I", "-S", "-c", _ASK, str(folder / "socket")]
            said = {
                uid: json.loads(
                    subprocess.run(
                        words, user=uid, group=uid, capture_output=True, check=True, cwd="/"
                    ).stdout
                )
                for uid in PEOPLE
            }
    assert said[30_001] == {"value": "for ada's eyes"}
    assert set(said[30_002]) == {"error"}


def test_people_secrets_of_the_login_user_are_read_from_key_vault(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As are those of root."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(KeyVault, "read", lambda _, name: f"{name} of the vault")
    assert access.secret_values({"A": "keyvault:none"}, "https://v") == {"A": "none of the vault"}


@pytest.mark.parametrize("answer", [b"", b"{", b"[]\n", b'{"value": 1}\n', b'{"error": 1}\n'])
def test_people_secrets_damaged_answer_gives_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setattr(access, "_SERVICE", path)
        monkeypatch.setattr(os, "getuid", lambda: 30_001)
        with pytest.raises(AgentError, match="the secret all in https://v cannot be read"):
            access.secret_values({"A": "keyvault:all"}, "https://v")
        thread.join()
