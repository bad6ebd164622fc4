#!/usr/bin/env bash
# Intel MPI launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() as in openmpi.h100.sh

# On Azure's HPC image it lies outside PATH.
oneapi=$(newest 'intel/oneapi/mpi/*/env/vars.sh')
if ! command -v mpiexec.hydra >/dev/null && [[ -r $oneapi ]]; then
    # shellcheck source=/dev/null
    set +u && source "$oneapi" && set -u
fi

# Runs one rank, and then ends what it has left running: as long as that could still write to the
# rank's output, the launcher would wait. It has a second to end by itself.
watch_rank() as in openmpi.h100.sh

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
find_infiniband() as in openmpi.h100.sh

# Tells NCCL, UCX and MPI which ports to take and which partition the node is in.
use_infiniband() as in openmpi.h100.sh

# NCCL goes on without a word where it cannot read the topology file: this says so. Without the file
# it takes GPUs and adapters for far from each other, and goes through the host's memory.
require_topology() as in openmpi.h100.sh

# What every rank runs with: the settings for Standard_ND96isr_H100_v5, and the job's own over them.
environment() as in openmpi.h100.sh

# One rank, on whichever node.
rank() {
    environment
    # Near its GPU: the NUMA node of each local rank's. Where a cpuset forbids that, it stays.
    local numa=(0 0 0 0 1 1 1 1)
    local cpus=/sys/devices/system/node/node${numa[MPI_LOCALRANKID]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    exec bash -c 'python train.py'
}

# Some of it may be for mpiexec.hydra itself.
environment
export I_MPI_FABRICS=${I_MPI_FABRICS:-shm:ofi} FI_PROVIDER=${FI_PROVIDER:-mlx}

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec.hydra -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment rank); rank"
