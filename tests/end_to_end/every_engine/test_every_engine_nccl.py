"""`nccl-tests` on every engine: MPI is real, and a stand-in for all_reduce_perf takes no GPU.

It prints what nccl-tests prints, once its ranks have met: columns as in nccl-tests 2.16,
doc/PERFORMANCE.md and src/common.cu of NVIDIA/nccl-tests.
"""

import json

import pytest
from program import Fairway, Place

pytestmark = pytest.mark.nightly

_ALL_REDUCE = """
import sys
from mpi4py import MPI

world = MPI.COMM_WORLD
options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
assert set(options) == {"-b", "-e", "-f", "-n", "-g"}, options
right = world.allreduce(world.rank) == world.size * (world.size - 1) // 2
if world.rank == 0:
    print(f"# nThread 1 nGpus {options['-g']} minBytes {options['-b']} maxBytes {options['-e']}")
    for size, busbw in ((8388608, 108.35), (17179869184, 375.38)):
        print(size, size // 4, "float sum -1 150.0 245.42", busbw, "0 35000.0 245.4 999.9 0")
    print("# Out of bounds values :", "0 OK" if right and options["-n"] == "5" else "1 FAILED")
    print("# Avg bus bandwidth    : 241.9", flush=True)
"""


def test_the_fabric_is_measured(fairway: Fairway, place: Place) -> None:
    if not place.has_mpi:
        pytest.skip("needs root: each node has a host name of its own")
    (fairway.folder / "all_reduce_perf.py").write_text(_ALL_REDUCE)
    job = fairway.job(
        "python all_reduce_perf.py",
        template="nccl-tests",
        nodes=2,
        processes_per_node=2,
        options={"iterations": 5, "minimum": 300.0},
    )
    ways = {"sound": ([], 0), "too slow": (["-s", "options.minimum=400"], 1)}
    for word, (changed, code) in ways.items():
        done = fairway("submit", job, "--target", place.name, "--watch", "--json", *changed)
        run = json.loads(done.stdout.splitlines()[-1])["run_id"]
        log = fairway.within("logs", run).stdout
        assert done.returncode == code, log
        reached = "all-reduce reaches 375.38 GB/s with 17179869184 bytes on 2 × 2 GPUs"
        assert f"nccl-tests: {word}: {reached} without SHARP; at least" in log
