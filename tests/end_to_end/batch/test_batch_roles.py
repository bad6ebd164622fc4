"""Commands of a user who has the roles of an environment: Storage, for nodes too, and Batch are
behind a proxy that allows only what the synthesized stacks' role assignments give this user."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from batch_service import Batch
from environment_files import KEY

from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.data_plane import DataPlane, batch_action, blob_action
from fairway_simulator.azure.deployment import Deployment
from fairway_simulator.azure.rights import Rights
from fairway_simulator.batch import StorageAccess
from fairway_stacks.app import write_stacks

Made = Callable[..., "Person"]

pytestmark = pytest.mark.nightly

SOMEBODY = "00000000-0000-0000-0000-00000000000b"
ENVIRONMENT = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ["{KEY}"]%s}}
clusters:
  sim: {{engine: batch, size: Standard_ND96asr_v4, nodes: {{min: 0, max: 4}}}}
"""


@dataclass
class Person:
    """A user of the program, with the two services as they respond to that user."""

    batch: Batch
    blobs: DataPlane
    jobs: DataPlane

    @property
    def rights(self) -> Rights:
        return self.blobs.rights

    @rights.setter
    def rights(self, rights: Rights) -> None:
        self.blobs.rights = self.jobs.rights = rights

    @property
    def refused(self) -> list[str]:
        return [each.action for each in (*self.blobs.refused, *self.jobs.refused)]


@pytest.fixture
def made(
    make_batch: Callable[..., Batch],
    storage: StorageAccess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Made]:
    """Deploys the environment with more fields under `access:`; returns the services for `who`."""
    with ExitStack() as opened:

        def make(access: str = "", who: str = NOBODY) -> Person:
            file = tmp_path / "lab.yaml"
            file.write_text(ENVIRONMENT % access)
            by_role = {
                each.name.rpartition("-")[2]: json.loads((each.folder / "cdk.tf.json").read_text())
                for each in write_stacks(file, tmp_path / "cdktf.out", warn=lambda _: None)
            }
            deployed = Deployment(by_role, "localhost")
            account = deployed.resource("azurerm_storage_account", "storage").id
            of_blobs, rights = partial(blob_action, account), deployed.rights
            blobs = opened.enter_context(DataPlane(storage.url, of_blobs, rights, who))
            own = StorageAccess(blobs.url, storage.account, storage.key)
            batch = make_batch(storage_access=own)
            of_jobs = partial(batch_action, deployed.resource("azurerm_batch_account", "batch").id)
            endpoint = batch.service.endpoint
            jobs = opened.enter_context(DataPlane(endpoint, of_jobs, rights, who))
            monkeypatch.setenv("AZURE_BATCH_ENDPOINT", jobs.url)
            return Person(batch, blobs, jobs)

        yield make


def _job(person: Person) -> Path:
    return person.batch.fairway.job("echo from the node", template="plain")


@pytest.mark.parametrize(
    ("access", "who"),
    [("", NOBODY), (f", researchers: [{SOMEBODY}]", SOMEBODY)],
    ids=["the deployer", "named"],
)
def test_batch_roles_allow_a_job_to_be_submitted_followed_and_fetched(
    made: Made, access: str, who: str
) -> None:
    person = made(access, who)
    code, printed = person.batch.watch(_job(person))
    assert (code, person.refused) == (0, []), printed
    assert "from the node" in printed
    (run,) = person.batch.runs()
    person.batch.ok("fetch", run)
    person.batch.ok("data", "ls", "batch-sim:datasets")
    person.batch.ok("doctor", "batch-sim")
    assert person.refused == []


def test_batch_roles_are_all_needed_to_run_a_job_or_list_data(made: Made) -> None:
    """Takes away one role at a time; the error names the missing one."""
    person = made()
    whole = person.rights
    own = [each.name for each in whole.assignments if each.principal == NOBODY]
    assert sorted(own) == [
        "batch-used-by-deployer",
        "container-code-used-by-deployer",
        "container-datasets-used-by-deployer",
        "container-outputs-used-by-deployer",
    ]
    for name in own:
        person.rights = whole.without(name)
        person.blobs.refused.clear()
        person.jobs.refused.clear()
        if "datasets" in name:
            done = person.batch.fairway.within("data", "ls", "batch-sim:datasets")
        else:
            done = person.batch.fairway.within("doctor", "batch-sim")
            assert person.refused, name
            done = person.batch.fairway.within(
                "submit", _job(person), "--target", "batch-sim", "--yes", "--watch"
            )
        assert done.returncode != 0, name
        assert person.refused, name
        if "container" in name:
            assert "knows you, but does not allow this" in done.stderr
            assert "Storage Blob Data Contributor on the container" in done.stderr


@pytest.mark.parametrize("access", [", researchers: []", f", researchers: [{SOMEBODY}]"])
def test_batch_roles_are_not_given_to_the_deployer_if_researchers_is_set(
    made: Made, access: str
) -> None:
    person = made(access)
    done = person.batch.fairway.within("submit", _job(person), "--target", "batch-sim", "--yes")
    assert done.returncode == 2
    assert "Azure Batch does not accept these credentials: 403" in done.stderr
    assert "Azure Batch Data Contributor on the account" in " ".join(done.stderr.split())
    assert person.refused
    assert person.batch.runs() == []
