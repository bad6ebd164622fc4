"""Where a run came from: the repository's commit and what differed from it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_runner.jobs.project_sandbox import known_git
from fairway_runner.submit.git import ask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LARGEST_DIFF = 2**20


def provenance(folder: Path, template: str, code_digest: str) -> tuple[dict[str, Any], str]:
    """What is kept beside a run, and the diff against its commit ("" where there is none).

    `template` is the text of the launcher's template.
    """
    git, diff = git_facts(folder)
    facts = {
        "fairway": fairway_core.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "user": _user(),
        "code": code_digest,
        "template": _sha256(template),
        "git": git,
        **({} if known_git() is None else {"sent": True}),
    }
    if len(diff) > _LARGEST_DIFF:
        diff = diff[:_LARGEST_DIFF] + "\n(the rest of the diff is omitted)\n"
    return facts, diff


def git_facts(folder: Path) -> tuple[Mapping[str, Any], str]:
    """The commit of a folder, whether something differs from it, and how; of code that was sent
    here, what was said of it, without how."""
    if (known := known_git()) is not None:
        return known, ""
    commit = _git(folder, "rev-parse", "HEAD")
    diff = _git(folder, "diff", "HEAD", "--", ".") if commit else ""
    untracked = _git(folder, "ls-files", "--others", "--exclude-standard", "--", ".")
    facts = {
        "commit": commit.strip() or None,
        "dirty": bool(diff or untracked),
        "untracked": untracked.splitlines(),
    }
    return facts, diff


def _user() -> str | None:
    """The name by which the submitter is logged in on this machine."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number that nobody has, as in some containers
        return None


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _git(folder: Path, *arguments: str) -> str:
    """What git says of the folder; "" where it is no repository or git is not there."""
    done = ask(folder, *arguments)
    return "" if done is None or done.returncode else done.stdout.decode("utf-8", "replace")
