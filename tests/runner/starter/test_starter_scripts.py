"""The scripts that `fairway init` writes, with a stand-in for Terraform that records its calls.

Plans are given by the test, as `terraform show -json` would print them; the rest is real: the
synthesis, the reviews and their digests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairway_runner.starter import Settings, write_project

# A plan for each stack lies beside it; where there is none, the stack's inputs are missing.
TERRAFORM = """\
#!/usr/bin/env python3
import json, os, shutil, sys
from pathlib import Path

given, (folder, verb, *rest) = Path(os.environ["GIVEN"]), sys.argv[1:]
folder = Path(folder.removeprefix("-chdir="))
assert (folder / "cdk.tf.json").is_file(), folder
stack = folder.name
with (given / "calls").open("a") as calls:
    calls.write(f"{verb} {stack}\\n")
if verb == "plan":
    (out,) = (word.removeprefix("-out=") for word in rest if word.startswith("-out="))
    if (given / f"{stack}.json").exists():
        shutil.copy(given / f"{stack}.json", out)
        sys.exit(json.loads(Path(out).read_text()).get("errored", False))
    address = "data.terraform_remote_state.cross-stack-reference-input-lab-network"
    print(json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": {
        "severity": "error", "address": address,
        "summary": (given / "fault").read_text() if (given / "fault").exists()
                   else "Unable to find remote state"}}))
    sys.exit(1)
if verb == "show":
    assert rest[0] == "-json"
    sys.stdout.write(Path(rest[1]).read_text())
if verb == "apply":
    assert Path(rest[-1]).is_file()
"""
GH = """\
#!/usr/bin/env python3
import os, sys
from pathlib import Path

given = Path(os.environ["GIVEN"])
with (given / "gh").open("a") as calls:
    calls.write(" ".join(sys.argv[1:3]) + "\\n")
if sys.argv[1:3] == ["issue", "list"]:
    print(os.environ.get("ISSUE", ""))
if "--body-file" in sys.argv:
    body = Path(sys.argv[sys.argv.index("--body-file") + 1]).read_bytes()
    (given / "body").write_bytes(body)
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"


def _plan(*changes: tuple[str, list[str]], errored: bool = False) -> dict[str, Any]:
    return {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "errored": errored,
        "resource_changes": [
            {
                "address": address,
                "mode": "managed",
                "type": address.partition(".")[0],
                "name": address.partition(".")[2],
                "provider_name": "registry.terraform.io/hashicorp/azurerm",
                "change": {
                    "actions": actions,
                    "before": None if actions == ["create"] else {"name": "old"},
                    "after": None if actions == ["delete"] else {"name": "new"},
                    "after_unknown": {},
                    "before_sensitive": {},
                    "after_sensitive": {},
                },
            }
            for address, actions in changes
        ],
    }


class Desk:
    """A project, and the stand-ins on the PATH of what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.project, self.given, programs = folder / "lab", folder / "given", folder / "programs"
        write_project(self.project, Settings("lab", "westeurope", (KEY,)))
        self.given.mkdir()
        programs.mkdir()
        for name, text in (("terraform", TERRAFORM), ("gh", GH)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self._path = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )

    def plans(self, **plans: dict[str, Any]) -> None:
        """What Terraform would do with each stack, by its role."""
        for role, plan in plans.items():
            (self.given / f"lab-{role}.json").write_text(json.dumps(plan))

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if "FAIRWAY" not in name}
        return subprocess.run(
            command,
            cwd=self.project,
            env={**kept, "PATH": self._path, "GIVEN": str(self.given), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def outputs(self) -> dict[str, str]:
        lines = (self.project / "plans/outputs").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def applied(self) -> list[str]:
        calls = (self.given / "calls").read_text().splitlines()
        return [call.split()[1] for call in calls if call.startswith("apply ")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A fresh project."""
    return Desk(tmp_path)


NEW = _plan(("azurerm_subnet.compute", ["create"]))
SAME = _plan()
LOSS = _plan(("azurerm_managed_disk.data", ["delete"]))


