"""`bin/release`: checks of the tag, and the contents of a release."""

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from programs import executable, finished

import fairway_core
from fairway_core import archives

pytestmark = pytest.mark.integration

VERSION = fairway_core.__version__


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """Returns a copy of a release's sources, to change; the environment is the repository's."""
    copy = tmp_path / "copy"
    copy.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", ".*_cache")
    for folder in ("bin", "constructs", "job_templates", "runner", "simulators", "stacks"):
        shutil.copytree(repository / folder, copy / folder, ignore=left_out)
    shutil.copytree(repository / ".github", copy / ".github")
    for name in (".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(repository / name, copy / name)
    (copy / ".venv").symlink_to(repository / ".venv")
    # The copy is set up: this does not test bin/setup.
    (copy / "bin/setup").write_text("#!/bin/sh\n")
    return copy


def _release(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return finished([str(copy / "bin/release"), *arguments])


def test_release_contains_wheel_agent_digests_and_notes(copy: Path) -> None:
    changes = "# Changelog\n\n## [Unreleased]\n\n- later\n\n"
    changes += f"## [{VERSION}] - 2026-01-02\n\n- this\n\n## [0.0.1]\n\n- before\n"
    (copy / "CHANGELOG.md").write_text(changes)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(copy)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    (copy / "stacks/environments/prod.tfstate").write_text("secret")
    (copy / ".git/info/exclude").write_text("mine*\n")
    subprocess.run([*git, "config", "status.showUntrackedFiles", "no"], check=True)
    own, readme = copy / "job_templates/mine.sh.j2", copy / "README.md"
    own.touch()
    readme.rename(copy / "README.old")
    done = _release(copy, f"v{VERSION}")
    held = "would hold: job_templates/mine.sh.j2\nREADME.md\n"
    assert (done.returncode, held in done.stderr) == (2, True)
    own.unlink()
    (copy / "README.old").rename(readme)
    done = _release(copy, f"v{VERSION}")
    assert done.returncode == 0, done.stderr
    (wheel,) = (copy / "dist").glob("fairway_hpc-*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    assert {"fairway_stacks/environments/demo.yaml", "fairway_stacks/app.py"} <= {*held}
    assert "fairway_runner/job_templates/plain.sh.j2" in held
    assert not [name for name in held if name.endswith(".tfstate")]
    digest, archive = archives.agent()
    agent = copy / f"dist/fairway-agent-{digest}.tar.gz"
    assert agent.read_bytes() == archive
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (agent, wheel)]
    listed = f"{sums[0]}  ./{agent.name}\n{sums[1]}  ./{wheel.name}\n"
    assert (copy / "dist/SHA256SUMS").read_text() == listed
    assert (copy / "dist/notes.md").read_text().strip() == "- this"


def test_release_collects_changes_in_a_section_above_the_newest_release(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("# Changelog\n\n## [0.0.1] - 2026-01-02\n\n- before\n")
    (copy / "changes").mkdir()
    (copy / "changes/cost.fixed.md").write_text("Prices of Spot.")  # without a newline
    (copy / "changes/names.fixed.md").write_text("Names.\n")
    (copy / "changes/pools.added.md").write_text("Pools\nof two sizes.\n")
    done = _release(copy, f"v{VERSION}", "--collect")
    assert done.returncode == 0, done.stderr
    head, _, rest = (copy / "CHANGELOG.md").read_text().partition(f"## [{VERSION}] - ")
    added, fixed = (
        "### Added\n\n- Pools\n  of two sizes.\n",
        "### Fixed\n\n- Prices of Spot.\n- Names.\n",
    )
    assert (head, rest.partition("\n\n")[2]) == (
        "# Changelog\n\n",
        f"{added}\n{fixed}\n## [0.0.1] - 2026-01-02\n\n- before\n",
    )
    assert not list((copy / "changes").iterdir())
    again = _release(copy, f"v{VERSION}", "--collect")
    assert (again.returncode, "changes/ has no change" in again.stderr) == (2, True)


def test_release_refuses_and_keeps_changes_that_it_cannot_collect(copy: Path) -> None:
    (copy / "changes").mkdir()
    (copy / "changes/cost.fixed.md").write_text("Prices of Spot.\n")
    (copy / "changes/pools.add.md").write_text("Pools.\n")
    before = (copy / "CHANGELOG.md").read_text()
    done = _release(copy, f"v{VERSION}", "--collect")
    assert (done.returncode, "pools.add.md: KIND is one of: added" in done.stderr) == (2, True)
    assert (copy / "CHANGELOG.md").read_text() == before
    assert len(list((copy / "changes").iterdir())) == 2
    (copy / "changes/pools.add.md").rename(copy / "changes/pools.added.md")
    (copy / "changes/cost.fixed.md").write_text("\n")
    done = _release(copy, f"v{VERSION}", "--collect")
    assert (done.returncode, "cost.fixed.md is empty" in done.stderr) == (2, True)
    (copy / "CHANGELOG.md").write_text(f"{before}\n## [{VERSION}] - 2026-01-02\n")
    done = _release(copy, f"v{VERSION}", "--collect")
    assert (done.returncode, f"a section ## [{VERSION}] already" in done.stderr) == (2, True)


def test_release_publishes_the_built_files(copy: Path, programs: Path) -> None:
    """With a stand-in for GitHub's program, which prints its arguments."""
    executable(programs / "gh", 'printf "%s\\n" "$@"')
    dist = copy / "dist"
    dist.mkdir()
    (dist / "fairway_hpc-1.whl").write_bytes(b"wheel")
    (dist / "fairway-agent.tar.gz").write_bytes(b"agent")
    sums = [
        f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  ./{name}\n"
        for name in ("fairway_hpc-1.whl", "fairway-agent.tar.gz")
    ]
    (dist / "SHA256SUMS").write_text("".join(sums))
    done = _release(copy, f"v{VERSION}", "--publish")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["release", "create", f"v{VERSION}"]
    published = {"dist/fairway_hpc-1.whl", "dist/fairway-agent.tar.gz", "dist/SHA256SUMS"}
    assert published <= set(done.stdout.split())
    (dist / "fairway_hpc-1.whl").write_bytes(b"another")
    refused = _release(copy, f"v{VERSION}", "--publish")
    assert (refused.returncode, "create" in refused.stdout) == (2, False)
    assert "dist/ is not what was built" in refused.stderr


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("", "name the tag"),
        ("v99.0.0", f"the tag is v99.0.0, but fairway_core.__version__ is {VERSION}"),
        (f"v{VERSION}", f"CHANGELOG.md has no section ## [{VERSION}]"),
    ],
)
def test_release_with_a_mismatched_tag_is_refused(copy: Path, tag: str, said: str) -> None:
    (copy / "CHANGELOG.md").write_text("## [Unreleased]\n\n- later\n")
    (copy / "dist").mkdir()
    (copy / "dist/before.whl").touch()
    done = _release(copy, tag)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert [file.name for file in (copy / "dist").iterdir()] == ["before.whl"]
