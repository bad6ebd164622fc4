"""What nodes fetch by their own identity, from loopback stand-ins."""

from __future__ import annotations

import base64
import json
import stat
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificates
from serving import Handler, serving

from fairway_agent import staging
from fairway_agent.azure import access, web_secrets
from fairway_agent.azure.access import exchanged
from fairway_agent.azure.web_secrets import certificate_of, files_of, main, write
from fairway_agent.spec import Staged
from fairway_boot import http
from fairway_boot.files import Fault
from fairway_boot.http import Failure
from fairway_boot.identity import METADATA, KeyVault, Secret
from fairway_core.catalog.roles import built_in_roles
from fairway_simulator.azure.rights import Assignment, Rights
from fairway_simulator.ssh.services import ACCOUNT, CONTAINER, NODES, VAULT, Services, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """Storage, vault and metadata service of a node, on loopback."""
    with running(Services()) as services:
        monkeypatch.setenv("FAIRWAY_METADATA_URL", services.url)
        monkeypatch.setattr(http, "_FIRST_PAUSE", 0.001)
        monkeypatch.setattr(METADATA, "_kept", {})
        yield services


def entry(cloud: Services, path: str) -> Staged:
    """A staged input, as the plan has it."""
    return Staged("data", CONTAINER, path, "scratch", account=cloud.url)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".fairway.json"
    }


def test_a_folder_comes_as_it_is(cloud: Services, tmp_path: Path) -> None:
    """All pages of it, without the neighbour whose name begins alike."""
    kept = {f"words/{n}/part ü{n}": bytes([n]) * n * 1000 for n in range(5)}
    cloud.blobs = {**kept, "words2/x": b"no", "words/empty": b"", "words/marker/": b""}
    assert staging.stage(entry(cloud, "words/"), tmp_path / "in") == 6
    found = files(tmp_path / "in")
    assert found == {n.removeprefix("words/"): d for n, d in (kept | {"words/empty": b""}).items()}


