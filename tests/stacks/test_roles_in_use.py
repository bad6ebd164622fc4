"""Roles that stacks assign, tested with the programs that need them: a missing role is a 403.

The scheduler's own programs run, as its VM boots with them, against a stand-in for Azure that
allows only what the synthesized stacks allow.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY
from programs import executable, finished
from tests.stacks.documents import ENVIRONMENTS, FILES, Stacks, Written, files_of, package_of

from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.deployment import Deployed, Deployment, machine_body, scale_set_body
from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.resource_ids import ResourcePath

OTHERS = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/g/providers"
IMAGE = f"{OTHERS}/Microsoft.Compute/galleries/g/images/i/versions/1.0.0"
NEAR = f"{OTHERS}/Microsoft.Compute/proximityPlacementGroups/p"
LAB = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ["{KEY}"]}}
filesystems:
  data: {{kind: nfs_server, path: /data}}
clusters:
  nd:
    engine: slurm
    size: Standard_HB176rs_v4
    nodes: {{min: 0, max: 8}}
    mounts: [data]
    image_id: {IMAGE}
    proximity_placement_group: {NEAR}
"""
# A stand-in for commands of slurmctld, which are irrelevant to Azure.
COMMAND = """#!/bin/sh
echo "$*" >>{folder}/told
case "$*" in *"show partition"*) echo "PartitionName=nd State=UP" ;; esac
"""
PROGRAMS = "fairway_boot.slurm"
CHOICES = (pytest.param("h100-slurm", marks=pytest.mark.nightly), "lab")


