"""Writes a project into a folder: all files or none, with the source of the running Fairway."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import fairway_core
from fairway_core.catalog.limits import regions_without_zones
from fairway_core.checks import check_environment
from fairway_core.environment import read_environment
from fairway_core.environment.keys import NOBODYS_KEY
from fairway_core.environment.values import EnvironmentName
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.starter import answers
from fairway_runner.starter.answers import Answers, validated
from fairway_runner.submit.snapshot import ask_git, is_kept_by_git, output_of

DISTRIBUTION = "fairway-hpc"
WHEELS = Path("wheels")
"""Folder of a project that holds the wheel, if no server has it."""

# The extra brings a Node.js for cdktf.
_EXTRA = "[node]"
_NAME = f"{DISTRIBUTION}{_EXTRA}"
# Only exists in a clone, not in a wheel.
_CLONE = Path(__file__).resolve().parents[3]
# Folders of a clone that hold what runs.
_SOURCES = ("constructs", "job_templates", "runner", "simulators", "stacks")


@dataclass(frozen=True)
class Source:
    """A line of requirements.txt, the wheel to copy into the project, and remaining steps."""

    requirement: str
    wheel: Path | None = None
    note: str = ""


def installed_source() -> Source:
    """Returns the source of the running Fairway."""
    if (_CLONE / "runner/fairway_runner").is_dir():
        return from_clone(_CLONE)
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        recorded = None
    return from_record(json.loads(recorded) if recorded else None)


def from_clone(root: Path) -> Source:
    """Returns the commit of a clone, at its `origin` if it has one."""
    top, commit = _git(root, "rev-parse", "--show-toplevel"), _git(root, "rev-parse", "HEAD")
    if not commit or Path(top).resolve() != root.resolve():
        return Source(f"{_NAME} @ {root.as_uri()}", note=_only_here(root))
    origin = _url(_git(root, "remote", "get-url", "origin"))
    if origin:
        return Source(f"{_NAME} @ git+{origin}@{commit}", note=_unpushed(root, commit))
    return Source(f"{_NAME} @ git+{root.as_uri()}@{commit}", note=_only_here(root))


def from_record(record: dict[str, Any] | None) -> Source:
    """Returns the source that pip has recorded; it records none for an index.
    https://packaging.python.org/en/latest/specifications/direct-url-data-structure/"""
    if record is None:
        return Source(f"{_NAME}=={fairway_core.__version__}")
    url = str(record["url"])
    if vcs := record.get("vcs_info"):
        note = _only_here(_path(url)) if urlsplit(url).scheme == "file" else ""
        return Source(f"{_NAME} @ {vcs['vcs']}+{url}@{vcs['commit_id']}", note=note)
    if "dir_info" in record:
        return from_clone(_path(url))
    archive = record.get("archive_info") or {}
    given = (archive.get("hashes") or {}).get("sha256")
    digest = str(given or str(archive.get("hash") or "").removeprefix("sha256="))
    if urlsplit(url).scheme != "file":
        return Source(f"{_NAME} @ {url}" + (f"#sha256={digest}" if digest else ""))
    wheel = _path(url)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel.is_file() else ""
    digest = digest or found
    # A URL would have to be absolute, and for a path pip accepts no hash.
    line = f"./{WHEELS}/{wheel.name}{_EXTRA}"
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


def _unpushed(root: Path, commit: str) -> str:
    """Returns a note if the origin may lack the code that is running; else ""."""
    # A clone of one tag has no branch of the origin; in another a tag may be nowhere else.
    refs = "refs/remotes/origin" if _git(root, "branch", "--remotes") else "refs/tags"
    known = _git(root, "for-each-ref", f"--contains={commit}", refs)
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    if known and not (changed or _git(root, "ls-files", "-o", "--exclude-standard", *_SOURCES)):
        return ""
    lacking = "changes that are not committed" if known else f"commits up to {commit[:12]}"
    return (
        f"requirements.txt installs Fairway from the origin of {root}, which lacks its {lacking}: "
        "push them, and name their commit in that line, before the workflows run"
    )


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def _url(remote: str) -> str:
    """Returns the address of a remote for pip, without a password; "" if only this machine has it.

    >>> _url("git@example.org:lab/fairway.git")
    'ssh://git@example.org/lab/fairway.git'
    >>> _url("https://me:token@example.org/lab/fairway")
    'https://example.org/lab/fairway'
    """
    parts = urlsplit(remote)
    if parts.scheme in ("http", "https"):
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.scheme in ("ssh", "git", "git+ssh", "ssh+git"):
        return urlunsplit(parts._replace(scheme="git" if parts.scheme == "git" else "ssh"))
    # Not a drive (C:/), another scheme or a helper (ext::).
    found = re.fullmatch(r"(?![A-Za-z]:[/\\])([^/:]+):(?!//|:)/*(.+)", remote)
    return f"ssh://{found[1]}/{found[2]}" if found else ""


def _git(root: Path, *arguments: str) -> str:
    return output_of(ask_git(root, *arguments)).strip()


_FILES = Path(__file__).with_name("files")
_SUFFIX = ".in"
# Under their own names, git and GitHub would use them in this repository.
_RENAMED = {"gitignore": ".gitignore", "github": ".github"}

# Errors of a check that itself explains when to ignore it.
_MAY_BE_MEANT = frozenset({"no-infiniband"})
_GATEWAY = """
  # A small VM by which storage and Batch are reached, which have no public address.
  gateway: true"""
_NOBODYS_COMMENT = (
    " Nobody has the private half of this key: put your own\n"
    "  # public key in its place (`ssh-keygen -t ed25519` makes one)."
)


