"""How the objects of a run are called: within what Kubernetes takes, and each by one name."""

from __future__ import annotations

import re

import pytest

from fairway_agent.kubernetes.api import job_name, run_label

RUNS = ["a", "digits-7k2m9p", "a" * 63, f"{'a' * 62}-", f"{'a' * 30}{'-' * 33}", "a-"]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("submission", "part"), [(0, 0), (12, 4999), (0, "controller")])
def test_a_job_has_room_for_the_number_of_its_pods(
    run: str, submission: int, part: int | str
) -> None:
    """The controller refuses a name that leaves none: 63 characters, less that of the index."""
    name = job_name(run, submission, part)
    assert len(name) <= 52
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert name.endswith(f"-{submission}-{part}")


@pytest.mark.parametrize("run", RUNS)
def test_a_label_ends_as_labels_do(run: str) -> None:
    value = run_label(run)
    assert len(value) <= 63
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", value)


def test_no_two_runs_share_a_name_or_a_label() -> None:
    runs = [*RUNS, f"{'a' * 61}b", "b" * 63]
    assert len({job_name(run, 0, 0) for run in runs}) == len(runs)
    assert len({run_label(run) for run in runs}) == len(runs)
