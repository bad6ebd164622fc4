"""Data from storage, staged on the nodes of a pool before tasks read it."""

import json
from collections.abc import Callable

import pytest
from azure.storage.blob import ContainerClient
from batch_service import Batch

from fairway_simulator.batch import StorageAccess

Put = Callable[..., str]


@pytest.fixture
def put(batch: Batch, storage: StorageAccess) -> Put:
    """Uploads blobs, each with its own name as content, below a path of this test only."""
    container = ContainerClient.from_connection_string(storage.connection_string, "datasets")

    def put(folder: str, *names: str) -> str:
        place = f"{batch.fairway.folder.name}/{folder}"
        for name in names:
            container.upload_blob(f"{place}/{name}", f"{name}\n")
        return place

    return put


class TestInputs:
    """Inputs from storage."""

    @pytest.mark.parametrize(
        ("how", "kept"),
        [
            ({"stage": "scratch"}, ""),
            ({"stage": "shared"}, "fairway/inputs/datasets/{place}"),
            ({"stage": "shared", "to": "data:/sets/words"}, "sets/words"),
        ],
        ids=["scratch", "shared", "where the job says"],
    )
    def test_batch_inputs_are_staged_before_the_task_starts(
        self, batch: Batch, put: Put, how: dict[str, str], kept: str
    ) -> None:
        place = put("words", "a", "deep/b")
        job = batch.fairway.job(
            "cd $FAIRWAY_INPUT_WORDS && cat a deep/b",
            template="plain",
            inputs={"words": {"from": f"datasets:{place}", **how}},
        )
        code, printed = batch.watch(job)
        assert code == 0, printed
        assert "a\ndeep/b\n" in printed
        there = {path.parent for path in batch.data.rglob("a") if path.is_file()}
        assert there == ({batch.data / kept.format(place=place)} if kept else set())

    def test_batch_sweep_over_input_files_makes_a_task_for_each_file(
        self, batch: Batch, put: Put
    ) -> None:
        place = put("images", "b.txt", "deep/a.txt", "deep/a.jpg", ".hidden.txt")
        put("images-others", "c.txt")
        job = batch.fairway.job(
            "cat $FAIRWAY_INPUT_IMAGES/{{ params.file }}",
            template="plain",
            inputs={"images": {"from": f"datasets:{place}"}},
            sweep={"points": {"files": {"input": "images", "pattern": "**/*.txt"}}},
        )
        points = json.loads(batch.ok("sweep", str(job), "--target", "batch-sim", "--json"))
        assert [each["params"]["file"] for each in points] == ["b.txt", "deep/a.txt"]
        code, printed = batch.watch(job)
        assert code == 0, printed
        [run] = batch.runs()
        assert batch.ok("logs", run, "--task", "0") == "b.txt\n"
        assert batch.ok("logs", run, "--task", "1") == "deep/a.txt\n"

    def test_batch_data_stage_copies_blobs_to_a_mount_once(self, batch: Batch, put: Put) -> None:
        place = put("staged", "a/b")
        words = ("data", "stage", "batch-sim", f"datasets:{place}", "data:/staged", "--watch")
        batch.ok(*words)
        staged = batch.data / "staged" / "a" / "b"
        assert staged.read_text() == "a/b\n"
        before = staged.stat().st_mtime_ns
        batch.ok(*words)
        assert staged.stat().st_mtime_ns == before, "what is there is not copied again"
