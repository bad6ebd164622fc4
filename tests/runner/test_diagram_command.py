"""`fairway diagram` and `fairway synth`: what they write, and how they refuse."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Protocol

import pytest

from fairway_cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration


class Fairway(Protocol):
    """The program in this process, which has loaded cdktf already; in the test's folder."""

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def fairway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Fairway:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("CDKTF", "FAIRWAY"))]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *said)

    return run


def test_markdown_is_printed_or_written(tmp_path: Path, fairway: Fairway) -> None:
    printed = fairway("diagram", "demo")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith("# demo\n\n```mermaid\n")
    written = fairway("diagram", "demo", "-o", "demo.md")
    assert written.stdout == "demo.md\n"
    assert (tmp_path / "demo.md").read_text() == printed.stdout
    # Neither Terraform nor a draft is left behind.
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.md"]


def test_svg_is_written_where_graphviz_is(tmp_path: Path, fairway: Fairway) -> None:
    if shutil.which("dot") is None:
        pytest.skip("dot is missing: apt-get install -y graphviz")
    done = fairway("diagram", "demo", "-o", "demo.svg")
    assert done.returncode == 0, done.stderr
    assert "demo-vmss-pair" in html.unescape((tmp_path / "demo.svg").read_text())


def test_svg_without_a_dot_that_works_is_refused(tmp_path: Path, fairway: Fairway) -> None:
    done = fairway("diagram", "demo", "-o", "demo.svg", PATH=str(tmp_path))
    assert done.returncode == 4
    assert "apt-get install graphviz" in done.stderr
    assert not (tmp_path / "demo.svg").exists()
    programs = tmp_path / "programs"
    programs.mkdir()
    dot = programs / "dot"
    dot.write_text("#!/bin/sh\necho out of memory >&2\nexit 1\n")
    dot.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = fairway("diagram", "demo", "-o", "demo.svg", PATH=path)
    assert done.returncode == 5
    assert "dot: out of memory" in done.stderr


@pytest.mark.parametrize(
    ("output", "said"),
    [("demo.png", "use a name that ends in .md"), ("missing/demo.md", "mkdir missing")],
)
def test_a_file_that_cannot_be_is_refused(fairway: Fairway, output: str, said: str) -> None:
    done = fairway("diagram", "demo", "-o", output)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_faulty_environment_is_told_at_its_line(tmp_path: Path, fairway: Fairway) -> None:
    (tmp_path / "lab.yaml").write_text("name: lab\nlocatoin: westeurope\n")
    done = fairway("diagram", "lab.yaml")
    assert done.returncode == 2
    assert "lab.yaml:2:1: error: unknown key `locatoin`" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_synth_writes_the_named_environment_or_refuses(fairway: Fairway, tmp_path: Path) -> None:
    done = fairway("synth", FAIRWAY_ENVIRONMENT="dmo")
    assert done.returncode == 2
    assert "did you mean `demo`?" in done.stderr
    (tmp_path / "cdktf.json").write_text("{}")
    done = fairway("synth", "demo", FAIRWAY_ENVIRONMENT="nothing")
    assert done.returncode == 0, done.stderr
    assert "demo-compute: 2 resources -> cdktf.out/stacks/demo-compute" in done.stdout
    assert (tmp_path / "cdktf.out/stacks/demo-compute/cdk.tf.json").exists()