def test_every_stack_is_planned_in_order_and_reviewed(desk: Desk) -> None:
    desk.plans(network=NEW, data=SAME, compute=SAME)
    done = desk.run("ci/plan", "plans")
    assert done.returncode == 0, done.stderr
    calls = (desk.given / "calls").read_text().splitlines()
    assert [call for call in calls if call.startswith("plan ")] == [
        "plan lab-network",
        "plan lab-data",
        "plan lab-compute",
    ]
    assert not desk.applied()
    assert "azurerm_subnet.compute" in (desk.project / "plans/review.md").read_text()
    assert desk.outputs()["changes"] == "1"
    assert desk.outputs()["drifted"] == "0"


def test_a_stack_whose_inputs_are_missing_waits(desk: Desk) -> None:
    desk.plans(network=NEW)
    done = desk.run("ci/plan", "plans")
    assert done.returncode == 0, done.stderr
    review = json.loads((desk.project / "plans/review.json").read_text())
    states = {stack["stack"]: stack["state"] for stack in review["stacks"]}
    assert states == {"lab-network": "planned", "lab-data": "waiting", "lab-compute": "waiting"}


def test_a_loss_of_data_stops_unless_it_is_named(desk: Desk) -> None:
    desk.plans(network=SAME, data=LOSS, compute=SAME)
    assert desk.run("ci/plan", "plans").returncode == 3
    assert "azurerm_managed_disk.data" in (desk.project / "plans/review.md").read_text()
    allowed = desk.project / "ci/allowed.txt"
    allowed.write_text("# moved to another server\n\nazurerm_managed_disk.data\n")
    done = desk.run("ci/plan", "plans")
    assert done.returncode == 0, done.stderr


def test_a_plan_that_terraform_cannot_make_fails(desk: Desk) -> None:
    desk.plans(network=NEW)
    (desk.given / "fault").write_text("Error acquiring the state lock")
    done = desk.run("ci/plan", "plans")
    assert done.returncode == 2
    assert "Error acquiring the state lock" in done.stderr


def test_a_faulty_environment_fails_before_terraform_starts(desk: Desk) -> None:
    file = desk.project / "environments/lab.yaml"
    file.write_text(file.read_text().replace("nodes: 1", "nods: 1"))
    done = desk.run("ci/plan", "plans")
    assert done.returncode == 2
    assert "unknown key `nods`" in done.stderr
    assert not (desk.given / "calls").exists()


def test_what_was_approved_is_applied(desk: Desk) -> None:
    desk.plans(network=NEW, data=SAME)
    desk.run("ci/plan", "plans")
    done = desk.run("ci/deploy", "again", desk.outputs()["digest"])
    assert done.returncode == 0, done.stderr
    assert desk.applied() == ["lab-network", "lab-data"]
    assert "lab-compute waits for another stack" in done.stderr


def test_anything_else_is_not_applied(desk: Desk) -> None:
    desk.plans(network=NEW, data=SAME, compute=SAME)
    desk.run("ci/plan", "plans")
    digest = desk.outputs()["digest"]
    desk.plans(network=_plan(("azurerm_subnet.storage", ["create"])))
    done = desk.run("ci/deploy", "plans", digest)
    assert done.returncode == 1
    assert "not what was approved" in done.stderr
    assert not desk.applied()


def test_a_loss_is_not_applied_whatever_was_approved(desk: Desk) -> None:
    desk.plans(network=SAME, data=LOSS, compute=SAME)
    desk.run("ci/plan", "plans")
    assert desk.run("ci/deploy", "plans", desk.outputs()["digest"]).returncode == 3
    assert not desk.applied()


@pytest.mark.parametrize("command", [["ci/plan"], ["ci/deploy", "plans"], ["ci/report-drift"]])
def test_a_missing_argument_is_told(desk: Desk, command: list[str]) -> None:
    done = desk.run(*command)
    assert done.returncode != 0
    assert "usage: ci/" in done.stderr
    assert not (desk.given / "calls").exists()


@pytest.mark.parametrize(("issue", "call"), [("", "issue create"), ("7", "issue edit")])
def test_drift_is_told_in_one_issue(desk: Desk, issue: str, call: str) -> None:
    (desk.project / "review.md").write_text("ä" * 40_000)
    done = desk.run("ci/report-drift", "review.md", ISSUE=issue)
    assert done.returncode == 0, done.stderr
    calls = (desk.given / "gh").read_text().splitlines()
    assert calls == ["label create", "issue list", call]
    assert set((desk.given / "body").read_text(encoding="utf-8")) == {"ä"}
