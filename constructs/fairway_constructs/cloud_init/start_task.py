"""Start task of Azure Batch: the cloud-config of a node as a script, without cloud-init.

Batch does not support custom data. So a script installs the packages, writes the files and runs the
commands of the cloud-config, and one description of a node serves scale sets and pools.
"""

from __future__ import annotations

import shlex
from typing import Any

from fairway_constructs.cloud_init import script, terraform_text

# Batch itself runs the script at each boot, and must see it fail.
_OWN_UNIT = "fairway-node.service"
_END = "END_OF_FAIRWAY_FILE"


def start_task_script(cloud_config: str) -> str:
    """Returns the start task of a node with that cloud-config, as bash.

    Raises ValueError for a part of it that a start task does not support.
    """
    from ruamel.yaml import YAML

    config: dict[str, Any] = YAML(typ="safe", pure=True).load(cloud_config)
    _require_known(config, {"bootcmd", "packages", "write_files", "runcmd"})
    lines = [script("batch_node.sh")]
    for entry in config.get("write_files", []):
        _require_known(entry, {"path", "permissions", "content"})
        path, content = entry["path"], entry["content"].removesuffix("\n")
        if _END in content:
            raise ValueError(f"{path} holds the line that ends it")
        if not path.endswith(_OWN_UNIT):
            mode = entry.get("permissions", "0644")
            lines.append(f"write_file {shlex.quote(path)} {mode} <<'{_END}'\n{content}\n{_END}")
    lines += [shlex.join(command) for command in config.get("bootcmd", [])]
    lines.append(f"install_packages {shlex.join(config.get('packages', []))}")
    lines += [
        shlex.join(command) for command in config.get("runcmd", []) if _OWN_UNIT not in command
    ]
    lines += ["/usr/local/sbin/fairway-node", 'say "ready"']
    return "\n".join(lines) + "\n"


def start_task_command(cloud_config: str) -> str:
    """Returns the command line of that start task, as a Terraform expression.

    Batch starts no shell, and only interprets spaces and quotes in the text: the script is passed
    compressed, in base64.
    """
    packed = f"${{base64gzip({terraform_text(start_task_script(cloud_config))})}}"
    unpack = f"set -o pipefail; echo {packed} | base64 -d | gunzip > start_task.sh"
    return f"/bin/bash -c '{unpack} && exec bash start_task.sh'"


def _require_known(part: dict[str, Any], known: set[str]) -> None:
    if unknown := part.keys() - known:
        raise ValueError(f"a start task does not know {', '.join(sorted(unknown))}")
