"""Shared by the tests of constructs: a stack to build in, and what cloud-init makes of it."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import finished, tool
from ruamel.yaml import YAML
from tests.constructs.bindings.validator import validate

from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.cdk import App, Stack
from fairway_constructs.placement import Placement
from fairway_constructs.scope import put


@pytest.fixture
def place() -> Placement:
    """An existing resource group."""
    return Placement(
        environment="lab",
        resource_group="lab-rg-test",
        location="westeurope",
        zone=2,
        tags={"owner": "me", "environment": "lab"},
        ssh_keys=["ssh-ed25519 AAAA me"],
    )


class ShortStack(Stack):
    """A stack whose resources have their ids for addresses."""

    short_addresses = True


@pytest.fixture
def stack(place: Placement) -> Stack:
    """A stack to build in, where nothing is to be written."""
    made = ShortStack(App(), "lab-test")
    put(made, place)
    return made


@pytest.fixture
def synthesize(tmp_path: Path, place: Placement) -> Callable[..., dict[str, Any]]:
    """Builds in a new stack and answers with its Terraform, which the provider would take.

    The stack has `place`, with what is `different` there.
    """

    def synthesize(build: Callable[[Stack], object], **different: Any) -> dict[str, Any]:
        app = App(outdir=str(tmp_path / "cdktf.out"))
        stack = ShortStack(app, "lab-test")
        put(stack, replace(place, **different))
        AzurermProvider(stack)
        build(stack)
        app.synth()
        file = tmp_path / "cdktf.out" / "stacks" / "lab-test" / "cdk.tf.json"
        document: dict[str, Any] = json.loads(file.read_text())
        assert not list(validate(document))
        return document

    return synthesize


@pytest.fixture(scope="session")
def cloud_config() -> Callable[[str], dict[str, Any]]:
    """Reads the cloud-config in a VM's custom data, with `@@0@@` for what Terraform fills in."""

    def cloud_config(custom_data: str) -> dict[str, Any]:
        encoded = re.search(r'base64decode\("([^"]+)"\)', custom_data)
        text = base64.b64decode(encoded[1] if encoded else custom_data).decode()
        assert text.startswith("#cloud-config\n")
        document: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
        return {**document, "text": text}

    return cloud_config


@pytest.fixture
def check_cloud_config(tmp_path: Path) -> Callable[[str], None]:
    """Holds a cloud-config against cloud-init's own schema, and its scripts against shellcheck."""
    cloud_init = tool("cloud-init", "apt-get install -y cloud-init")
    shellcheck = tool("shellcheck", "bin/setup dev")

    def check(text: str) -> None:
        file = tmp_path / "cloud-config.yaml"
        file.write_text(text)
        command = [cloud_init, "schema", "--config-file", str(file)]
        done = finished(command)
        assert done.returncode == 0, done.stdout + done.stderr
        scripts = [
            entry["content"]
            for entry in YAML(typ="safe", pure=True).load(text)["write_files"]
            if entry["content"].startswith("#!")
        ]
        assert scripts
        for number, script in enumerate(scripts):
            file = tmp_path / f"script-{number}.sh"
            file.write_text(script)
            done = finished([shellcheck, str(file)])
            assert done.returncode == 0, done.stdout

    return check
