"""Checks before and after the synthesis: of the environment file, and of the written stacks."""

from pathlib import Path
from typing import Any

import pytest

from fairway_core.checks import Check, Subject, Violation
from fairway_core.checks.check import REGISTERED
from fairway_core.checks.terraform.stack import resources_of_type
from fairway_core.findings import Severity


@pytest.fixture
def lab(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the demo with some text replaced as the chosen environment."""
    text = (repository / "stacks/environments/demo.yaml").read_text()
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    monkeypatch.setenv("FAIRWAY_ENVIRONMENT", str(tmp_path / "lab.yaml"))

    def write(**replaced: str) -> Path:
        result = text
        for old, new in replaced.items():
            assert old in result
            result = result.replace(old, new)
        (tmp_path / "lab.yaml").write_text(result)
        return tmp_path / "out"

    return write


@pytest.mark.parametrize(
    ("replaced", "code", "said"),
    [
        ({"isr_H100": "is_H100"}, 2, "error: 2 nodes of `Standard_ND96is_H100_v5` have no Infini"),
        ({"owner": "project"}, 0, "[no-owner]"),
        ({"owner": "project", "[no-budget,": "[no-owner, placeholder, no-budget,"}, 0, ""),
    ],
)
def test_synth_writes_nothing_on_error_but_continues_on_warning(
    lab: Any,
    fairway: Any,
    capsys: pytest.CaptureFixture[str],
    replaced: dict[str, str],
    code: int,
    said: str,
) -> None:
    out = lab(**replaced)
    assert fairway("synth") == code
    errors = capsys.readouterr().err
    assert said in errors
    assert bool(errors) is bool(said)
    assert (out / "stacks/demo-compute/cdk.tf.json").is_file() is (code == 0)


@pytest.mark.parametrize(("severity", "code"), [(Severity.ERROR, 2), (Severity.WARNING, 0)])
def test_synth_applies_checks_of_the_synthesized_stacks(
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    severity: Severity,
    code: int,
    fairway: Any,
) -> None:
    def rule(arguments: dict[str, Any]) -> Any:
        yield Violation(f"{arguments['name']} is not wanted", "leave it out")

    places = resources_of_type("azurerm_virtual_network")
    no_network = Check("no-network", severity, Subject.TERRAFORM, rule, places)
    monkeypatch.setitem(REGISTERED, "no-network", no_network)
    lab()
    assert fairway("synth") == code
    said, errors = capsys.readouterr()
    assert "demo-network: azurerm_virtual_network.vnet: demo-vnet is not wanted" in errors
    assert "[no-network]" in errors
    assert ("demo-network: " in said) is (code == 0)
    lab(**{"[no-budget,": "[no-network, no-budget,"})
    assert fairway("synth") == 0
    assert "no-network" not in capsys.readouterr().err
