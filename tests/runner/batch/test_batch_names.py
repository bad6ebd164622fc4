"""Keys and names: a key for each run, and ids that Batch takes."""

from __future__ import annotations

import pytest

from fairway_runner.engines import engine
from fairway_runner.engines.batch import names


def test_batch_keys_differ_for_each_run() -> None:
    (first, public), (second, _) = engine.new_key("a"), engine.new_key("a")
    assert first != second
    assert first.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    assert public.startswith("ssh-ed25519 ")


@pytest.mark.parametrize("run", ["a", "digits-abcdef", "a" * 63])
def test_ids_of_jobs_fit_and_differ(run: str) -> None:
    ids = {names.job_id(run, submission) for submission in range(12)}
    assert len(ids) == 12
    assert all(len(each) <= 64 for each in ids)
    assert names.job_id("a" * 62 + "b", 1) != names.job_id("a" * 62 + "c", 1)
