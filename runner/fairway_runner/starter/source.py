"""Where this Fairway was installed from, as the requirement that installs the same one again.

The distribution is named with the wheel or the commit that it came from: a bare name would
install whatever an index has under it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import fairway_core

DISTRIBUTION = "fairway-hpc"
WHEELS = Path("wheels")
"""The folder of a project that holds the wheel, where it came from no server."""

# With a Node.js for cdktf.
_NAME = f"{DISTRIBUTION}[node]"
# In a clone; in a wheel there is no such file.
_OVER_SSH = ("ssh", "git")  # schemes of a remote
_CLONE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Source:
    """A line of requirements.txt, the wheel to copy into the project, and what is left to do."""

    requirement: str
    wheel: Path | None = None
    note: str = ""


def installed_source() -> Source:
    """The source of the Fairway that is running."""
    if (_CLONE / "pyproject.toml").is_file():
        return from_clone(_CLONE)
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        recorded = None
    return from_record(json.loads(recorded) if recorded else None)


def from_clone(root: Path) -> Source:
    """The commit of a clone, at its `origin` where it has one."""
    top, commit = _git(root, "rev-parse", "--show-toplevel"), _git(root, "rev-parse", "HEAD")
    if not commit or Path(top).resolve() != root.resolve():
        return Source(f"{_NAME} @ {root.as_uri()}", note=_only_here(root))
    origin = _url(_git(root, "remote", "get-url", "origin"))
    if origin:
        return Source(f"{_NAME} @ git+{origin}@{commit}")
    return Source(f"{_NAME} @ git+{root.as_uri()}@{commit}", note=_only_here(root))


def from_record(record: dict[str, Any] | None) -> Source:
    """The source that pip noted in `direct_url.json`; it notes none for an index.

    https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
    """
    if record is None:
        return Source(f"{_NAME}=={fairway_core.__version__}")
    url = str(record["url"])
    if vcs := record.get("vcs_info"):
        return Source(f"{_NAME} @ {vcs['vcs']}+{url}@{vcs['commit_id']}")
    if "dir_info" in record:
        return from_clone(_path(url))
    archive = record.get("archive_info") or {}
    given = (archive.get("hashes") or {}).get("sha256")
    digest = str(given or str(archive.get("hash") or "").removeprefix("sha256="))
    if urlsplit(url).scheme != "file":
        return Source(f"{_NAME} @ {url}" + (f"#sha256={digest}" if digest else ""))
    return _from_wheel(_path(url), digest)


def _from_wheel(wheel: Path, digest: str) -> Source:
    found = hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel.is_file() else ""
    digest = digest or found
    # pip replaces ${PWD} in requirements files, and takes no hash of a relative path.
    line = f"{_NAME} @ file://${{PWD}}/{WHEELS}/{wheel.name}"
    if digest:
        line += f"#sha256={digest}"
    if found and found == digest:
        return Source(line, wheel)
    return Source(
        line, note=f"{wheel} is no longer what was installed: put {wheel.name} into {WHEELS}/"
    )


def _only_here(root: Path) -> str:
    return (
        f"requirements.txt installs Fairway from {root}, which exists only on this machine: "
        "change that line before the workflows run"
    )


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def _url(remote: str) -> str:
    """The address of a remote as pip takes it, without a password; "" where others lack it.

    >>> _url("git@example.org:lab/fairway.git")
    'ssh://git@example.org/lab/fairway.git'
    >>> _url("https://me:token@example.org/lab/fairway")
    'https://example.org/lab/fairway'
    """
    parts = urlsplit(remote)
    if parts.scheme in ("http", "https"):
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.scheme in _OVER_SSH:
        return remote
    host, colon, path = remote.partition(":")
    return f"ssh://{host}/{path.lstrip('/')}" if colon and "/" not in host else ""


def _git(root: Path, *arguments: str) -> str:
    """Runs git and returns its output, or "" if it fails or is not installed."""
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
