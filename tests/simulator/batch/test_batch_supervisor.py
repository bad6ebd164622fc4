"""Process of a node that starts its tasks."""

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from fairway_simulator.batch.agent.supervisor_client import Ended, Setting, Supervisor


def _killed(program: Callable[[], Popen[bytes]]) -> Popen[bytes]:
    process = program()
    process.kill()
    process.wait()
    return process


def test_batch_supervisor_killed_at_its_start_is_released(tmp_path: Path) -> None:
    """For example if its node is removed meanwhile, with all its processes."""
    supervisor = Supervisor(Setting("node", ()), _killed)
    log = str(tmp_path / "log")
    assert supervisor.run(["true"], str(tmp_path), {}, log, log) == Ended()
    supervisor.close()
