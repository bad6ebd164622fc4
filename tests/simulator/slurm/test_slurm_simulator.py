"""Command `bin/slurm-simulator`: the simulated cluster for interactive use."""

import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished
from waiting import PATIENCE

from fairway_core.documents import read
from fairway_core.project import Project
from fairway_simulator.slurm import SlurmCluster, __main__, missing


@pytest.fixture
def possible() -> None:
    """Skips the test without Slurm's daemons or the right to create namespaces."""
    if lacking := missing():
        pytest.skip(lacking)


def test_slurm_simulator_target_is_declared_by_the_repository(repository: Path) -> None:
    targets = {
        each.name: each for each in read(repository / "fairway.yaml").validate(Project).targets
    }
    target = targets["slurm-sim"]
    assert target.slurm is not None  # type: ignore[union-attr]
    assert target.slurm.shared == str(__main__.SHARED)  # type: ignore[union-attr]
    assert target.slurm.host == SlurmCluster.alias  # type: ignore[union-attr]


@pytest.mark.usefixtures("possible")
def test_slurm_simulator_runs_until_interrupted(tmp_path: Path) -> None:
    env = tmp_path / "slurm.env"
    words = [sys.executable, "-m", "fairway_simulator.slurm", "--nodes", "2", "--env", str(env)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert select.select([process.stderr], [], [], PATIENCE)[0]
    assert process.stderr.readline().startswith("ready: sim-0, sim-1;")
    assert env.stat().st_mode & 0o777 == 0o600
    listed = finished(
        ["bash", "-c", f'. {env}; ssh -F "$FAIRWAY_SSH_CONFIG" slurm-sim srun -N2 hostname'],
        check=True,
    )
    assert sorted(listed.stdout.split()) == ["sim-0", "sim-1"]
    folder = Path(env.read_text().partition("FAIRWAY_SSH_CONFIG=")[2].split()[0]).parents[1]
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    process.stderr.close()
    assert not env.exists()
    assert not folder.exists()


@pytest.mark.usefixtures("possible")
def test_slurm_cluster_leaves_no_process_or_folder_after_its_end() -> None:
    with SlurmCluster(nodes=2) as cluster:
        folder = cluster.folder
        cluster.run("sbatch", "--wrap", "sleep 600", "-o", "/dev/null")
        assert "sim-0" in cluster.run("srun", "-w", "sim-1", "getent", "hosts", "sim-0")
        cluster.kill_node("sim-1")
        cluster.start_node("sim-1")
    assert not folder.exists()
    found = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, check=False)
    assert found.returncode == 1, found.stdout
