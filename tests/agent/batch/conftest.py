"""A node of a pool with a job's preparation and one task."""

from pathlib import Path

import pytest
from run_folders import bring

from fairway_agent.spec import RunPlan, TaskSpec


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the node's folders, as Batch lays them out and names them to its programs."""
    places = {"JOB_PREP_WORKING": "prep", "TASK": "task", "TASK_WORKING": "task/wd"}
    for name, place in {**places, "NODE_SHARED": "shared"}.items():
        (tmp_path / place).mkdir()
        monkeypatch.setenv(f"AZ_BATCH_{name}_DIR", str(tmp_path / place))
    for name, value in (("JOB_ID", "job-a"), ("NODE_ID", "n1")):
        monkeypatch.setenv(f"AZ_BATCH_{name}", value)
    monkeypatch.setenv("FAIRWAY_TASK", "0")
    plan = RunPlan("job-a", "code", sample_every=None)
    bring(tmp_path / "prep/record", plan, [TaskSpec(0)], {"batch": {}})
    (tmp_path / "prep/code").mkdir()
    return tmp_path