@dataclass(frozen=True)
class Settings:
    """Settings of a new project: the environment's name, the answers, keys for SSH."""

    name: str
    answers: Answers = field(default_factory=lambda: Answers.of({}))
    ssh_keys: tuple[str, ...] = ()
    project_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    source: Source = field(default_factory=installed_source)

    @classmethod
    def checked(
        cls, name: str | None, folder: Path, ssh_keys: tuple[str, ...], given: Mapping[str, Any]
    ) -> Settings:
        """Returns the settings, by default named like the folder. Raises UserError if Azure would
        refuse one."""
        name = validated("--name", EnvironmentName, name or name_from(folder))
        return cls(name, Answers.of(given), ssh_keys)

    @cached_property
    def known(self) -> list[Finding]:
        """Findings of `fairway check` on these answers, except those about the placeholders for a
        key and an address. Raises UserError for an error that only another answer can fix."""
        template = _FILES / "environments" / f"NAME.yaml{_SUFFIX}"
        with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
            (file := Path(folder, "environment.yaml")).write_bytes(
                _filled(template, {**self._replacements(), "CHECKS": ""})
            )
            try:
                found = check_environment(read_environment(file).environment)
            except UserError as error:
                # The named file is temporary.
                raise UserError(replace(each, location=None) for each in error.findings) from None
        errors = [
            each
            for each in found
            if each.severity is Severity.ERROR and each.id not in _MAY_BE_MEANT
        ]
        if errors:
            raise UserError(errors)
        return [each for each in found if each.id != "placeholder"]

    def replacements(self) -> dict[str, str]:
        """Returns the replacement for each name between two @."""
        return {**self._replacements(), "CHECKS": answers.checks(self.known)}

    def _replacements(self) -> dict[str, str]:
        keys, email = self.ssh_keys or (NOBODYS_KEY,), self.answers.email
        return {
            "NAME": self.name,
            # YAML takes the plain words for something else.
            "NAME_TEXT": f'"{self.name}"' if self.name in ("true", "false", "null") else self.name,
            "LOCATION": self.answers.location,
            "ZONE": "none" if self.answers.location in regions_without_zones() else "1",
            # Plain if possible, otherwise quoted: an address may start like a YAML alias.
            "EMAIL": email if re.fullmatch(r"\w[\w.+-]*@[\w.-]+", email) else json.dumps(email),
            "BUDGET": str(self.answers.budget),
            "CLUSTER": self.answers.cluster,
            "CLUSTERS": answers.clusters(self.answers),
            # Without another VM that leads to storage and Batch.
            "WAYS": _GATEWAY if self.answers.engine == "batch" else "",
            "REQUIREMENT": self.source.requirement,
            "PROJECT_ID": self.project_id,
            # JSON's quoting is valid YAML, and the comment of a key may contain anything.
            "KEYS": "\n".join(f"    - {json.dumps(key, ensure_ascii=False)}" for key in keys),
            "KEY_COMMENT": "" if self.ssh_keys else _NOBODYS_COMMENT,
        }


def name_from(folder: Path) -> str:
    """Returns a name for an environment similar to the folder's: 2 to 12 letters, digits, hyphens.

    >>> name_from(Path("/home/me/Vision_Lab-2026-final"))
    'vision-lab-2'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).lstrip("-0123456789")
    name = plain[:12].strip("-")
    return name if len(name) > 1 else "lab"


def project_files(settings: Settings, *, in_git: bool) -> Iterator[tuple[Path, bytes]]:
    """Yields each file of the project by its path; `in_git` says that it is in a work tree."""
    replacements = {**settings.replacements(), "GITIGNORE": "" if in_git else "# "}
    for file in sorted(_FILES.rglob(f"*{_SUFFIX}")):
        parts = [_RENAMED.get(part, part) for part in file.relative_to(_FILES).parts]
        parts[-1] = parts[-1].removesuffix(_SUFFIX)
        parts[-1] = _RENAMED.get(parts[-1], parts[-1]).replace("NAME", settings.name)
        yield Path(*parts), _filled(file, replacements)
    if wheel := settings.source.wheel:
        yield WHEELS / wheel.name, wheel.read_bytes()


def _filled(file: Path, replacements: Mapping[str, str]) -> bytes:
    text = file.read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: replacements[match[1]], text).encode()


def write_project(folder: Path, settings: Settings) -> list[Path]:
    """Writes the project's files and returns their paths. Raises UserError with nothing written."""
    hint = "name an empty folder: fairway init FOLDER"
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError.of("file-exists", f"{folder} is no folder; nothing was written", hint)
    files = dict(project_files(settings, in_git=is_kept_by_git(folder)))
    taken = dict.fromkeys(filter(None, (_in_the_way(folder, path) for path in files)))
    if taken:
        there = ", ".join(map(str, taken))
        message = f"already in {folder}: {there}; nothing was written"
        raise UserError.of("file-exists", message, hint)
    made: list[Path] = []
    try:
        for path, content in files.items():
            for parent in reversed((folder / path).parents):
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
            # `x`: never overwrite a file that appeared after the check.
            with (folder / path).open("xb") as file:
                made.append(folder / path)
                file.write(content)
    except OSError as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        message = f"{error.filename}: {error.strerror}; nothing was written"
        raise UserError.of("unwritable-folder", message, "name another folder") from None
    return list(files)


def _in_the_way(folder: Path, path: Path) -> Path | None:
    """Returns a path that has the name of the file, or of one of its folders and is none."""
    for parent in reversed(path.parents):
        if os.path.lexists(folder / parent) and not (folder / parent).is_dir():
            return parent
    return path if os.path.lexists(folder / path) else None
