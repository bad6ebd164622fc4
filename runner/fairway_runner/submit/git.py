"""What git itself says of a folder of code; none of its files are read here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.quantities import few

if TYPE_CHECKING:
    from collections.abc import Iterable

_TIMEOUT = 20  # seconds


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    """Its answer; None where it is not there or takes too long."""
    try:
        return subprocess.run(
            ["git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *arguments],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def keeps(folder: Path) -> bool:
    """Whether a folder, which need not be there, is or would be in a work tree and not ignored."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    done = ask(there, "check-ignore", "--quiet", "--", str(folder.absolute()))
    return done is not None and done.returncode == 1


class Ignored:
    """Leaves out of a walk what Git ignores, each work tree by its own rules: those of links and of
    repositories within it too.

    UserError where the folder is no work tree, or git does not say.
    """

    def __init__(self, folder: Path) -> None:
        known = _ignored(folder)
        if known is None:
            raise _unknown(folder, "not a git repository")
        self.paths = known

    def __call__(self, path: str, entry: os.DirEntry[str]) -> bool:
        """Whether the path is left out."""
        if path in self.paths:
            return True
        if entry.is_dir() and (entry.is_symlink() or Path(entry.path, ".git").exists()):
            found = _ignored(Path(entry.path)) or ()
            self.paths |= {f"{path}/{each}" for each in found}
        return False


def ignored_yet_sent(folder: Path, paths: Iterable[str]) -> list[Finding]:
    """A warning that names those of the files that Git ignores; nothing where git does not say, and
    where these are all: then the folder itself is ignored."""
    try:
        known = _ignored(folder)
    except UserError:
        return []
    if not known:
        return []
    every = list(paths)
    found = [each for each in every if _is_in(known, PurePosixPath(each))]
    if not found or len(found) == len(every):
        return []
    message = f"the code holds {few(found)}, which Git ignores"
    hint = "leave such files out: code: {gitignore: true}, or say that they are meant: false"
    return [Finding("ignored-files", message, hint, "code", Severity.WARNING)]


def _is_in(known: set[str], path: PurePosixPath) -> bool:
    return any(str(each) in known for each in (path, *path.parents))


def _ignored(folder: Path) -> set[str] | None:
    """The paths below a folder that Git ignores, of a folder of which it ignores all that one
    alone; None where it is in no work tree."""
    # A repository's own settings may name a program that watches its files.
    safe = ("-c", "core.fsmonitor=false")
    whole = ask(folder, *safe, "check-ignore", "--quiet", "--", ".")
    if whole is not None and b"not a git repository" in whole.stderr:
        return None
    if whole is None or whole.returncode not in (0, 1):
        raise _unknown(folder, "" if whole is None else whole.stderr.decode(errors="replace"))
    # Within an ignored folder, git cannot name the folders that it ignores.
    folders = ("--directory",) if whole.returncode else ()
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z", *folders)
    listed = ask(folder, *safe, *words)
    if listed is None or listed.returncode:
        raise _unknown(folder, "" if listed is None else listed.stderr.decode(errors="replace"))
    return {os.fsdecode(each).rstrip("/") for each in listed.stdout.split(b"\0") if each}


def _unknown(folder: Path, said: str) -> UserError:
    lines = said.strip().splitlines() or ["git is not there, or does not answer"]
    message = f"`code.gitignore`: {folder}: {lines[0].removeprefix('fatal: ')}"
    hint = "\n".join(lines[1:]).strip() or "leave the field out, or make it a work tree: git init"
    return UserError([Finding("no-git", message, hint, "code.gitignore")])
