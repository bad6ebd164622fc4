"""Storage of the state, and the stack of the account that keeps it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fairway_core.environment import OtherState
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stacks.documents import Stacks, Written


REMOTE = {
    "resource_group_name": "tfstate",
    "storage_account_name": "contosotfstate",
    "container_name": "tfstate",
    "use_azuread_auth": True,
}
STATE = "state: {backend: azurerm, resource_group: tfstate, storage_account: contosotfstate}\n"


def test_state_backend_has_a_blob_per_stack_and_no_key(written: Written, everything: str) -> None:
    for role, stack in written(everything).items():
        backend = stack["terraform"]["backend"]
        assert backend == {"azurerm": {**REMOTE, "key": f"lab-{role}.tfstate"}}


def test_a_stack_finds_the_others_by_the_same_settings(written: Written, everything: str) -> None:
    found = written(everything)["compute"]["data"]["terraform_remote_state"]
    assert {state["backend"] for state in found.values()} == {"azurerm"}
    configs = [state["config"] for state in found.values()]
    assert {config["key"] for config in configs} == {"lab-data.tfstate", "lab-network.tfstate"}
    for config in configs:
        assert config.items() >= REMOTE.items()


def test_only_the_place_of_the_state_differs_between_backends(
    written: Written, everything: str
) -> None:
    remote, local = written(everything), written(everything.replace(STATE, ""))
    for role in remote:
        assert "local" in local[role]["terraform"]["backend"]
        assert remote[role]["resource"] == local[role]["resource"]


class TestAccount:
    """The stack that FAIRWAY_STACKS=state writes."""

    def _run(self, tmp_path: Path, text: str, **environ: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "lab.yaml").write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "fairway_cli.main", "synth"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "FAIRWAY_ENVIRONMENT": "lab.yaml",
                "CDKTF_OUTDIR": "some/out",
                **environ,
            },
        )

    def test_state_stack_is_written_only_when_asked_for_and_alone(
        self, tmp_path: Path, everything: str
    ) -> None:
        done = self._run(tmp_path, everything, FAIRWAY_STACKS="state")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("lab-state: ")
        folder = tmp_path / "some" / "out" / "stacks"
        assert [entry.name for entry in folder.iterdir()] == ["lab-state"]

    def test_state_stack_keeps_its_own_state_in_a_file(
        self, written: Written, everything: str
    ) -> None:
        backend = written(everything, state=True)["state"]["terraform"]["backend"]
        assert backend == {"local": {"path": "../../../terraform.lab-state.tfstate"}}

    def test_state_stack_makes_the_account_that_the_others_use(
        self, written: Written, everything: str
    ) -> None:
        resources = written(everything, state=True)["state"]["resource"]
        (group,) = resources["azurerm_resource_group"].values()
        (account,) = resources["azurerm_storage_account"].values()
        (container,) = resources["azurerm_storage_container"].values()
        assert group["name"] == REMOTE["resource_group_name"]
        assert account["name"] == REMOTE["storage_account_name"]
        assert container["name"] == REMOTE["container_name"]
        assert account["shared_access_key_enabled"] is False
        assert account["blob_properties"]["versioning_enabled"] is True

    def test_state_stack_grants_its_maker_the_container_only(
        self, written: Written, everything: str
    ) -> None:
        resources = written(everything, state=True)["state"]["resource"]
        (grant,) = resources["azurerm_role_assignment"].values()
        assert grant["role_definition_name"] == "Storage Blob Data Contributor"
        assert grant["scope"].startswith("${azurerm_storage_container.")
        assert grant["principal_id"] == "${data.azurerm_client_config.current.object_id}"
        assert grant["description"]
        assert grant["lifecycle"] == {"ignore_changes": ["principal_id"]}, "it is not taken away"

    def test_only_named_ranges_reach_it(self, written: Written, everything: str) -> None:
        resources = written(everything, state=True)["state"]["resource"]
        (account,) = resources["azurerm_storage_account"].values()
        assert account["network_rules"]["default_action"] == "Deny"
        assert account["network_rules"]["ip_rules"] == ["203.0.113.0/24"]

    def test_every_address_reaches_it_where_that_is_asked_for(
        self, written: Written, everything: str
    ) -> None:
        text = everything.replace(STATE, STATE.replace("}", ", public_access: true}"))
        resources = written(text, state=True)["state"]["resource"]
        (account,) = resources["azurerm_storage_account"].values()
        assert account["network_rules"]["default_action"] == "Allow"
        assert account["shared_access_key_enabled"] is False

    @pytest.mark.parametrize("ranges", ["", "  allowed: [10.0.0.0/8]\n"])
    def test_an_account_that_nobody_reaches_is_refused(
        self, written: Written, everything: str, ranges: str
    ) -> None:
        text = everything.replace("  allowed: [203.0.113.0/24]\n", ranges)
        with pytest.raises(UserError, match="nobody could reach the state") as caught:
            written(text, state=True)
        assert "access.allowed" in caught.value.findings[0].hint

    def test_state_stack_is_refused_when_state_is_kept_in_files(
        self, written: Written, everything: str
    ) -> None:
        with pytest.raises(UserError, match="keeps its state in files"):
            written(everything.replace(STATE, ""), state=True)

    def test_state_stack_selection_refuses_other_names(
        self, tmp_path: Path, everything: str
    ) -> None:
        done = self._run(tmp_path, everything, FAIRWAY_STACKS="data", JSII_NODE="/no/node")
        assert done.returncode == 2
        assert done.stdout == ""
        assert "FAIRWAY_STACKS: no stacks `data`" in done.stderr
        assert not (tmp_path / "some").exists()


def test_state_backends_shown_in_the_document_are_accepted(
    repository: Path, written: Written
) -> None:
    text = (repository / "docs" / "state.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("state: {backend")]
    demo = (repository / "stacks" / "environments" / "demo.yaml").read_text()
    for line in lines:
        backend = re.findall(r"backend: (\w+)", line)[0]
        assert f'"{backend}"' in json.dumps(written(f"{demo}\n{line}\n")["data"]["terraform"])
    assert len(lines) >= 4


OTHERS = {
    "s3": ({"bucket": "b", "region": "r", "key": "k/"}, {"key": "k/lab-network.tfstate"}),
    "gcs": ({"bucket": "b", "prefix": "k/"}, {"prefix": "k/lab-network"}),
    "http": ({"address": "https://x/"}, {"address": "https://x/lab-network"}),
    "remote": ({"organization": "o"}, {"workspaces": {"name": "lab-network"}}),
    "cloud": (
        {"organization": "o", "project": "p"},
        {"workspaces": {"name": "lab-network", "project": "p"}},
    ),
}


@pytest.mark.parametrize("backend", OTHERS)
def test_any_backend_has_a_state_for_each_stack(
    written: Callable[..., Stacks], everything: str, backend: str
) -> None:
    settings, named = OTHERS[backend]
    text = everything.replace(
        "{backend: azurerm, resource_group: tfstate, storage_account: contosotfstate}",
        json.dumps({"backend": backend, "settings": settings}),
    )
    stacks = written(text)
    terraform = stacks["network"]["terraform"]
    found = terraform["cloud"] if backend == "cloud" else terraform["backend"][backend]
    assert found.items() >= named.items()
    # The stacks after it read its outputs from there.
    states = stacks["compute"]["data"]["terraform_remote_state"]
    state = states["cross-stack-reference-input-lab-network"]
    assert state["backend"] == ("remote" if backend == "cloud" else backend)
    assert "lab-network" in json.dumps(state["config"])


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"bucket": "b"}, "backend `s3` needs `region`", "add `region:`"),
        ({"bukket": "b"}, "backend `s3` takes no `bukket`", "did you mean `bucket`?"),
        ({"secret_key": "x"}, "is a credential, which a file must not hold", "AWS_SECRET_ACCESS"),
        ({"endpoint": "https://u:x@s/"}, "a user or a password", "set it where Terraform runs"),
    ],
)
def test_a_backend_is_checked_by_name(settings: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        OtherState(backend="s3", settings=settings)
    (finding,) = caught.value.findings
    assert message in finding.message
    assert hint in finding.hint
    assert "x" not in finding.message.split("`"), "a credential is not repeated"
