"""Files that nodes of the simulated account download from storage and upload to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient, ContainerClient
from command_lines import bash

from fairway_simulator.batch import BatchSimulator, simulator
from fairway_simulator.batch.agent.transfers import matches

IDENTITY = {"resourceId": simulator.IDENTITY}


@pytest.fixture
def service(tmp_path: Path, storage: Any) -> Iterator[BatchSimulator]:
    """An account with storage."""
    with BatchSimulator(tmp_path / "sim", nodes=3, storage_access=storage) as simulator:
        yield simulator


@pytest.fixture
def container(service: Any, request: Any) -> Iterator[ContainerClient]:
    """A container for this test only."""
    name = "t" + str(abs(hash(request.node.nodeid)))
    with (
        BlobServiceClient.from_connection_string(service.storage_connection_string) as blobs,
        blobs.create_container(name) as made,
    ):
        yield made
        made.delete_container()


def upload(pattern: str, container: Any, condition: str = "taskcompletion", **more: Any) -> Any:
    destination = {"containerUrl": container.url, "identityReference": IDENTITY, **more}
    return {
        "filePattern": pattern,
        "destination": {"container": destination},
        "uploadOptions": {"uploadCondition": condition},
    }


def names(container: Any) -> set[str]:
    return {blob.name for blob in container.list_blobs()}


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ({"httpUrl": "{url}/none", "identityReference": IDENTITY}, "BlobNotFound"),
        ({"httpUrl": "{url}/private"}, "BlobAccessDenied"),
        ({"httpUrl": "http://127.0.0.1:1/x", "identityReference": IDENTITY}, "BlobAccessDenied"),
        (
            {"httpUrl": "{url}/private", "identityReference": IDENTITY, "filePath": "../../x"},
            "ResourceFileCreateFailed",
        ),
        (
            {"storageContainerUrl": "{url}none", "identityReference": IDENTITY, "filePath": ""},
            "ResourceContainerListDiagnosticFailed",
        ),
    ],
)
def test_batch_resource_file_that_cannot_be_fetched_fails_the_task_before_its_start(
    run: Any, container: Any, file: dict[str, Any], code: str
) -> None:
    container.upload_blob("private", b"secret")
    file = {"filePath": "f", **file}
    for name in ("httpUrl", "storageContainerUrl"):
        if name in file:
            file[name] = file[name].format(url=container.url)
    task = run("true", resourceFiles=[file], constraints={"maxTaskRetryCount": 3})
    info = task.execution_info
    assert (info.failure_info.code, info.result) == (code, "failure")
    assert (info.exit_code, info.retry_count) == (None, 0)


@pytest.mark.parametrize("how", ["timeout", "terminate"])
def test_batch_output_files_of_an_ended_task_are_uploaded(
    service: Any, client: Any, job: str, container: Any, how: str
) -> None:
    line = bash("echo said; touch $AZ_BATCH_NODE_MOUNTS_DIR/shared/up; sleep 300")
    limits = {"maxWallClockTime": "PT1H"}
    client.create_task(
        job,
        {
            "id": "1",
            "commandLine": line,
            "constraints": limits,
            "outputFiles": [upload("../stdout.txt", container)],
        },
    )
    service.wait_until((service.shared_folder / "up").exists)
    if how == "timeout":
        service.advance(3601)
    else:
        client.terminate_task(job, "1")
    service.wait_for_task(job, "1")
    assert client.get_task(job, "1").execution_info.failure_info.code == "TaskEnded"
    assert container.download_blob("stdout.txt").readall() == b"said\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"containerUrl": "none"}, "FileUploadContainerNotFound"),
        ({"identityReference": None}, "FileUploadAccessDenied"),
    ],
)
def test_batch_output_file_that_cannot_be_uploaded_fails_the_task(
    run: Any, container: Any, change: dict[str, Any], code: str
) -> None:
    file = upload("../stdout.txt", container, **change)
    destination = file["destination"]["container"]
    if change.get("containerUrl"):
        destination["containerUrl"] = container.url + "none"
    info = run("true", outputFiles=[file]).execution_info
    assert (info.exit_code, info.result, info.failure_info.code) == (0, "failure", code)


@pytest.mark.parametrize("make", ["touch $'a\\nb'", "touch $'\\xff'", "mkfifo p", "ln -s no l"])
def test_batch_output_file_that_cannot_be_a_blob_fails_the_task(
    run: Any, container: Any, make: str
) -> None:
    info = run(f"mkdir out; cd out; {make}", outputFiles=[upload("out/**/*", container)])
    failure = info.execution_info.failure_info
    assert failure.code == "FileUploadMiscError"


def test_batch_output_file_patterns_match_and_name_blobs_like_the_service(tmp_path: Path) -> None:
    hidden = (".h.txt", "sub/.h.log", "sub/.deep/d.log")
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt", "sub/c.log", *hidden):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(pattern: str, path: str = "") -> set[str]:
        return {name for _, name in matches(tmp_path, pattern, path)}

    assert found("a.txt") == {"a.txt"}
    assert found("a.txt", "p/q") == {"p/q"}
    assert found("*.txt", "p") == {"p/a.txt"}
    assert found("**/*.txt") == {"a.txt", "sub/b.txt", "sub/deep/c.txt"}
    assert found("sub/**/*") == {"b.txt", "c.log", "deep/c.txt"}
    assert found("sub/[bc].*") == {"b.txt", "c.log"}
    assert found("none") == set()
    # "If a file name starts with "." it is ignored by default but may be matched by specifying
    # it explicitly": OutputFile.file_pattern of azure-batch.
    assert found(".*.txt") == {".h.txt"}
    assert found("sub/**/.*") == {".h.log"}
    assert found("sub/**/.*/**/*") == {".deep/d.log"}


def test_batch_resource_file_with_a_foreign_identity_is_denied(run: Any, container: Any) -> None:
    container.upload_blob("data.txt", b"words")
    other = {"resourceId": IDENTITY["resourceId"].replace("/sim", "/other")}
    file = {"httpUrl": f"{container.url}/data.txt", "filePath": "x", "identityReference": other}
    info = run("cat x", resourceFiles=[file]).execution_info
    assert (info.result, info.failure_info.code) == ("failure", "BlobAccessDenied")
    assert "is not the pool's" in info.failure_info.message
