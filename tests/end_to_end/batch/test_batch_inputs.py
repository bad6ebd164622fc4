"""Data from storage, staged on the nodes of a pool before tasks read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerClient

if TYPE_CHECKING:
    from conftest import Batch

    from fairway_simulator.batch import StorageAccess


class TestInputs:
    """Data from storage."""

    @pytest.mark.parametrize("stage", ["scratch", "shared"])
    def test_blobs_are_there_before_the_task(
        self, batch: Batch, storage: StorageAccess, stage: str
    ) -> None:
        place = f"{batch.fairway.folder.name}/words"
        container = ContainerClient.from_connection_string(storage.connection_string, "datasets")
        for name in ("a", "deep/b"):
            container.upload_blob(f"{place}/{name}", f"{name}\n")
        job = batch.fairway.job(
            "cd $FAIRWAY_INPUT_WORDS && cat a deep/b",
            template="plain",
            inputs={"words": {"from": f"datasets:{place}", "stage": stage}},
        )
        code, printed = batch.watch(job)
        assert code == 0, printed
        assert "a\ndeep/b\n" in printed
        shared = batch.data / "fairway" / "inputs" / "datasets" / place / "a"
        assert shared.exists() is (stage == "shared")

    def test_they_go_where_the_job_says(self, batch: Batch, storage: StorageAccess) -> None:
        place = f"{batch.fairway.folder.name}/imagenet"
        container = ContainerClient.from_connection_string(storage.connection_string, "datasets")
        container.upload_blob(f"{place}/train/1.jpg", "an image\n")
        staged = {"from": f"datasets:{place}", "stage": "shared", "to": "data:/sets/imagenet"}
        job = batch.fairway.job(
            "cat $FAIRWAY_INPUT_DATA/train/1.jpg", template="plain", inputs={"data": staged}
        )
        code, printed = batch.watch(job)
        assert code == 0, printed
        assert "an image\n" in printed
        image = batch.data / "sets" / "imagenet" / "train" / "1.jpg"
        assert image.read_text() == "an image\n"

    def test_batch_sweep_over_input_files_makes_a_task_for_each_file(
        self, batch: Batch, storage: StorageAccess
    ) -> None:
        place = f"{batch.fairway.folder.name}/images"
        container = ContainerClient.from_connection_string(storage.connection_string, "datasets")
        for name in ("b.txt", "deep/a.txt", "deep/a.jpg", ".hidden.txt"):
            container.upload_blob(f"{place}/{name}", f"{name}\n")
        container.upload_blob(f"{place}-others/c.txt", "c\n")
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

    def test_data_is_staged_by_a_job_on_the_pool(
        self, batch: Batch, storage: StorageAccess
    ) -> None:
        place = f"{batch.fairway.folder.name}/staged"
        container = ContainerClient.from_connection_string(storage.connection_string, "datasets")
        container.upload_blob(f"{place}/a/b", "staged\n")
        words = ("data", "stage", "batch-sim", f"datasets:{place}", "data:/staged", "--watch")
        batch.ok(*words)
        staged = batch.data / "staged" / "a" / "b"
        assert staged.read_text() == "staged\n"
        before = staged.stat().st_mtime_ns
        batch.ok(*words)
        assert staged.stat().st_mtime_ns == before, "what is there is not copied again"
