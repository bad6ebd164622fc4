"""A small provider schema that covers every feature, and the package generated from it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fairway_constructs.bindings.facts import Facts
from fairway_constructs.bindings.generate import write_package
from fairway_constructs.bindings.provider_schema import read_provider_schema


@pytest.fixture(scope="session")
def schema_file() -> Path:
    """Returns an invented provider's schema in the format of `terraform providers schema -json`."""
    return Path(__file__).with_name("schema.json")


@pytest.fixture(scope="session")
def facts(schema_file: Path) -> Facts:
    """Returns facts about the resource and the data source `azurerm_probe`."""
    return read_provider_schema(
        schema_file, "hashicorp/azurerm", ["azurerm_probe"], ["azurerm_probe"], "9.8.7"
    )


@pytest.fixture(scope="session")
def probe(facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Imports and returns the generated module `probe`."""
    return _generated(facts, tmp_path_factory.mktemp("package"), "probe")


@pytest.fixture(scope="session")
def data_probe(facts: Facts, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Imports and returns the generated module `data_probe`."""
    return _generated(facts, tmp_path_factory.mktemp("package"), "data_probe")


def _generated(facts: Facts, package: Path, name: str) -> ModuleType:
    write_package(facts, package)
    spec = importlib.util.spec_from_file_location(f"generated_{name}", package / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks up its module by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
