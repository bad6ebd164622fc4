"""Fixtures of stack tests: an environment with every service, and its synthesized stacks."""

import hashlib
import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from programs import executable
from tests.constructs.bindings.validator import validate
from tests.stacks.terraform_stand_in import Call

from fairway_cli.main import main
from fairway_core.environment import Environment, load_environment
from fairway_core.findings import UserError
from fairway_stacks.app import synthesize, synthesize_state
from fairway_stacks.boot_data import boot_findings
from fairway_stacks.plan import deploy
from fairway_stacks.plan import planning as stack_plans
from fairway_stacks.plan import stacks as plan_stacks
from fairway_stacks.plan import terraform as terraform_program
from fairway_stacks.plan.stacks import StackFolder, ordered_stacks

EVERYTHING = """\
name: lab
location: westeurope
tags: {owner: me}
state: {backend: azurerm, resource_group: tfstate, storage_account: contosotfstate}
access:
  ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"]
  allowed: [203.0.113.0/24]
storage:
  customer_managed_key: true
  containers: {datasets: {}, outputs: {expire: 90d}, code: {expire: 30d}}
registry: {}
vault: {}
monitoring: {emails: [team@example.com]}
budget: {monthly: 50000}
filesystems:
  data: {kind: nfs_server, path: /data}
clusters:
  pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}
  spot: {engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 8}, spot: true}
"""


@pytest.fixture
def fairway() -> Callable[..., int]:
    """Returns a function that runs the program in this process and returns its exit code."""

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code is None or isinstance(ended.value.code, int)
        return ended.value.code or 0

    return run


@pytest.fixture
def as_terraform(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Installs a file of this folder on PATH as `terraform`, redirects all output to the test's
    folder, and returns the folder of the program."""

    def install(file: str) -> Path:
        source = Path(__file__).with_name(file).read_text()
        executable(programs / "terraform", f"#!{sys.executable} -IS\n{source}")
        monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return programs

    return install


@pytest.fixture
def everything() -> str:
    """Returns an environment file with every service."""
    return EVERYTHING


def _require_told(environment: Environment, error: UserError) -> None:
    """Asserts that `fairway check` refuses whatever synthesis refuses."""
    told = {each.id for each in boot_findings(environment)}
    assert {each.id for each in error.findings} - told <= {"no-remote-state", "unreachable-state"}


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder, shared by all workers of this run, for synthesized stacks."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "synthesized").mkdir(exist_ok=True)
    return folder / "synthesized"


@pytest.fixture
def written(tmp_path: Path, kept: Path) -> Callable[..., dict[str, dict[str, Any]]]:
    """Writes the stacks of an environment file, or of its state, and returns them by role.

    Each stack is validated against the provider's schema. Synthesis takes most of the time of these
    tests, and the same text always gives the same stacks: they are written once.
    """
    runs = iter(range(100))

    def written(text: str | Path, *, state: bool = False) -> dict[str, dict[str, Any]]:
        source = text if isinstance(text, str) else text.read_text()
        known = kept / hashlib.sha256(f"{state} {source}".encode()).hexdigest()
        if known.exists():
            return pickle.loads(known.read_bytes())
        folder = tmp_path / f"written{next(runs)}"
        folder.mkdir()
        file = text
        if isinstance(text, str):
            file = folder / "lab.yaml"
            file.write_text(text)
        write = synthesize_state if state else synthesize
        environment = load_environment(file)
        try:
            names = write(environment, project=folder, outdir=folder / "out")
        except UserError as error:
            _require_told(environment, error)
            raise
        found = {}
        for name in names:
            content = (folder / "out" / "stacks" / name / "cdk.tf.json").read_text()
            assert str(tmp_path) not in content, "no path of this machine"
            stack = json.loads(content)
            assert not list(validate(stack)), name
            found[name.rpartition("-")[2]] = stack
        made = folder / "made"
        made.write_bytes(pickle.dumps(found))
        made.replace(known)
        return found

    return written


@dataclass
class StandIn:
    """The folder of the stand-in for Terraform."""

    folder: Path

    def fault(self, **faults: str) -> None:
        """Sets faults, such as network_plan="broken"."""
        named = {f"demo-{key.replace('_', ' ')}": fault for key, fault in faults.items()}
        (self.folder / "faults.json").write_text(json.dumps(named))

    def calls(self) -> list[dict[str, Any]]:
        """Returns the calls of the stand-in in order."""
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget(self) -> None:
        """Clears the recorded calls."""
        (self.folder / "calls.jsonl").unlink()


@pytest.fixture
def terraform(as_terraform: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Installs a program `terraform` on PATH and redirects all output to the test's folder.

    Calls of the program are run in this process.
    """
    folder = as_terraform("terraform_stand_in.py")
    monkeypatch.setenv("TERRAFORM_STAND_IN", str(folder))
    monkeypatch.setenv("ARM_CLIENT_ID", "my-own")

    def run(command: list[str], env: dict[str, str], **_: Any) -> CompletedProcess[str]:
        assert shutil.which(command[0]) == str(folder / "terraform")
        said: list[str] = []
        try:
            Call(command[1:], env, said.append).run()
        except SystemExit as ended:
            return CompletedProcess(command, int(str(ended.code)), "\n".join(said), "")
        return CompletedProcess(command, 0, "\n".join(said), "")

    monkeypatch.setattr(terraform_program, "run_terraform", run)
    return StandIn(folder)


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the demo's stacks, written once."""
    outdir = tmp_path_factory.mktemp("synthesized") / "cdktf.out"
    plan_stacks.synthesize("demo", outdir)
    return outdir


@pytest.fixture
def quick(terraform: StandIn, synthesized: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Returns the stand-in for Terraform, with stacks that are already synthesized."""

    def copied(environment: str, outdir: Path, *, state: bool) -> list[StackFolder]:
        assert (environment, state) == ("demo", False)
        shutil.copytree(synthesized, outdir, dirs_exist_ok=True)
        return ordered_stacks(outdir)

    monkeypatch.setattr(stack_plans, "synthesize", copied)
    monkeypatch.setattr(deploy, "synthesize", copied)
    return terraform
