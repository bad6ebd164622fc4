"""Launchers on Azure's HPC image, which has MPIs on PATH only after `module load`.

A tree of files stands in for the image: /opt/hpcx-*, /opt/openmpi-*, /opt/mvapich-* and Intel's,
named as azhpc-images' `install_mpis.sh` names them, and a PATH without any of them.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from rendered import cluster_of, contract, rendered

pytestmark = pytest.mark.integration

HPCX = "hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"

# Like NVIDIA's script: locates its own folder, exports variables, and reads unset ones.
HPCX_INIT = """\
HPCX_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpcx_load() {
    export HPCX_DIR=$HPCX_HOME HPCX_MPI_DIR=$HPCX_HOME/ompi OPAL_PREFIX=$HPCX_HOME/ompi
    export PATH=$HPCX_HOME/ompi/bin:$PATH
    export LD_LIBRARY_PATH=$HPCX_HOME/ucx/lib:$HPCX_HOME/ompi/lib:$LD_LIBRARY_PATH
}
"""

# Prints its path, libraries and arguments, and a result like all_reduce_perf.
LAUNCHER = """\
#!/bin/bash
echo "started $0"
echo "libraries ${LD_LIBRARY_PATH-}"
echo "arguments $*"
echo "  8589934592 2147483648 float sum -1 35000.0 245.42 475.38 0 35000.0 245.4 999.9 0"
echo "# Out of bounds values : 0 OK"
"""

# Programs that the scripts call besides an MPI.
TOOLS = ("awk", "bash", "cat", "env", "grep", "hostname", "sort", "tail", "tee", "dirname")


class Image:
    """A stand-in for the image, which runs scripts below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = root / "bin"
        self.tools.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.tools / tool).symlink_to(found)

    def program(self, path: str, text: str = LAUNCHER) -> Path:
        """Makes an executable below the root."""
        return executable(self.root / path, text)

    def run(self, template: str, **job: Any) -> subprocess.CompletedProcess[str]:
        """Runs the template's script on one node with two processes."""
        defaults = {"name": "x", "template": template, "processes_per_node": 2, "command": "true"}
        script = self.root / "launch.sh"
        script.write_text(rendered(self.root, cluster_of("local"), **{**defaults, **job})[1])
        own = contract(self.root, 1, 2, PATH=str(self.tools))
        return finished([str(self.tools / "bash"), str(script)], env=own, cwd=self.root)


@pytest.fixture
def bare(tmp_path: Path) -> Image:
    """A machine without an MPI."""
    return Image(tmp_path)


@pytest.fixture
def image(bare: Image) -> Image:
    """The HPC image, with two versions of Open MPI."""
    bare.program(f"opt/{HPCX}/hpcx-init.sh", HPCX_INIT)
    bare.program(f"opt/{HPCX}/ompi/bin/mpirun")
    bare.program("opt/openmpi-5.0.9/bin/mpirun")
    bare.program("opt/openmpi-5.0.10/bin/mpirun")
    bare.program("opt/mvapich-4.1/bin/mpiexec")
    bare.program("opt/intel/oneapi/mpi/2021.16/bin/mpiexec.hydra")
    bare.program(
        "opt/intel/oneapi/mpi/2021.16/env/vars.sh",
        'export PATH=$(dirname "${BASH_SOURCE[0]}")/../bin:$PATH\n: "$NOT_SET"\n',
    )
    return bare


@pytest.mark.parametrize(
    ("template", "program"),
    [
        *((each, f"{HPCX}/ompi/bin/mpirun") for each in ("openmpi", "horovod")),
        *((each, f"{HPCX}/ompi/bin/mpirun") for each in ("hpcx", "nccl-tests")),
        *((each, "mvapich-4.1/bin/mpiexec") for each in ("mvapich", "mpich")),
        ("intelmpi", "intel/oneapi/mpi/2021.16/env/../bin/mpiexec.hydra"),
    ],
)
def test_launcher_finds_an_mpi_without_module_load_unless_one_is_on_path(
    image: Image, template: str, program: str
) -> None:
    """The MPI's libraries are found too, and passed to the ranks. Without HPC-X, the newest is."""
    done = image.run(template)
    assert done.returncode == 0, done.stderr
    assert f"started {image.root}/opt/{program}\n" in done.stdout
    if program.startswith(HPCX):
        assert f"libraries {image.root}/opt/{HPCX}/ucx/lib:" in done.stdout
        for name in ("LD_LIBRARY_PATH", "OPAL_PREFIX", "HPCX_MPI_DIR"):
            assert f" -x {name} " in done.stdout
        shutil.rmtree(image.root / "opt" / HPCX)
    if program.startswith(HPCX) and template != "hpcx":
        done, newest = image.run(template), f"{image.root}/opt/openmpi-5.0.10"
        assert f"started {newest}/bin/mpirun\n" in done.stdout
        assert f"libraries {newest}/lib\n" in done.stdout
    if template in ("openmpi", "horovod", "mvapich", "mpich"):
        own = image.program(f"bin/{Path(program).name}")
        assert f"started {own}\n" in image.run(template).stdout


def test_launcher_runs_programs_of_the_image_with_the_mpi_of_the_image(image: Image) -> None:
    own = image.program("bin/mpirun")
    measured = image.run("nccl-tests", command="/opt/nccl-tests/build/all_reduce_perf")
    assert f"started {image.root}/opt/{HPCX}/ompi/bin/mpirun\n" in measured.stdout
    assert f"started {own}\n" in image.run("nccl-tests", command="./all_reduce_perf").stdout


@pytest.mark.parametrize(
    "template", ["openmpi", "horovod", "hpcx", "nccl-tests", "mvapich", "mpich"]
)
def test_launcher_without_mpi_reports_where_it_looked(bare: Image, template: str) -> None:
    done = bare.run(template)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: there is no ")
    assert "/opt" in done.stderr
