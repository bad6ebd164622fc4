"""Output of the generator from a small schema and from the kept facts."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import finished

from fairway_constructs.bindings import generate as generate_module
from fairway_constructs.bindings.facts import KEPT, Facts, kept_facts
from fairway_constructs.bindings.generate import PACKAGE, SELECTION, generate, main
from fairway_constructs.bindings.provider_schema import read_provider_schema
from fairway_constructs.bindings.render import render
from fairway_core.findings import UserError

_SELECTION = """
provider = "hashicorp/azurerm"
resources = ["azurerm_probe"]
data_sources = ["azurerm_probe"]
"""


def test_generate_renders_small_schema_as_golden_files(facts: Facts, schema_file: Path) -> None:
    golden = {file.stem: file.read_text() for file in schema_file.parent.glob("golden/*.txt")}
    assert render(facts) == golden


def test_generate_reproduces_the_committed_bindings() -> None:
    written = {file.name: file.read_text() for file in PACKAGE.glob("*.py")}
    assert written == render(kept_facts())


def test_facts_kept_match_selection_in_canonical_form() -> None:
    selection = tomllib.loads(SELECTION.read_text())
    assert set(kept_facts().resources) == set(selection["resources"])
    assert set(kept_facts().data_sources) == set(selection["data_sources"])
    assert kept_facts().provider == selection["provider"]
    assert kept_facts().to_text() == KEPT.read_text()


def test_facts_round_trip_through_text(facts: Facts) -> None:
    assert Facts.from_text(facts.to_text()) == facts
    assert '   "ports": [["list", "number"], "optional"],\n' in facts.to_text()


def test_facts_id_is_settable_only_if_required(facts: Facts) -> None:
    assert not facts.resources["azurerm_probe"].attributes["id"].settable
    assert facts.data_sources["azurerm_probe"].attributes["id"].required


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Generates into the test's folder and returns that folder."""
    selection = tmp_path / "selection.toml"
    selection.write_text(_SELECTION)

    def run(schema: Path | None, version: str | None = None) -> Path:
        generate(
            schema,
            version,
            selection_file=selection,
            kept=tmp_path / "azurerm.json",
            package=tmp_path / "azurerm",
        )
        return tmp_path

    return run


def test_generate_without_a_schema_reproduces_the_package(
    run: Callable[..., Path], schema_file: Path
) -> None:
    folder = run(schema_file, "9.8.7")
    first = {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}
    assert folder / "azurerm" / "data_probe.py" in first
    (folder / "azurerm" / "stale.py").write_text("gone")
    (folder / "azurerm" / "probe.py").write_text("edited")
    run(None)
    assert {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()} == first


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "does not say which version of hashicorp/azurerm"),
        ("5", "5 is no version of hashicorp/azurerm"),
    ],
)
def test_generate_from_schema_requires_provider_version(
    run: Callable[..., Path], schema_file: Path, version: str | None, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        run(schema_file, version)


def test_generate_writes_provider_version_in_headers_and_constraint(
    run: Callable[..., Path], schema_file: Path
) -> None:
    package = run(schema_file, "10.11.12") / "azurerm"
    assert 'PROVIDER_VERSION = "~> 10.11"' in (package / "__init__.py").read_text()
    for file in package.glob("*.py"):
        assert "hashicorp/azurerm 10.11.12; written by bin/bindings" in file.read_text()


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        (["azurerm_prob"], "hashicorp/azurerm 1.2.3 has no azurerm_prob"),
        (["azurerm_unused"], "azurerm_unused.x: is an attribute with nested attributes"),
        (
            ["azurerm_strange"],
            "azurerm_strange.odd: is a block nested as a map, which the generator cannot write",
        ),
    ],
)
def test_generate_refuses_unknown_or_unsupported_resource(
    schema_file: Path, resources: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read_provider_schema(schema_file, "hashicorp/azurerm", resources, [], "1.2.3")
    assert caught.value.exit_code == 2
    assert caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"{", "schema.json: is not JSON: "),
        (b"\xff\xfe\xff", "is not JSON"),
        (b"[]", "holds no schema of hashicorp/azurerm"),
        (b"{}", "holds no schema of hashicorp/azurerm"),
        (b'{"provider_schemas": {"x/hashicorp/other": {}}}', "holds no schema of"),
        (b'{"provider_schemas": []}', "holds no whole schema of"),
        (b'{"provider_schemas": {"x/hashicorp/azurerm": 5}}', "holds no whole schema of"),
    ],
)
def test_generate_refuses_a_file_that_is_not_a_schema(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "schema.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_provider_schema(file, "hashicorp/azurerm", [], [], "1.2.3")


def test_generate_refuses_selected_resource_without_facts(
    run: Callable[..., Path], schema_file: Path
) -> None:
    folder = run(schema_file, "9.8.7")
    (folder / "selection.toml").write_text(_SELECTION.replace("probe", "probe_two", 1))
    with pytest.raises(UserError, match=r"azurerm\.json: has no azurerm_probe_two"):
        run(None)


def test_bindings_command_prints_error_without_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("nothing may be written")

    monkeypatch.setattr(generate_module, "write_package", refuse)
    assert main([str(tmp_path / "absent.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "absent.json: No such file" in error


def test_bindings_script_runs_from_any_folder(repository: Path, tmp_path: Path) -> None:
    script = repository / "bin" / "bindings"
    shown = finished([script, "--help"], cwd=tmp_path, check=True)
    assert "terraform providers schema -json" in shown.stdout
