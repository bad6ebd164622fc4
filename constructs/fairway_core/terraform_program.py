"""The program that plans and applies: Terraform, or OpenTofu, which reads the same files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fairway_core.findings import UserError

_REGISTRIES = {"terraform": "registry.terraform.io", "tofu": "registry.opentofu.org"}
_TITLES = {"terraform": "Terraform", "tofu": "OpenTofu"}
_INSTALL = {
    "terraform": "https://developer.hashicorp.com/terraform/install",
    "tofu": "https://opentofu.org/docs/intro/install",
}


def program() -> str:
    """Returns the program that FAIRWAY_TERRAFORM names, by name or path, or else the one on PATH,
    Terraform first. Raises UserError for another program."""
    chosen = os.environ.get("FAIRWAY_TERRAFORM", "")
    if not chosen:
        return next(filter(shutil.which, _REGISTRIES), "terraform")
    if _name(chosen) not in _REGISTRIES:
        raise UserError.of(
            "unknown-terraform",
            f"FAIRWAY_TERRAFORM is `{chosen}`",
            "use terraform or tofu, or the path of one",
        )
    return chosen


def command_name() -> str:
    """Returns the program's name as one types it, `terraform` or `tofu`, without its folder."""
    return _name(program())


def lock_file() -> str:
    """Returns the name of the program's lock file: each program has its own registry."""
    return f"{command_name()}.lock.hcl"


def registry() -> str:
    """Returns the registry host for providers whose source names none."""
    return _REGISTRIES[command_name()]


def title() -> str:
    """Returns the program's display name, such as `OpenTofu`."""
    return _TITLES[command_name()]


def how_to_install() -> str:
    """Returns a hint for an outdated program, or one that is not on PATH."""
    return f"install it: {_INSTALL[command_name()]}"


def missing(error: OSError | None = None) -> UserError:
    """Returns the error for a program that is not on PATH or does not run; exit code 4."""
    chosen, hint, needed = program(), how_to_install(), "Terraform or OpenTofu"
    if os.sep in chosen:
        hint = "set FAIRWAY_TERRAFORM to the path of terraform or tofu, or leave it out"
    if error is not None and shutil.which(chosen):
        is_script = isinstance(error, FileNotFoundError)
        why = "the interpreter in its first line is not there" if is_script else error.strerror
        state = f"`{chosen}` does not run: {why}"
    elif os.sep in chosen:
        state = f"`{chosen}` is not there, or not executable"
    elif os.environ.get("FAIRWAY_TERRAFORM"):
        state = f"{title()} is not on PATH"
    else:
        state, needed = "neither Terraform nor OpenTofu is on PATH", "one of them"
        hint = f"install Terraform: {_INSTALL['terraform']}\nor OpenTofu: {_INSTALL['tofu']}"
    message = f"{state}; plans need {needed}, 1.9 or newer"
    return UserError.of("no-terraform", message, hint, exit_code=4)


def _name(path: str) -> str:
    return Path(path).stem
