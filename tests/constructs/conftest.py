"""Fixtures of construct tests: a stack to build in, and checks of its cloud-config."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from programs import finished, tool
from ruamel.yaml import YAML
from tests.constructs.bindings.validator import validate
from tests.stacks.documents import decoded, files_of

from fairway_constructs.azure_scope import AzureScope
from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.cdk import App, Stack
from fairway_constructs.scope import set_azure_scope


@pytest.fixture(scope="session")
def azure() -> AzureScope:
    """Returns an existing resource group."""
    return AzureScope(
        environment="lab",
        resource_group="lab-rg-test",
        location="westeurope",
        zone=2,
        tags={"owner": "me", "environment": "lab"},
        ssh_keys=["ssh-ed25519 AAAA me"],
    )


class ShortStack(Stack):
    """A stack whose resources use their ids as addresses."""

    short_addresses = True


@pytest.fixture
def stack(azure: AzureScope) -> Stack:
    """Returns a stack to build in without writing anything."""
    made = ShortStack(App(), "lab-test")
    set_azure_scope(made, azure)
    return made


@pytest.fixture(scope="session")
def synthesize(
    tmp_path_factory: pytest.TempPathFactory, azure: AzureScope
) -> Callable[..., dict[str, Any]]:
    """Builds in a new stack and returns its Terraform, validated against the provider's schema.

    The stack has `azure`, with the fields in `different` replaced.
    """

    def synthesize(build: Callable[[Stack], object], **different: Any) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("cdktf.out")
        app = App(outdir=str(folder))
        stack = ShortStack(app, "lab-test")
        set_azure_scope(stack, replace(azure, **different))
        AzurermProvider(stack)
        build(stack)
        app.synth()
        file = folder / "stacks" / "lab-test" / "cdk.tf.json"
        document: dict[str, Any] = json.loads(file.read_text())
        assert not list(validate(document))
        return document

    return synthesize


@pytest.fixture(scope="session")
def cloud_config() -> Callable[[str], dict[str, Any]]:
    """Parses the cloud-config in custom data, with `@@0@@` for values that Terraform fills in; its
    files are by path."""

    def cloud_config(custom_data: str) -> dict[str, Any]:
        text = decoded(custom_data)
        assert text.startswith("#cloud-config\n")
        document: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
        return {**document, "text": text, "files": files_of(text)}

    return cloud_config


_SCHEMA = (
    "import json; from cloudinit.config.schema import get_schema; print(json.dumps(get_schema()))"
)


@pytest.fixture(scope="session")
def check_cloud_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Validates a cloud-config with cloud-init's own schema and its scripts with shellcheck, which
    checks scripts shared by many machines once."""
    cloud_init = tool("cloud-init", "apt-get install -y cloud-init")
    shellcheck = tool("shellcheck", "bin/setup dev")
    with Path(cloud_init).open() as program:
        python = program.readline().removeprefix("#!").split()
    schema = json.loads(finished([*python, "-c", _SCHEMA], check=True).stdout)
    validator = jsonschema.Draft4Validator(schema)
    sound: set[str] = set()

    def check(text: str) -> None:
        assert text.startswith("#cloud-config\n")
        reader = YAML(typ="safe", pure=True)
        reader.version = (1, 1)  # type: ignore[assignment]  # cloud-init's
        document = reader.load(text)
        validator.validate(document)
        scripts = {each["content"] for each in document["write_files"]}
        scripts = {each for each in scripts if each.startswith("#!")}
        assert scripts
        if new := scripts - sound:
            folder = tmp_path_factory.mktemp("scripts")
            for number, script in enumerate(new):
                (folder / f"{number}.sh").write_text(script)
            done = finished([shellcheck, *folder.iterdir()])
            assert done.returncode == 0, done.stdout
            sound.update(new)

    return check
