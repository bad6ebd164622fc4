"""From storage to a file system of the cluster, as a job on the cluster itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_runner.data.blob_path import blob_path
from fairway_runner.jobs.job import Job

if TYPE_CHECKING:
    from fairway_core.target import Target


def staging_job(target: Target, source: str, destination: str) -> Job:
    """A job that copies `CONTAINER:PATH` to `MOUNT:PATH`; UserError where it cannot.

    What is there already, and is the same, is not copied again: run once more, it goes on
    where it was cut off.
    """
    container, colon, path = source.partition(":")
    if not colon:
        message = f"`{source}` does not say what to copy"
        raise UserError.of("bad-place", message, "write CONTAINER:PATH")
    blob_path(f"{target.name}:{container}/{path}")
    try:
        return Job.model_validate(
            {
                "name": "stage",
                "template": "plain",
                "command": 'du -sh "$FAIRWAY_INPUT_DATA"',
                "inputs": {"data": {"from": source, "stage": "shared", "to": destination}},
            }
        )
    except (ValueError, FieldError):
        message = f"`{destination}` is not a path on the cluster"
        raise UserError.of("bad-place", message, "write MOUNT:PATH") from None
