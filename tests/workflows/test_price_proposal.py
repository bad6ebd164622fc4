"""New prices are proposed on a branch with one pull request, unless no price has changed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from programs import executable, finished

FOLDER = Path("constructs/fairway_core/catalog/prices")
GH = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in "pr list"*) cat "$OPEN" ;; esac
"""


@pytest.fixture
def clone(
    tmp_path: Path, repository: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A clone of a repository with one price, and a `gh` that logs its arguments."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.com")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", origin], check=True)
    subprocess.run(["git", "clone", "-q", origin, clone], check=True, capture_output=True)
    (clone / FOLDER).mkdir(parents=True)
    (clone / FOLDER / "eastus.toml").write_text("old\n")
    (clone / "bin").mkdir()
    (clone / "bin" / "prices").write_bytes((repository / "bin" / "prices").read_bytes())
    for words in (["add", "."], ["commit", "-qm", "first"], ["push", "-q", "origin", "HEAD:main"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    executable(programs / "gh", GH)
    (tmp_path / "open").touch()
    (tmp_path / "calls").touch()
    for name in ("CALLS", "OPEN"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("BASE", "main")
    return clone


def _propose(clone: Path, text: str) -> str:
    new = clone / "new"
    new.mkdir()
    (new / "westeurope.toml").write_text(text)
    words = ["bash", "bin/prices", "--propose", "new"]
    done = finished(words, cwd=clone, check=True)
    shutil.rmtree(new)
    return done.stdout


def _branch(clone: Path, name: str) -> list[str]:
    words = ["git", "ls-tree", "-r", "--name-only", f"refs/heads/{name}", str(FOLDER)]
    origin = clone.parent / "origin"
    done = finished(words, cwd=origin)
    return [Path(line).name for line in done.stdout.splitlines()]


def test_price_proposal_replaces_prices_on_a_branch_with_one_pull_request(
    clone: Path, tmp_path: Path
) -> None:
    _propose(clone, "new\n")
    assert _branch(clone, "prices") == ["westeurope.toml"]
    assert _branch(clone, "main") == ["eastus.toml"]
    calls = (tmp_path / "calls").read_text()
    created = "pr create --base main --head prices --fill --body GitHub tests no pull request"
    assert calls.splitlines()[-1].startswith(created)
    # The next week, with the pull request not yet merged.
    subprocess.run(["git", "switch", "-q", "-"], cwd=clone, check=True)
    (tmp_path / "open").write_text("7\n")
    _propose(clone, "newer\n")
    assert (tmp_path / "calls").read_text().count("pr create") == 1
    words = ["git", "show", f"prices:{FOLDER}/westeurope.toml"]
    shown = subprocess.run(words, cwd=tmp_path / "origin", check=True, capture_output=True)
    assert shown.stdout == b"newer\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--propose"], "name a folder of new price files"),
        (["--propose", "empty"], "name a folder of new price files"),
        (["--propose", str(FOLDER)], f"{FOLDER} is in the catalogue; name a folder of new"),
        (["--propose", f"linked/{FOLDER.name}/new"], "is in the catalogue"),
        (["--propose", str(FOLDER.parent)], "is in the catalogue"),
        (["--help"], "unknown option --help; there is bin/prices --propose NEW"),
    ],
)
def test_price_proposal_without_new_prices_keeps_the_known(
    clone: Path, words: list[str], said: str
) -> None:
    (clone / "empty").mkdir()
    (clone / "linked").symlink_to(FOLDER.parent)
    (clone / FOLDER / "new").mkdir()
    for name in ("sizes.toml", "prices/new/eastus.toml"):
        (clone / FOLDER.parent / name).touch()
    done = finished(["bash", "bin/prices", *words], cwd=clone)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    held = ["prices/eastus.toml", "prices/new/eastus.toml", "sizes.toml"]
    assert sorted((clone / FOLDER.parent).rglob("*.toml")) == [
        clone / FOLDER.parent / n for n in held
    ]


def test_price_proposal_without_changes_opens_no_pull_request(clone: Path, tmp_path: Path) -> None:
    (clone / FOLDER / "eastus.toml").rename(clone / FOLDER / "westeurope.toml")
    for words in (["add", "."], ["commit", "-qm", "moved"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    assert "no price has changed" in _propose(clone, "old\n")
    assert (tmp_path / "calls").read_text() == ""
    assert _branch(clone, "prices") == []
