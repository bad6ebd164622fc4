"""Requirement that `fairway init` writes into requirements.txt: the Fairway that is running."""

import hashlib
from pathlib import Path

import pytest
from programs import finished

import fairway_core
from fairway_runner.starter import project
from fairway_runner.starter.project import (
    Settings,
    Source,
    from_clone,
    from_record,
    installed_source,
    write_project,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _git(folder: Path, *arguments: str) -> str:
    options = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *options, *arguments]
    done = finished(command, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a commit."""
    folder = tmp_path / "clone"
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / "file").touch()
    _git(folder, "add", "file")
    _git(folder, "commit", "-q", "-m", "First")
    return folder


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("https://example.org/lab/fairway.git", "https://example.org/lab/fairway.git"),
        ("https://me:secret@example.org/lab/fairway", "https://example.org/lab/fairway"),
        ("git@example.org:lab/fairway.git", "ssh://git@example.org/lab/fairway.git"),
        ("ssh://git@example.org:2222/lab/fairway", "ssh://git@example.org:2222/lab/fairway"),
        ("git+ssh://git@example.org/lab/fairway", "ssh://git@example.org/lab/fairway"),
        ("ssh+git://git@example.org/lab/fairway", "ssh://git@example.org/lab/fairway"),
        ("g:lab/fairway", "ssh://g/lab/fairway"),
    ],
)
def test_starter_source_of_clone_has_origin_and_commit(clone: Path, remote: str, url: str) -> None:
    _git(clone, "remote", "add", "origin", remote)
    commit = _git(clone, "rev-parse", "HEAD")
    line = f"fairway-hpc[node] @ git+{url}@{commit}"
    unpushed = from_clone(clone)
    assert (unpushed.requirement, commit[:12] in unpushed.note) == (line, True)
    _git(clone, "update-ref", "refs/remotes/origin/main", commit)
    (clone / "notes").touch()
    assert from_clone(clone) == Source(line)
    for changed in ("file", "runner/new.py"):
        (clone / changed).parent.mkdir(exist_ok=True)
        (clone / changed).write_text("more")
        assert "changes that are not committed" in from_clone(clone).note
        _git(clone, "checkout", "file")
    (clone / "runner/new.py").unlink()
    _git(clone, "commit", "-q", "--allow-empty", "-m", "Second")
    _git(clone, "tag", "mine")
    assert "lacks its commits up to" in from_clone(clone).note
    _git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    assert from_clone(clone).note == ""  # as in a clone of that tag alone


@pytest.mark.parametrize(
    "remote",
    [
        *(None, "/srv/fairway", "../fairway", "file:///srv/fairway", "C:/fairway", "C:\\fairway"),
        *("git+https://example.org/lab/fairway", "ext::ssh example.org fairway"),
    ],
)
def test_starter_source_of_a_clone_without_a_remote_url_has_a_note(
    clone: Path, remote: str | None
) -> None:
    if remote:
        _git(clone, "remote", "add", "origin", remote)
    source = from_clone(clone)
    commit = _git(clone, "rev-parse", "HEAD")
    assert source.requirement == f"fairway-hpc[node] @ git+file://{clone}@{commit}"
    assert "only on this machine" in source.note


def test_starter_source_without_a_commit_is_its_folder(clone: Path) -> None:
    """For example an archive that was unpacked in the user's own repository."""
    inner = clone / "fairway"
    inner.mkdir()
    source = from_clone(inner)
    assert source.requirement == f"fairway-hpc[node] @ file://{inner}"
    assert source.note


def test_starter_source_is_not_the_project_into_which_fairway_was_installed(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `pip install --target vendor` does in the user's own repository."""
    (clone / "pyproject.toml").touch()
    _git(clone, "remote", "add", "origin", "https://example.org/lab/own")
    monkeypatch.setattr(project, "_CLONE", clone)
    assert "lab/own" not in installed_source().requirement
    (clone / "runner/fairway_runner").mkdir(parents=True)
    assert "lab/own" in installed_source().requirement


def test_starter_source_of_a_pip_install_has_its_commit_or_version() -> None:
    vcs = {"vcs": "git", "commit_id": COMMIT, "requested_revision": "main"}
    source = from_record({"url": "https://example.org/lab/fairway", "vcs_info": vcs})
    assert source == Source(f"fairway-hpc[node] @ git+https://example.org/lab/fairway@{COMMIT}")
    only_here = from_record({"url": "file:///srv/fairway", "vcs_info": vcs})
    assert only_here.requirement == f"fairway-hpc[node] @ git+file:///srv/fairway@{COMMIT}"
    assert "/srv/fairway, which exists only on this machine" in only_here.note
    # pip writes no direct_url.json for a package from an index, which the user has chosen.
    assert from_record(None) == Source(f"fairway-hpc[node]=={fairway_core.__version__}")


@pytest.mark.parametrize("archive", [{"hashes": {"sha256": "ab"}}, {"hash": "sha256=ab"}])
def test_starter_source_of_a_remote_wheel_has_its_hash(archive: dict[str, object]) -> None:
    url = "https://example.org/fairway_hpc-0.1.0-py3-none-any.whl"
    source = from_record({"url": url, "archive_info": archive})
    assert source == Source(f"fairway-hpc[node] @ {url}#sha256=ab")


def test_starter_source_of_a_local_wheel_is_copied_into_the_project(tmp_path: Path) -> None:
    wheel = tmp_path / "dist/fairway_hpc-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"PK wheel")
    digest = hashlib.sha256(b"PK wheel").hexdigest()
    record = {"url": wheel.as_uri(), "archive_info": {"hashes": {"sha256": digest}}}
    settings = Settings("lab", source=from_record(record))
    written = write_project(tmp_path / "lab", settings)
    copied = tmp_path / "lab/wheels" / wheel.name
    assert copied.relative_to(tmp_path / "lab") in written
    assert copied.read_bytes() == b"PK wheel"
    requirements = (tmp_path / "lab/requirements.txt").read_text().splitlines()
    line = f"./wheels/{wheel.name}[node]"
    assert requirements[-1] == line
    # Another wheel of the same name is not used in its place.
    wheel.write_bytes(b"PK other")
    changed = from_record(record)
    assert (changed.requirement, changed.wheel) == (line, None)
    assert f"put {wheel.name} into wheels/" in changed.note
