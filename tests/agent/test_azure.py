"""Access by a node's own identity: a registry's token, a page's certificate and secret."""

import base64
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificates
from serving import Handler, serving
from vaults import FakeVault

from fairway_agent import web_secrets
from fairway_agent.access import exchange_token
from fairway_agent.web_secrets import certificate_of, files_of, main
from fairway_boot.http import Failure

SERVER = "lab.azurecr.io"


@dataclass
class Registry:
    """A registry that gives each of its answers, a status and JSON, once."""

    answers: list[tuple[int, object]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def registry() -> Iterator[Registry]:
    known = Registry()

    class Answers(Handler):
        def do_POST(self) -> None:
            known.asked.append((self.path, parse_qs(self.body().decode())))
            status, body = known.answers.pop(0)
            self.answer(json.dumps(body).encode(), status, Retry_After=0)

    with serving(Answers) as known.url:
        yield known


def test_azure_registry_exchange_is_retried_on_429_and_503(registry: Registry) -> None:
    registry.answers = [(503, {}), (429, {}), (200, {"refresh_token": "own"})]
    assert exchange_token(registry.url, SERVER, "identity's") == "own"
    form = {"grant_type": ["access_token"], "service": [SERVER], "access_token": ["identity's"]}
    assert registry.asked == [("/oauth2/exchange", form)] * 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, {"error": {"code": "UNAUTHORIZED", "message": "no AcrPull"}}), "no AcrPull"),
        ((200, {"refresh_token": 1}), "the answer holds no token"),
        ((200, []), "the answer holds no token"),
    ],
)
def test_azure_registry_exchange_without_a_token_is_not_retried(
    registry: Registry, answer: tuple[int, object], why: str
) -> None:
    registry.answers = [answer]
    with pytest.raises(Failure, match=why):
        exchange_token(registry.url, SERVER, "identity's")
    assert len(registry.asked) == 1


@pytest.fixture(scope="module")
def issued() -> tuple[str, str]:
    """Returns the certificate chain and the key of a page as PEM."""
    leaf = trustme.CA().create_child_ca().issue_cert("runs.example.org")
    chain = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    return chain, leaf.private_key_pem.bytes().decode()


def test_web_certificate_is_read_as_pem_or_pkcs12_only(issued: tuple[str, str]) -> None:
    chain, key = issued
    both = chain + key
    for text in (both, key + chain, both.replace("\n", "\r\n"), both.rstrip()):
        assert certificate_of(text, "page") == (chain, key)
    certificates = load_pem_x509_certificates(chain.encode())
    private: Any = load_pem_private_key(key.encode(), None)
    first, *others = certificates
    # By default a vault stores it as PKCS #12 in base64.
    packed = pkcs12.serialize_key_and_certificates(b"page", private, first, others, NoEncryption())
    found, its_key = certificate_of(base64.b64encode(packed).decode(), "page")
    assert load_pem_x509_certificates(found.encode()) == certificates
    read: Any = load_pem_private_key(its_key.encode(), None)
    assert read.private_numbers() == private.private_numbers()
    for text in (chain, key, key + key + chain, "-----BEGIN nothing"):
        with pytest.raises(Failure, match="page holds no certificate with its key"):
            certificate_of(text, "page")
    for text in ("", "%%%", base64.b64encode(b"something").decode()):
        with pytest.raises(Failure, match="page holds neither PEM nor PKCS #12"):
            certificate_of(text, "page")


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "short",
        'a"quoted~secret',
        "two\nlines~of~it",
        "a\\backslash",
        "${HOME}~secret",
        "a b c d e f",
    ],
)
def test_web_secret_that_could_inject_configuration_is_refused(
    secret: str, issued: tuple[str, str], tmp_path: Path
) -> None:
    vault = FakeVault({"page": "".join(issued), "application": secret})
    with pytest.raises(Failure, match="application holds no secret of an application"):
        files_of(vault, "page", "application", tmp_path)


def test_web_proxy_restarts_when_its_certificate_or_secret_changes(
    issued: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    vault = FakeVault({"application": "a~good.secret"})
    monkeypatch.setattr(web_secrets, "KeyVault", lambda *_: vault)
    folder, told = tmp_path / "run", tmp_path / "told"
    folder.mkdir()
    settings = {
        "vault": "https://lab.vault.azure.net",
        "client_id": "id",
        "certificate": "page",
        "secret": "application",
        "changed": ["sh", "-c", f"echo again >>{told}"],
    }
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    arguments = [str(file), str(folder)]
    assert main(arguments) == 1
    assert "page is not there" in capsys.readouterr().err
    assert not list(folder.iterdir())
    vault.held["page"] = "".join(issued)
    assert [main(arguments), main(arguments)] == [0, 0]
    assert told.read_text() == "again\n"
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes == dict.fromkeys(("certificate", "key", "oidc.conf"), 0o400), "for root alone"
    vault.held["application"] = "another~secret"
    before = (folder / "oidc.conf").read_text()
    assert main(arguments) == 0
    assert told.read_text() == "again\n" * 2
    changed = before.replace("a~good.secret", "another~secret")
    assert (folder / "oidc.conf").read_text() == changed != before, "the key of the cookies stays"
