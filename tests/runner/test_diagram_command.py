"""`fairway diagram` and `fairway synth`: what they write, and how they refuse."""

import html
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from endings import ends
from programs import executable
from running import RunFairway

pytestmark = pytest.mark.integration


@pytest.fixture
def run(tmp_path: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch) -> RunFairway:
    """The program in the test's folder, without environment variables of cdktf and Fairway."""
    for name in [name for name in os.environ if name.startswith(("CDKTF", "FAIRWAY"))]:
        monkeypatch.delenv(name)
    return partial(fairway, tmp_path)


def test_diagram_is_markdown_or_svg_with_graphviz(tmp_path: Path, run: RunFairway) -> None:
    code, printed, errors = run("diagram", "demo")
    assert code == 0, errors
    assert printed.startswith("# demo\n\n```mermaid\n")
    assert run("diagram", "demo", "-o", "demo.md")[1] == "demo.md\n"
    assert (tmp_path / "demo.md").read_text() == printed
    # Neither Terraform nor a draft is left behind.
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.md"]
    if shutil.which("dot") is None:
        pytest.skip("dot is missing: apt-get install -y graphviz")
    ends(run("diagram", "demo", "-o", "demo.svg"), 0)
    assert "demo-vmss-pair" in html.unescape((tmp_path / "demo.svg").read_text())


def test_diagram_as_svg_is_refused_without_a_working_dot(
    tmp_path: Path, programs: Path, run: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(programs / "dot", "echo out of memory >&2\nexit 1")
    ends(run("diagram", "demo", "-o", "demo.svg"), 5, "dot: out of memory")
    monkeypatch.setenv("PATH", str(tmp_path))
    ends(run("diagram", "demo", "-o", "demo.svg"), 4, "apt-get install graphviz")
    assert not (tmp_path / "demo.svg").exists()


def test_diagram_in_a_missing_folder_is_refused_with_a_hint(run: RunFairway) -> None:
    ends(run("diagram", "demo", "-o", "missing/demo.md"), 2, "mkdir missing")


def test_synth_writes_the_named_environment_and_refuses_an_unknown_one(
    tmp_path: Path, run: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_ENVIRONMENT", "dmo")
    ends(run("synth"), 2, "did you mean `demo`?")
    (tmp_path / "cdktf.json").write_text("{}")
    code, printed, errors = run("synth", "demo")
    assert code == 0, errors
    assert "demo-compute: 2 resources -> cdktf.out/stacks/demo-compute" in printed
    assert (tmp_path / "cdktf.out/stacks/demo-compute/cdk.tf.json").exists()