def _variables(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """Returns environment variables for programs of boot data: these settings and libraries."""
    (folder / "settings.json").write_text(json.dumps(settings))
    own = {"FAIRWAY_SLURM_SETTINGS": f"{folder}/settings.json", "PYTHONPATH": f"{folder}/lib"}
    return {**os.environ, **own}


@dataclass
class Scheduler:
    """A scheduler's VM of a deployed environment, with the programs that it boots with."""

    folder: Path
    plane: ControlPlane
    deployed: Deployment
    metadata: str
    settings: dict[str, Any]
    scale_sets: dict[str, Deployed] = field(default_factory=dict)

    def run(self, *words: str) -> int:
        """Runs a program of slurmctld, or a module for systemd, and returns its exit code."""
        script = self.folder / "programs" / words[0]
        command = [str(script)] if script.exists() else [sys.executable, "-m", words[0]]
        variables = _variables(self.folder, self.settings)
        return finished([*command, *words[1:]], env=variables).returncode

    def instances(self, partition: str = "nd") -> int:
        """Returns the number of instances in the partition's scale set."""
        collection = ResourcePath(f"{self.scale_sets[partition].id}/virtualMachines")
        return len(self.plane.compute.instances_in(collection))

    def refused(self) -> list[str]:
        """Returns the requests that were forbidden since the last call."""
        found = [f"{verb} {path}" for verb, path, status in self.plane.requests if status == 403]
        self.plane.requests.clear()
        return found

    @property
    def told(self) -> str:
        """Commands that slurmctld received."""
        file = self.folder / "told"
        return file.read_text() if file.exists() else ""

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


def _unpacked(boot: str, folder: Path) -> dict[str, Any]:
    """Writes the programs of a VM's boot data to a folder and returns their settings."""
    found: dict[str, Any] = {}
    (folder / "programs").mkdir()
    files = files_of(boot)
    with package_of(files) as tar:
        tar.extractall(folder / "lib", filter="data")
    for path, content in files.items():
        if path == "/etc/fairway/slurm.json":
            found = json.loads(content)
        elif PROGRAMS in content and content.startswith("#!/bin/sh"):
            text = content.replace("/etc/fairway/slurm.json", str(folder / "settings.json"))
            text = text.replace("/usr/local/lib/fairway", str(folder / "lib"))
            executable(
                folder / "programs" / Path(path).name,
                text.replace("/usr/bin/python3", sys.executable),
            )
    return found


@pytest.fixture(params=CHOICES)
def stacks(request: pytest.FixtureRequest, written: Written) -> Stacks:
    """Returns stacks of an environment with Slurm: a shipped one, and one with foreign
    resources."""
    if request.param == "lab":
        return written(LAB)
    return written(FILES[request.param])


@pytest.fixture
def scheduler(tmp_path: Path, stacks: Stacks) -> Iterator[Scheduler]:
    """Yields the environment, deployed on a stand-in for Azure that enforces its roles."""
    folder = tmp_path / "scheduler"
    folder.mkdir()
    for name in ("scontrol", "squeue"):
        executable(folder / name, COMMAND.format(folder=folder))
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(stacks, plane.host)
        sets = {}
        for each in deployed.resources:
            if each.type == "azurerm_linux_virtual_machine_scale_set":
                plane.store.put(ResourcePath(each.id), scale_set_body(each))
                sets[each.key.removeprefix("cluster-")] = each
            elif each.type in ("azurerm_linux_virtual_machine", "azurerm_key_vault"):
                body = machine_body(each) if "machine" in each.type else {}
                plane.store.put(ResourcePath(each.id), body)
        machine = deployed.resource("azurerm_linux_virtual_machine", "slurm-scheduler")
        settings = _unpacked(deployed.boot_data(machine), folder)
        assert {n: s["id"] for n, s in settings["scale_sets"].items()} == {
            name: each.id for name, each in sets.items()
        }
        plane.rights = deployed.rights
        with MetadataService(plane.store, machine.id) as metadata:
            own = {
                "state": str(folder / "state"),
                "arm": f"https://{plane.host}",
                "metadata": metadata.url,
                "authority": str(plane.authority),
                "bin": str(folder),
                "log": str(folder / "log"),
                "poll": 0.01,
                "user": "root",
                "munge_key": str(folder / "munge.key"),
                "restart_munge": ["true"],
            }
            settings |= own
            yield Scheduler(folder, plane, deployed, metadata.url, settings, sets)


def test_roles_let_the_scheduler_do_all_it_does(scheduler: Scheduler) -> None:
    assert scheduler.run(f"{PROGRAMS}.munge") == 0
    assert scheduler.run("resume", "nd-[0-2]") == 0
    assert scheduler.instances() == 3
    assert scheduler.run(f"{PROGRAMS}.power", "reconcile") == 0
    scheduler.settings["orphan_after"] = 0
    assert scheduler.run("suspend", "nd-[0-2]") == 0
    assert scheduler.run(f"{PROGRAMS}.power", "reconcile") == 0
    assert scheduler.instances() == 0
    assert scheduler.refused() == []


def test_roles_of_the_scheduler_are_all_required(scheduler: Scheduler) -> None:
    """Without any one of these narrow roles, some request of the scheduler is forbidden."""
    rights = scheduler.deployed.rights
    identity = scheduler.deployed.resource("azurerm_user_assigned_identity", "slurm-scheduler")
    me = scheduler.deployed.principal_of(identity.id)
    own = [each.name for each in rights.assignments if each.principal == me]
    assert len(own) >= 5
    for number, name in enumerate(own):
        scheduler.plane.rights = rights.without(name)
        scheduler.run(f"{PROGRAMS}.munge")
        scheduler.run("resume", ",".join(f"{each}-{number}" for each in scheduler.scale_sets))
        assert scheduler.refused(), f"{name} allows nothing that is needed"


def test_roles_let_nodes_read_the_munge_key_with_their_own_identity(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    assert scheduler.run(f"{PROGRAMS}.munge") == 0
    assert scheduler.run("resume", "nd-0") == 0
    node = scheduler.scale_sets["nd"]
    folder = tmp_path / "node"
    folder.mkdir()
    settings = _unpacked(scheduler.deployed.boot_data(node), folder)
    program = (
        f"import sys; from {PROGRAMS} import munge, settings; s = settings.load();"
        "sys.stdout.buffer.write(munge.read_key(s, settings.metadata_service(s)))"
    )
    with MetadataService(scheduler.plane.store, f"{node.id}/virtualMachines/0") as metadata:
        settings |= {"metadata": metadata.url, "authority": str(scheduler.plane.authority)}
        read, variables = [sys.executable, "-B", "-c", program], _variables(folder, settings)
        done = subprocess.run(read, env=variables, capture_output=True, check=True, timeout=300)
        assert done.stdout == (scheduler.folder / "munge.key").read_bytes()
        scheduler.plane.rights = scheduler.deployed.rights.without("slurm-nodes-read_munge_key")
        assert "Forbidden" in finished(read, env=variables).stderr


WATCH = f"""
from {PROGRAMS} import eviction, settings
own = settings.load()
machine = settings.metadata_service(own)
eviction.watch(own, machine, machine.machine().name, {{}})
"""


def test_roles_suffice_to_acknowledge_and_notice_an_eviction(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    """The node needs no role for its own eviction; the scheduler's existing roles show it."""
    assert scheduler.run("resume", "nd-[0-1]") == 0
    plane, node = scheduler.plane, scheduler.scale_sets["nd"]
    (folder := tmp_path / "node").mkdir()
    settings = _unpacked(scheduler.deployed.boot_data(node), folder)
    (name := folder / "name").write_text('SLURMD_OPTIONS="-N nd-0"\n')
    instance = f"{node.id}/virtualMachines/0"
    taken: list[str] = []

    def take(event: str) -> None:
        taken.append(event)
        plane.compute.evict(node.id, 0)

    with MetadataService(plane.store, instance, on_start=take) as metadata:
        event = metadata.plan("Preempt")
        own = {"metadata": metadata.url, "name_file": str(name), "bin": str(scheduler.folder)}
        variables = _variables(folder, settings | own)
        finished([sys.executable, "-B", "-c", WATCH], env=variables, check=True)
    assert taken == [event]
    assert "state=drain reason=Azure: Preempt" in scheduler.told
    assert scheduler.instances() == 1
    scheduler.refused()
    # The instance is gone, and its name is no longer claimed.
    assert scheduler.run(f"{PROGRAMS}.power", "reconcile") == 0
    assert scheduler.refused() == []
    scheduler.plane.rights = scheduler.deployed.rights.without("slurm-scales-nd")
    scheduler.run(f"{PROGRAMS}.power", "reconcile")
    assert scheduler.refused()
    assert "AuthorizationFailed" in scheduler.log


# The types of nodes, with their Azure resource types.
_NODES = {
    "azurerm_linux_virtual_machine_scale_set": "Microsoft.Compute/virtualMachineScaleSets",
    "azurerm_linux_virtual_machine": "Microsoft.Compute/virtualMachines",
    "azurerm_batch_pool": "Microsoft.Batch/batchAccounts/pools",
}
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.stem)
def test_roles_let_nodes_use_containers_and_images_and_nothing_more(
    written: Written, file: Path
) -> None:
    """Jobs on them read inputs, write outputs and pull images; nodes may do nothing more."""
    deployed = Deployment(written(file), "localhost")
    nodes = [each for each in deployed.resources if each.type in _NODES and "cluster-" in each.key]
    # Nodes of Kubernetes are not Azure resources: see test_kubernetes.py.
    assert nodes or "azurerm_kubernetes_cluster" in {each.type for each in deployed.resources}
    for node in nodes:
        (identity,) = node.arguments["identity"]["identity_ids"]
        nobody = deployed.principal_of(f"{identity}-other")
        who = deployed.principal_of(identity)
        for each in deployed.resources:
            if each.type == "azurerm_storage_container" and not each.key.endswith("-logs"):
                for verb in ("read", "write", "add/action", "delete"):
                    action = (f"{_BLOBS}/{verb}", each.id)
                    assert deployed.rights.allow(who, *action, data=True), action
                    assert not deployed.rights.allow(nobody, *action, data=True)
            elif each.type == "azurerm_container_registry":
                pull = "Microsoft.ContainerRegistry/registries/pull/read"
                assert deployed.rights.allow(who, pull, each.id)
            elif each.type in _NODES:
                for verb in ("write", "delete"):
                    action = (f"{_NODES[each.type]}/{verb}", each.id)
                    assert not deployed.rights.allow(who, *action), action


def test_roles_let_nodes_read_job_secrets_of_permitted_people(
    written: Written, tmp_path: Path
) -> None:
    """The program that the node boots with reads the vault of jobs with the node's role."""
    people = f"users: [{{name: ada, keys: ['{KEY}']}}]"
    stacks = written(LAB.replace("access: {", f"access: {{{people}, ") + "vault: {}\n")
    program = (
        f"import sys; from {PROGRAMS} import people as p, settings;"
        "from fairway_boot.identity import KeyVault; s = settings.load();"
        "v = KeyVault(s.people_vault, settings.metadata_service(s).bearer, s.authority);"
        "print(p.secret_for(sys.argv[1], 'wandb', v))"
    )
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(stacks, plane.host)
        node = deployed.resource("azurerm_linux_virtual_machine_scale_set", "cluster-nd")
        plane.store.put(ResourcePath(node.id), scale_set_body(node))
        for vault in (each for each in deployed.resources if each.type == "azurerm_key_vault"):
            plane.store.put(ResourcePath(vault.id), {})
        plane.rights = deployed.rights
        folder = tmp_path / "node"
        folder.mkdir()
        settings = _unpacked(deployed.boot_data(node), folder)
        key = ResourcePath(f"{settings['people_vault'].partition(plane.host)[2]}secrets/wandb").key
        plane.vaults.secrets[key] = "a key"
        plane.vaults.tags[key] = {"fairway-users": "ada"}
        with MetadataService(plane.store, f"{node.id}/virtualMachines/0") as metadata:
            settings |= {"metadata": metadata.url, "authority": str(plane.authority)}
            variables = _variables(folder, settings)

            def read(person: str) -> subprocess.CompletedProcess[str]:
                return finished([sys.executable, "-B", "-c", program, person], env=variables)

            assert read("ada").stdout == "a key\n", read("ada").stderr
            assert "it is not for bob" in read("bob").stderr
            (name,) = [
                each.name
                for each in deployed.rights.assignments
                if "secrets" in each.name and "munge" not in each.name
            ]
            plane.rights = deployed.rights.without(name)
            assert "Forbidden" in read("ada").stderr
