"""Containers on the nodes of the simulated account."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway_simulator.batch import BatchSimulator
from fairway_simulator.batch.agent.commands import ContainerError, arguments

IMAGES = {"plain:latest": [], "team.azurecr.io/train:1": ["/bin/echo", "entry"]}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[BatchSimulator]:
    """An account whose pool supports containers."""
    with BatchSimulator(tmp_path / "sim", nodes=1, images=IMAGES) as simulator:
        yield simulator


def test_batch_container_passes_the_command_to_the_entry_point(run: Any, read: Any) -> None:
    settings = {"imageName": "team.azurecr.io/train:1"}
    assert run("echo command", containerSettings=settings).execution_info.exit_code == 0
    assert read() == "entry /bin/bash -c echo command\n"
    settings["containerRunOptions"] = "--entrypoint= --shm-size=8g"
    run("echo command", "2", containerSettings=settings)
    assert read("2") == "command\n"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (None, "InvalidContainerSettings"),
        ({"imageName": "none:1"}, "ContainerImageNotFound"),
        ({"imageName": "plain", "containerRunOptions": "--gpus=all"}, "ContainerCreationFailed"),
    ],
)
def test_batch_container_that_cannot_be_created_fails_the_task(
    run: Any, settings: Any, code: str
) -> None:
    info = run("true", containerSettings=settings).execution_info
    assert (info.result, info.failure_info.code) == ("failure", code)


@pytest.mark.parametrize("options", ["--runtime nvidia", "--gpu all", "--shm-size"])
def test_batch_container_options_that_are_unknown_are_refused(options: str) -> None:
    with pytest.raises(ContainerError):
        arguments({"imageName": "plain", "containerRunOptions": options}, ["true"], IMAGES)


def test_batch_container_options_that_are_known_are_accepted() -> None:
    options = "--net=host --ulimit memlock=-1 --init -v /a:/b --entrypoint /bin/tini"
    settings = {"imageName": "plain:latest", "containerRunOptions": options}
    assert arguments(settings, ["true"], IMAGES) == ["/bin/tini", "true"]