def test_ssh_staging_of_one_blob_keeps_its_name(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs = {"a/b/one.bin": b"1", "a/b/one.bin2": b"2"}
    staging.stage(entry(cloud, "a/b/one.bin"), tmp_path / "in")
    assert files(tmp_path / "in") == {"one.bin": b"1"}


def test_only_what_changed_is_copied_again(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs = {"d/a": b"a", "d/b": b"b", "d/c": b"c"}
    staging.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.blobs = {"d/a": b"a", "d/b": b"new"}
    assert staging.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert files(tmp_path / "in") == {"a": b"a", "b": b"new"}
    (tmp_path / "in" / "a").unlink()
    assert staging.stage(entry(cloud, "d"), tmp_path / "in") == 1


def test_a_copy_that_breaks_goes_on_where_it_was(cloud: Services, tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    cloud.blobs = {"d/big": data}
    cloud.faults = [("big", 100), ("big", 200), ("comp=list", 503), ("/metadata/", 429)]
    staging.stage(entry(cloud, "d"), tmp_path / "in")
    assert files(tmp_path / "in") == {"big": data}
    assert cloud.faults == []


def test_a_list_that_breaks_is_asked_for_again(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs = {"d/a": b"a", "d/b": b"b", "d/c": b"c"}
    cloud.faults = [("comp=list", 20), ("comp=list", 0)]
    assert staging.stage(entry(cloud, "d"), tmp_path / "in") == 3
    cloud.faults = [("comp=list", 20)] * 4
    with pytest.raises(Fault, match="the container datasets cannot be listed: "):
        staging.stage(entry(cloud, "d"), tmp_path / "in")


def test_a_copy_that_is_not_right_is_none(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs, cloud.wrong_md5 = {"d/a": b"a"}, True
    with pytest.raises(Fault, match=r"the blob d/a cannot be copied: .*MD5") as caught:
        staging.stage(entry(cloud, "d"), tmp_path / "in")
    assert caught.value.record["hint"] == "once that is fixed: fairway retry RUN"
    assert files(tmp_path / "in") == {}


@pytest.mark.parametrize(("part", "status"), [("comp=list", 404), ("/datasets/d/a", 404)])
def test_ssh_staging_fault_names_the_input_that_cannot_be_read(
    cloud: Services, tmp_path: Path, part: str, status: int
) -> None:
    cloud.blobs = {"d/a": b"a"}
    cloud.faults = [(part, status)]
    with pytest.raises(Fault, match=f"cannot be read: HTTP {status}"):
        staging.stage(entry(cloud, "d"), tmp_path / "in")


def test_ssh_staging_of_nothing_or_of_names_that_lead_out_is_refused(
    cloud: Services, tmp_path: Path
) -> None:
    with pytest.raises(Fault, match="nothing at datasets:d"):
        staging.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.blobs = {"d/../../x": b"x"}
    with pytest.raises(Fault, match="cannot be a file here"):
        staging.stage(entry(cloud, "d"), tmp_path / "in")
    assert not (tmp_path / "x").exists()


def test_a_node_without_identity_says_so(cloud: Services, tmp_path: Path) -> None:
    cloud.faults = [("/metadata/", 400)]
    with pytest.raises(Fault, match="the node's identity cannot be read: HTTP 400"):
        staging.stage(entry(cloud, "d"), tmp_path / "in")


def test_a_role_that_is_missing_is_said(cloud: Services, tmp_path: Path) -> None:
    """The nodes' identity has roles on the container and the vault, as stacks assign them."""
    roles = built_in_roles()
    blobs = Assignment("blobs", NODES, ACCOUNT, roles["Storage Blob Data Contributor"])
    vault = Assignment("vault", NODES, VAULT, roles["Key Vault Secrets User"])
    cloud.rights = Rights((blobs, vault))
    cloud.blobs, cloud.secrets = {"d/a": b"a"}, {"hub": "s3cret"}
    (tmp_path / "job.json").write_text(json.dumps({"secrets": {"TOKEN": "keyvault:hub"}}))
    (tmp_path / "target.json").write_text(json.dumps({"vault_url": f"{cloud.url}/"}))
    assert staging.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert access.secrets_of(tmp_path) == {"TOKEN": "s3cret"}
    whole = cloud.rights
    cloud.rights = whole.without("blobs")
    with pytest.raises(Fault, match="cannot be read: HTTP 403"):
        staging.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.rights = whole.without("vault")
    with pytest.raises(Fault, match=r"hub in .* cannot be read: Forbidden") as caught:
        access.secrets_of(tmp_path)
    assert "has a role" in str(caught.value.record["hint"])


def test_secrets_are_read_from_the_vault(cloud: Services, tmp_path: Path) -> None:
    cloud.secrets = {"hub-token": "s3cret"}
    (tmp_path / "job.json").write_text(json.dumps({"secrets": {"TOKEN": "keyvault:hub-token"}}))
    (tmp_path / "target.json").write_text(json.dumps({"vault_url": f"{cloud.url}/"}))
    assert access.secrets_of(tmp_path) == {"TOKEN": "s3cret"}


SERVER = "lab.azurecr.io"


class Registry:
    """Gives each answer once: a status, and JSON."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""


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
    assert exchanged(registry.url, SERVER, "identity's") == "own"
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
        exchanged(registry.url, SERVER, "identity's")
    assert len(registry.asked) == 1


class FakeVault(KeyVault):
    """A vault that holds these."""

    def __init__(self, held: dict[str, str]) -> None:
        super().__init__("https://lab.vault.azure.net", metadata=None)  # type: ignore[arg-type]
        self.held = held

    def look(self, name: str) -> Secret:
        if name not in self.held:
            raise Failure(404, "SecretNotFound", f"{name} is not there")
        return Secret(self.held[name], {})


@pytest.fixture(scope="module")
def issued() -> tuple[str, str]:
    """The certificates and the key of a page, as PEM."""
    leaf = trustme.CA().create_child_ca().issue_cert("runs.example.org")
    chain = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    return chain, leaf.private_key_pem.bytes().decode()


def _packed(issued: tuple[str, str]) -> str:
    """As a vault keeps a certificate that was made without saying how."""
    first, *others = load_pem_x509_certificates(issued[0].encode())
    key = load_pem_private_key(issued[1].encode(), None)
    data = pkcs12.serialize_key_and_certificates(b"page", key, first, others, NoEncryption())  # type: ignore[arg-type]
    return base64.b64encode(data).decode()


def test_web_certificate_is_read_from_pem_and_pkcs12(issued: tuple[str, str]) -> None:
    chain, key = issued
    for text in (
        chain + key,
        key + chain,
        (key + chain).replace("\n", "\r\n"),
        (chain + key).rstrip(),
    ):
        assert certificate_of(text, "page") == (chain, key)
    found, its_key = certificate_of(_packed(issued), "page")
    assert load_pem_x509_certificates(found.encode()) == load_pem_x509_certificates(chain.encode())
    numbers = load_pem_private_key(its_key.encode(), None).private_numbers()  # type: ignore[union-attr]
    assert numbers == load_pem_private_key(key.encode(), None).private_numbers()  # type: ignore[union-attr]


def test_web_certificate_without_its_key_or_of_no_known_form_is_refused(
    issued: tuple[str, str],
) -> None:
    chain, key = issued
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
def test_a_secret_cannot_write_configuration(
    secret: str, issued: tuple[str, str], tmp_path: Path
) -> None:
    vault = FakeVault({"page": "".join(issued), "application": secret})
    with pytest.raises(Failure, match="application holds no secret of an application"):
        files_of(vault, "page", "application", tmp_path)


def test_files_are_for_root_alone_and_written_when_something_changed(
    issued: tuple[str, str], tmp_path: Path
) -> None:
    vault = FakeVault({"page": "".join(issued), "application": "a~good.secret"})
    first = files_of(vault, "page", "application", tmp_path)
    assert 'OIDCClientSecret "a~good.secret"\n' in first["oidc.conf"]
    assert write(first, tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"certificate", "key", "oidc.conf"}
    for each in tmp_path.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o400
    again = files_of(vault, "page", "application", tmp_path)
    assert again == first, "the key of the cookies stays"
    assert not write(again, tmp_path)
    vault.held["application"] = "another~secret"
    assert write(files_of(vault, "page", "application", tmp_path), tmp_path)


def test_the_proxy_is_started_anew_for_a_renewed_certificate(
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
