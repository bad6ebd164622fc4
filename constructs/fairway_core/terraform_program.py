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
    Terraform first.

    Raises UserError for another program.
    """
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


def lock_file() -> str:
    """Returns the name of the program's lock file: each program has its own registry."""
    return f"{_name(program())}.lock.hcl"


def registry() -> str:
    """Returns the registry host for providers whose source names none."""
    return _REGISTRIES[_name(program())]


def title() -> str:
    """Returns the program's display name, such as `OpenTofu`."""
    return _TITLES[_name(program())]


def how_to_install() -> str:
    """Returns a hint for a missing or outdated program, or for a variable that names another."""
    if _is_path(program()):
        return "set FAIRWAY_TERRAFORM to the path of terraform or tofu, or leave it out"
    return f"install it: {_INSTALL[_name(program())]}"


def missing(error: OSError | None = None) -> UserError:
    """Returns the error for a program that is not on PATH or does not run; exit code 4."""
    if error is not None:
        state = f"`{program()}` does not run: {error.strerror}"
    elif _is_path(program()):
        state = f"`{program()}` is not there, or not executable"
    else:
        state = f"{title()} is not on PATH"
    message = f"{state}; plans need {title()}, 1.9 or newer"
    return UserError.of("no-terraform", message, how_to_install(), exit_code=4)


def _is_path(chosen: str) -> bool:
    return os.sep in chosen


def _name(path: str) -> str:
    return Path(path).stem
