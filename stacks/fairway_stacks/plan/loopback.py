"""Plans without an Azure account: a stand-in for Azure, and states in a folder of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_stacks.plan.stacks import StackFolder

_FAILED = 5
_STATE = "terraform_remote_state"
# What cdktf puts before the name of the stack whose outputs another one reads.
_INPUT = "cross-stack-reference-input-"


@contextmanager
def loopback_azure() -> Iterator[dict[str, str]]:
    """Runs the stand-in; yields the variables by which the provider takes it for Azure.

    It ends with this process, whatever becomes of that: it holds the other end of a pipe.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "fairway_simulator.azure"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        line = program.stdout.readline()
        if not line:
            message = "the stand-in for Azure did not start"
            raise UserError.of("no-stand-in", message, exit_code=_FAILED)
        try:
            yield json.loads(line)
        finally:
            program.stdin.close()


# What a user has set for the real Azure; nothing of it may reach the stand-in's provider.
FOREIGN = ("ARM_", "AZURE_", "TF_CLI_ARGS", "TF_WORKSPACE", "TF_DATA_DIR", "TF_VAR_")


def keep_states_in(folder: Path, stacks: Sequence[StackFolder]) -> None:
    """Makes the synthesized stacks keep their states, and find each other's, in `folder`."""
    for stack in stacks:
        file = stack.folder / "cdk.tf.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        document["terraform"]["backend"] = {"local": {"path": _state(folder, stack.name)}}
        for name, source in document.get("data", {}).get(_STATE, {}).items():
            source["backend"] = "local"
            source["config"] = {"path": _state(folder, name.removeprefix(_INPUT))}
        file.write_text(json.dumps(document, indent=1), encoding="utf-8")


# The provider takes a key only from a host called NAME.vault.SOMETHING, and the stand-in is at
# localhost. Source: azurerm provider, parseNameFromBaseUrl in services/keyvault/client.
_KEY_IN_VAULT = re.compile(r"\$\{(azurerm_key_vault\.[\w-]+)\.vault_uri\}keys/")


def name_vaults_in_keys(stacks: Sequence[StackFolder]) -> None:
    """Makes the urls of keys those that Azure would give, in place of the stand-in's own."""
    for stack in stacks:
        file = stack.folder / "cdk.tf.json"
        text = file.read_text(encoding="utf-8")
        file.write_text(_KEY_IN_VAULT.sub(_named_url, text), encoding="utf-8")


def _named_url(match: re.Match[str]) -> str:
    return f"https://${{{match[1]}.name}}.vault.azure.net/keys/"


def _state(folder: Path, stack: str) -> str:
    return str(folder / f"{stack}.tfstate")
