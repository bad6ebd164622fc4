"""Facts of a job and its target, read on the nodes as the runner wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairway_agent import job_facts
from fairway_agent.job_facts import Container, JobFacts, TargetFacts
from fairway_agent.kubernetes.settings import PodFacts, patience, pods_of
from fairway_boot.files import AgentError
from fairway_core.target import HEAD_IMAGE, Target
from fairway_runner.jobs.job import Job

TARGET: dict[str, Any] = {
    "name": "pods",
    "engine": "kubernetes",
    "nodes": {"min": 0, "max": 4},
    "mounts": {"data": "/data"},
    "storage": {"account_url": "https://lab.blob.core.windows.net/"},
    "vault_url": "https://lab.vault.azure.net/",
    "kubernetes": {
        "image": "lab.azurecr.io/train:1",
        "shared": "/data/fairway",
        "volumes": {"data": "claim"},
        "queue": "team",
        "priorities": {"high": "urgent"},
        "tolerations": ["sku"],
        "selector": {"pool": "gpu"},
    },
}


def written(folder: Path, target: dict[str, Any], **job: Any) -> tuple[JobFacts, TargetFacts]:
    made = Job.model_validate({"name": "a", "template": "plain", "command": "true", **job})
    (folder / "job.json").write_text(made.model_dump_json(indent=1, by_alias=True))
    record = Target.model_validate(target).record()
    (folder / "target.json").write_text(json.dumps(record))
    return job_facts.of_job(folder), job_facts.of_target(folder)


def test_job_facts_read_the_job_and_its_target(tmp_path: Path) -> None:
    container = {"image": "lab.azurecr.io/train:2", "shm_size": "8g", "options": ["--init"]}
    setup = {"command": "apt-get install -y fio", "admin": True}
    secrets = {"TOKEN": "keyvault:hub"}
    job, target = written(
        tmp_path, TARGET, container=container, priority="high", secrets=secrets, setup=setup
    )
    image = Container("lab.azurecr.io/train:2", ("--init",), "8g")
    assert (job.container, job.secrets, job.setup_is_admin) == (image, secrets, True)
    assert job.priority_word == "high"
    assert target == TargetFacts(
        name="pods",
        engine="kubernetes",
        mounts={"data": "/data"},
        account_url="https://lab.blob.core.windows.net",
        vault_url="https://lab.vault.azure.net/",
        most_nodes=4,
    )
    assert pods_of(tmp_path) == PodFacts(
        image="lab.azurecr.io/train:1",
        head_image=HEAD_IMAGE,
        service_account="fairway-task",
        head="fairway-head",
        volumes={"data": "claim"},
        selector={"pool": "gpu"},
        tolerations=("sku",),
        queue="team",
        priorities={"high": "urgent"},
        patience=patience(1, 4),
    )


def test_job_facts_default_to_no_container_and_no_secrets(tmp_path: Path) -> None:
    ssh = {"host": "h", "user": "u", "shared": "/data", "queue": "/data/fairway-queue"}
    job, target = written(
        tmp_path,
        {"name": "pair", "engine": "ssh", "nodes": {"min": 2, "max": 2}, "ssh": ssh},
        setup="make",
    )
    assert (job.container, job.secrets, job.setup_is_admin) == (None, {}, False)
    words = [JobFacts(priority=number).priority_word for number in (None, 500, 7)]
    assert (job.priority_word, words) == ("normal", ["normal", "high", ""])
    assert target == TargetFacts("pair", "ssh", most_nodes=2, queue="/data/fairway-queue")
    assert pods_of(tmp_path) is None


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (job_facts.of_job, '{"priority": "soon"}'),
        (job_facts.of_job, '{"priority": 0.5}'),
        (job_facts.of_job, '{"container": {"image": 1}}'),
        (job_facts.of_target, '{"mounts": {"data": 1}}'),
        (pods_of, '{"kubernetes": {}}'),
    ],
)
def test_job_facts_of_a_damaged_file_name_the_file(tmp_path: Path, read: Any, text: str) -> None:
    file = "job.json" if read is job_facts.of_job else "target.json"
    (tmp_path / file).write_text(text)
    with pytest.raises(AgentError, match=f"{file}: damaged"):
        read(tmp_path)
