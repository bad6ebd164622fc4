"""What small commands and the core leave unimported, so that they are quick."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Fairway


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["submit", "--help"], ["list"]])
def test_small_commands_import_little(fairway: Fairway, command: list[str]) -> None:
    script = "import sys\nsys.argv = ['fairway', *sys.argv[1:]]\n"
    script += "from fairway_cli import main as cli\n"
    script += "try:\n    cli.main()\nfinally:\n    print('\\n'.join(sys.modules), file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", script, *command],
        cwd=fairway.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(run.stderr.splitlines())
    assert "fairway_cli.main" in imported
    heavy = {"cdktf", "constructs", "jsii", "azure", "jinja2", "ruamel.yaml", "numpy"}
    assert not imported & heavy


def test_the_core_imports_neither_terraform_nor_azure(repository: Path) -> None:
    """Not even when every module of it is imported."""
    script = (
        "import importlib, pkgutil, sys, fairway_core\n"
        "for module in pkgutil.walk_packages(fairway_core.__path__, 'fairway_core.'):\n"
        "    importlib.import_module(module.name)\n"
        "print('\\n'.join(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(run.stdout.splitlines())
    assert "fairway_core.documents" in imported
    assert not imported & {"cdktf", "constructs", "jsii", "azure"}


@pytest.mark.parametrize("module", ["kubernetes.states", "slurm.states"])
def test_who_only_looks_where_runs_stand_imports_nothing_that_runs_tasks(module: str) -> None:
    """It is asked once a second by each that follows a run."""
    script = f"import sys, fairway_agent.{module}; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(run.stdout.splitlines())
    assert f"fairway_agent.{module}" in imported
    assert not imported & {"fairway_agent.task", "fairway_agent.container", "urllib.request"}
