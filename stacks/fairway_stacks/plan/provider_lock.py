"""The project's own lock file: the provider that may run, by its hashes on every platform.

It lies beside cdktf.json, as the stacks' folders may be removed at any time. With it Terraform
downloads and runs no other provider, whatever a configuration or a state names.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_constructs.azurerm import PROVIDER_SOURCE, PROVIDER_VERSION
from fairway_core.environment.selection import project_folder
from fairway_core.findings import UserError
from fairway_core.terraform_program import lock_file, registry
from fairway_stacks.plan.terraform import Terraform, require

if TYPE_CHECKING:
    from collections.abc import Sequence

PLATFORMS = ("darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64")
"""Platforms on which users and workflows run Terraform, in Terraform's spelling."""

_OWN = ".terraform.lock.hcl"
_LOCKED = re.compile(r'\bprovider\s+"([^"]*)"')
_PLATFORM = re.compile(r"[a-z0-9]+_[a-z0-9]+")


def lock_of_project() -> Path | None:
    """Returns the project's lock file, or None if it has none."""
    project = project_folder()
    lock = project / lock_file() if project else None
    return lock if lock is not None and lock.is_file() else None


def write_lock(platforms: Sequence[str], mirror: Path | None, *, upgrade: bool) -> Path:
    """Writes the lock file for these platforms and returns it.

    The version in an existing lock file stays, except with `upgrade`. `mirror` is a folder with
    providers, in case the registry is out of reach. Raises UserError with exit code 4 if a
    platform's provider cannot be fetched.
    """
    for platform in platforms:
        if not _PLATFORM.fullmatch(platform):
            message = f"`{platform}` is not a platform of Terraform"
            raise UserError.of("no-platform", message, f"such as {', '.join(PLATFORMS)}")
    require()
    lock = _project() / lock_file()
    with tempfile.TemporaryDirectory(prefix="fairway-lock-") as text:
        folder = Path(text)
        write_requirements(folder)
        if lock.is_file() and not upgrade:
            shutil.copyfile(lock, folder / _OWN)
        Terraform("the lock", folder, {"CHECKPOINT_DISABLE": "1"}).lock_providers(platforms, mirror)
        written = (folder / _OWN).read_bytes()
    _require_ours(lock, written.decode())
    draft = lock.with_name(f".{lock.name}.new")
    draft.write_bytes(written)
    draft.replace(lock)
    return lock


def write_requirements(folder: Path) -> None:
    """Writes a configuration into the folder that only requires the provider."""
    needs = {"azurerm": {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}}
    document = {"terraform": {"required_providers": needs}}
    (folder / "cdk.tf.json").write_text(json.dumps(document), encoding="utf-8")


def check_lock() -> Path:
    """Returns the lock file. Raises UserError if it, its provider or the hashes are missing."""
    lock = _project() / lock_file()
    try:
        text = lock.read_text(encoding="utf-8")
    except FileNotFoundError:
        message = f"{lock} is not there: any provider that a state names could run"
        raise UserError.of("no-lock", message, _make()) from None
    except (OSError, ValueError) as error:
        raise UserError.of("no-lock", f"{lock} cannot be read: {error}", _make()) from None
    _require_ours(lock, text)
    return lock


def _require_ours(lock: Path, text: str) -> None:
    """Raises UserError unless the text locks the registry's own azurerm, and no other."""
    # Terraform resolves a source without a host to this; a state can name another registry's.
    address = f"{registry()}/{PROVIDER_SOURCE}"
    block = re.search(rf'^provider "{re.escape(address)}" {{$(.*?)^}}$', text, re.M | re.S)
    if block is None or not re.search(r'^\s*"(?:h1|zh):[^"]+",$', block[1], re.M):
        raise UserError.of("no-lock", f"{lock} has no hashes of {address}", _make())
    name = PROVIDER_SOURCE.rpartition("/")[2]
    others = [each for each in _LOCKED.findall(text) if each.rpartition("/")[2] == name]
    foreign = sorted(set(others) - {address})
    if foreign:
        message = f"{lock} also locks {', '.join(foreign)}, which a state could name"
        raise UserError.of(
            "foreign-lock", message, f"write it again: fairway lock && git add {lock.name}"
        )


def _make() -> str:
    return f"make it and commit it: fairway lock && git add {lock_file()}"


def _project() -> Path:
    project = project_folder()
    if project is None:
        message = "no project is here: no cdktf.json in this folder or above it"
        raise UserError.of("no-project", message, "go to the project's folder, or: fairway init")
    return project
