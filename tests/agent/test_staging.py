"""Inputs and secrets that nodes fetch by their own identity, from a loopback stand-in."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway_agent import access
from fairway_agent.spec import Staged
from fairway_boot import http
from fairway_boot.files import AgentError
from fairway_boot.identity import METADATA
from fairway_core.catalog.roles import built_in_roles
from fairway_simulator.azure.rights import Assignment, Rights
from fairway_simulator.ssh.services import ACCOUNT, CONTAINER, NODES, VAULT, Services, running

pytestmark = pytest.mark.integration


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """Yields the storage, vault and metadata service of a node, on loopback."""
    with running(Services()) as services:
        monkeypatch.setenv("FAIRWAY_METADATA_URL", services.url)
        monkeypatch.setattr(http, "_FIRST_PAUSE", 0.001)
        monkeypatch.setattr(METADATA, "_kept", {})
        yield services


def entry(cloud: Services, path: str) -> Staged:
    """Returns a staged input as the plan has it."""
    return Staged("data", CONTAINER, path, "scratch", account=cloud.url)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".fairway.json"
    }


def test_ssh_staging_copies_a_folder_and_later_only_what_changed(
    cloud: Services, tmp_path: Path
) -> None:
    """All pages of the listing, without the neighbour whose name begins alike."""
    kept = {f"words/{n}/part ü{n}": bytes([n]) * n * 1000 for n in range(5)}
    kept |= {"words/x": b"x" * 1000, "words/.x.part": b"its name is that of no partial copy"}
    cloud.blobs = {
        **kept,
        "words2/x": b"no",
        "words": b"",
        "words/empty": b"",
        "words/marker/": b"",
    }
    assert access.stage(entry(cloud, "words/"), tmp_path / "in") == 8
    found = files(tmp_path / "in")
    assert found == {n.removeprefix("words/"): d for n, d in (kept | {"words/empty": b""}).items()}
    cloud.blobs = {"d/a": b"a", "d/b": b"b", "d/c": b"c"}
    access.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.blobs = {"d/a": b"a", "d/b": b"new"}
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert files(tmp_path / "in") == {"a": b"a", "b": b"new"}
    (tmp_path / "in" / "a").unlink()
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 1
    cloud.blobs = {"d/a": b"", "d/a/c/d": b"d"}  # the first is blobfuse2's mark of a folder
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert files(tmp_path / "in") == {"a/c/d": b"d"}
    cloud.blobs = {"d/a": b"a"}
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert files(tmp_path / "in") == {"a": b"a"}


def test_ssh_staging_of_one_blob_keeps_its_name(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs = {"a/b/one.bin": b"1", "a/b/one.bin2": b"2"}
    access.stage(entry(cloud, "a/b/one.bin"), tmp_path / "in")
    assert files(tmp_path / "in") == {"one.bin": b"1"}
    cloud.blobs |= {"a/b/one.bin/two": b"3"}
    access.stage(entry(cloud, "a/b/one.bin"), tmp_path / "both")
    assert files(tmp_path / "both") == {"one.bin": b"1", "two": b"3"}


def test_ssh_staging_continues_after_a_broken_copy_or_listing(
    cloud: Services, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 20_000
    cloud.blobs = {"d/big": data}
    cloud.faults = [("big", 100), ("big", 200), ("comp=list", 503), ("/metadata/", 429)]
    access.stage(entry(cloud, "d"), tmp_path / "in")
    assert files(tmp_path / "in") == {"big": data}
    assert cloud.faults == []
    cloud.blobs = {"d/a": b"a", "d/b": b"b", "d/c": b"c"}
    cloud.faults = [("comp=list", 20), ("comp=list", 0)]
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 3
    cloud.faults = [("comp=list", 20)] * 4
    with pytest.raises(AgentError, match="the container datasets cannot be listed: "):
        access.stage(entry(cloud, "d"), tmp_path / "in")


def test_ssh_staging_refuses_a_copy_with_a_wrong_checksum(cloud: Services, tmp_path: Path) -> None:
    cloud.blobs, cloud.wrong_md5 = {"d/a": b"a"}, True
    with pytest.raises(AgentError, match=r"the blob d/a cannot be copied: .*MD5") as caught:
        access.stage(entry(cloud, "d"), tmp_path / "in")
    assert caught.value.record["hint"] == "once that is fixed: fairway retry RUN"
    assert files(tmp_path / "in") == {}


@pytest.mark.parametrize(
    ("part", "status", "why"),
    [
        ("comp=list", 404, "the container datasets cannot be read: HTTP 404"),
        ("/datasets/d/a", 404, "the blob d/a cannot be read: HTTP 404"),
        ("/metadata/", 400, "the node's identity cannot be read: HTTP 400"),
    ],
)
def test_ssh_staging_fault_names_what_cannot_be_read(
    cloud: Services, tmp_path: Path, part: str, status: int, why: str
) -> None:
    cloud.blobs, cloud.faults = {"d/a": b"a"}, [(part, status)]
    with pytest.raises(AgentError, match=why):
        access.stage(entry(cloud, "d"), tmp_path / "in")


def test_ssh_staging_of_no_blobs_or_of_paths_outside_the_folder_is_refused(
    cloud: Services, tmp_path: Path
) -> None:
    with pytest.raises(AgentError, match="nothing at datasets:d"):
        access.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.blobs = {"d/../../x": b"x"}
    with pytest.raises(AgentError, match="cannot be a file here"):
        access.stage(entry(cloud, "d"), tmp_path / "in")
    assert not (tmp_path / "x").exists()
    cloud.blobs = {"d/a": b"a", "d/a/b/c": b"c"}
    with pytest.raises(AgentError, match="the blobs d/a and d/a/b/c cannot both be files here"):
        access.stage(entry(cloud, "d"), tmp_path / "in")


def test_ssh_staging_reports_a_missing_role(cloud: Services, tmp_path: Path) -> None:
    """The nodes' identity has roles on the container and the vault, as stacks assign them."""
    roles = built_in_roles()
    blobs = Assignment("blobs", NODES, ACCOUNT, roles["Storage Blob Data Contributor"])
    vault = Assignment("vault", NODES, VAULT, roles["Key Vault Secrets User"])
    cloud.rights = Rights((blobs, vault))
    cloud.blobs, cloud.secrets = {"d/a": b"a"}, {"hub": "s3cret"}
    (tmp_path / "job.json").write_text(json.dumps({"secrets": {"TOKEN": "keyvault:hub"}}))
    (tmp_path / "target.json").write_text(json.dumps({"vault_url": f"{cloud.url}/"}))
    assert access.stage(entry(cloud, "d"), tmp_path / "in") == 1
    assert access.secrets_of(tmp_path) == {"TOKEN": "s3cret"}
    whole = cloud.rights
    cloud.rights = whole.without("blobs")
    with pytest.raises(AgentError, match="cannot be read: HTTP 403"):
        access.stage(entry(cloud, "d"), tmp_path / "in")
    cloud.rights = whole.without("vault")
    with pytest.raises(AgentError, match=r"hub in .* cannot be read: Forbidden") as caught:
        access.secrets_of(tmp_path)
    assert "has a role" in str(caught.value.record["hint"])
