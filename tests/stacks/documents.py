"""The environment files of these tests by name, and readers of an environment's synthesized stacks,
by role as `written` returns them."""

import base64
import io
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from fairway_core.target import Target

_HERE = Path(__file__).parent
ENVIRONMENTS = sorted((_HERE.parents[1] / "stacks/environments").glob("*.yaml"))
SECTIONS = sorted((_HERE / "sections").glob("*.yaml"))
FILES = {file.stem: file for file in (*ENVIRONMENTS, *SECTIONS)}

Stacks = dict[str, dict[str, Any]]
Written = Callable[..., Stacks]


def resources_of(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the resources of a stack by address."""
    return {
        f"{kind}.{name}": body
        for kind, named in document.get("resource", {}).items()
        for name, body in named.items()
    }


def only(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """Returns the only resource of its type in a stack."""
    (body,) = document["resource"][kind].values()
    return dict(body)


def targets_of(stacks: Stacks) -> dict[str, Target]:
    """Returns the targets of jobs by name, parsed as the runner does."""
    records = stacks["compute"]["output"]["targets"]["value"]
    return {each["name"]: Target.from_json(each) for each in records}


def decoded(text: str) -> str:
    """Decodes a text that Azure gets in base64, with `@@0@@` for values that Terraform fills in."""
    found = re.search(r'base64decode\("([^"]+)"\)', text)
    return base64.b64decode(found[1] if found else text).decode()


def boot_data(machine: dict[str, Any]) -> str:
    """Returns the decoded boot data of a machine."""
    return decoded(machine["custom_data"])


def files_of(cloud_config: str) -> dict[str, str]:
    """Returns the files that cloud-init writes, by path."""
    document = YAML(typ="safe", pure=True).load(cloud_config)
    return {entry["path"]: entry["content"] for entry in document["write_files"]}


def files_at_boot(machine: dict[str, Any]) -> dict[str, str]:
    """Returns the files that cloud-init writes on a machine, by path."""
    return files_of(boot_data(machine))


@contextmanager
def package_of(files: dict[str, str]) -> Iterator[tarfile.TarFile]:
    """Opens the package of Fairway's programs among the files of a machine."""
    (packed,) = (text for path, text in files.items() if path.endswith(".tar.bz2"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as tar:
        yield tar
