"""The template nccl-tests, with a stand-in for mpirun that reports a bandwidth."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from rendered import cluster_of, contract, infiniband_port, rendered

pytestmark = pytest.mark.integration

# Row of all_reduce_perf of nccl-tests 2.16: out of place in columns 6 to 9, then in place.
ROW = (
    "{:>12} {:>12}     float     sum      -1  {:>8}  245.42  {:>6}      0  35000.0  245.4  999.9  0"
)


def report(busbw: str, wrong: str) -> str:
    """Returns the output of mpirun, with the bandwidth for the largest message."""
    return "\n".join(
        [
            "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8589934592",
            "#       size         count      type   redop    root     time   algbw   busbw #wrong",
            ROW.format(8388608, 2097152, "150.0", "108.35"),
            ROW.format(8589934592, 2147483648, "35000.0", busbw),
            f"# Out of bounds values : {wrong}",
            "# Avg bus bandwidth    : 291.9\n",
        ]
    )


class Cluster:
    """Two H100 nodes with a stand-in for mpirun."""

    def __init__(self, root: Path) -> None:
        self.root = root
        infiniband_port(root, "mlx5_ib0", "0x8001")
        topology = root / "opt/microsoft/ndv5/topo.xml"
        topology.parent.mkdir(parents=True)
        topology.write_text("<system/>")

    def measure(
        self, busbw: str = "475.38", *, wrong: str = "0 OK", code: int = 0, **job: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs the job with an mpirun that reports the bandwidth and exits with the code."""
        (self.root / "report").write_text(report(busbw, wrong))
        executable(self.root / "bin/mpirun", f"cat {self.root}/report\nexit {code}")
        place = cluster_of(job.pop("size", "Standard_ND96isr_H100_v5"))
        job = {"template": "nccl-tests", "nodes": 2, "processes_per_node": 8, **job}
        job = {"name": "x", "command": "all_reduce_perf", **job}
        resolved, script = rendered(self.root, place, **job)
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        own = contract(self.root, resolved.nodes, 8, PATH=path)
        return finished(["bash", "-c", script], env=own)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Two H100 nodes."""
    return Cluster(tmp_path)


SHARP, UNKNOWN = {"options": {"sharp": True}}, "what to expect of this VM size is not known; its"
A100, H200 = "Standard_ND96asr_v4", "Standard_ND96isr_H200_v5"


@pytest.mark.parametrize(
    ("busbw", "job", "code", "verdict", "says"),
    [
        ("475.38", SHARP, 0, "sound", " with SHARP; at least 400 GB/s are expected"),
        ("399.99", SHARP, 0, "slow", " with SHARP; a sound fabric has 400 GB/s"),
        ("299.99", SHARP, 1, "too slow", " with SHARP; at least 300 GB/s are expected"),
        ("470.01", {"nodes": 1}, 0, "sound", "; at least 460 GB/s are expected"),
        ("459.99", {"nodes": 1, **SHARP}, 1, "too slow", "; at least 460 GB/s are expected"),
        # Bandwidths measured with SHARP are not required of a fabric without it.
        ("365.00", {"nodes": 4}, 0, "", f" without SHARP; {UNKNOWN} adapters carry 400 GB/s"),
        ("174.99", {"nodes": 4, "size": A100}, 1, "too slow", " without SHARP; at least 175 GB/s"),
        ("475.38", {"options": {"minimum": 480.5}}, 1, "too slow", "; at least 480.5 GB/s are"),
        ("375.38", {"size": H200}, 0, "", f"; {UNKNOWN}"),
    ],
)
def test_nccl_tests_verdict_compares_bandwidth_with_the_size_or_the_job_minimum(
    cluster: Cluster, busbw: str, job: dict[str, Any], code: int, verdict: str, says: str
) -> None:
    done = cluster.measure(busbw, **job)
    assert done.returncode == code
    last = (done.stderr if code else done.stdout).splitlines()[-1]
    assert last.startswith(f"nccl-tests: {verdict}")
    reached = f"all-reduce reaches {busbw} GB/s with 8589934592 bytes on {job.get('nodes', 2)} × 8"
    assert f"{reached} GPUs" in last
    assert says in last
    assert done.stdout.startswith("# nThread 1")


@pytest.mark.parametrize(
    ("nodes", "env", "noted"), [(2, {}, 1), (2, {"NCCL_ALGO": "Ring"}, 0), (4, {}, 0)]
)
def test_nccl_tests_note_that_a_tree_on_two_nodes_may_hide_a_slow_network(
    cluster: Cluster, nodes: int, env: dict[str, str], noted: int
) -> None:
    assert cluster.measure(nodes=nodes, env=env).stdout.count("NCCL may take a tree") == noted


@pytest.mark.parametrize("wrong", ["3 FAILED", "", "0.5 OK", "10 FAILED"])
def test_nccl_tests_fail_on_wrong_or_missing_sums_or_with_mpirun(
    cluster: Cluster, wrong: str
) -> None:
    done = cluster.measure(wrong=wrong)
    assert done.returncode == 1
    assert done.stderr == "nccl-tests: failed: no result, or sums that are wrong\n"
    done = cluster.measure(code=213)
    assert (done.returncode, "nccl-tests:" in done.stdout) == (213, False)
