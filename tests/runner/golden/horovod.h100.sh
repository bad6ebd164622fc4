#!/usr/bin/env bash
# mpirun launches the ranks of Horovod.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() as in openmpi.h100.sh

# Takes the HPC-X in that folder for this shell, if it is there.
load_hpcx() as in openmpi.h100.sh

load_openmpi() as in openmpi.h100.sh

# The mpirun on PATH, or else that of Azure's HPC image, where `module load` alone puts it there.
mpirun=mpirun
command -v mpirun >/dev/null || load_hpcx "$(newest 'hpcx-*')" || load_openmpi || {
    echo "error: there is no mpirun on PATH, and neither an HPC-X nor an Open MPI in /opt;" \
        "install Open MPI, or take an image that has it" >&2
    exit 4
}

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
    local cpus=/sys/devices/system/node/node${numa[OMPI_COMM_WORLD_LOCAL_RANK]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    # Horovod's own, unless the job's `env` sets them.
    export HOROVOD_FUSION_THRESHOLD=${HOROVOD_FUSION_THRESHOLD:-67108864}
    export HOROVOD_CYCLE_TIME=${HOROVOD_CYCLE_TIME:-1.0}
    exec bash -c 'python train.py'
}

# Some of it may be for mpirun itself.
environment

# The hosts of the contract with their slots: equal hosts add up, in their order.
hostfile=$FAIRWAY_SCRATCH_DIR/hostfile
awk -v slots="$FAIRWAY_PROCESSES_PER_NODE" '
    !($1 in total) { order[++count] = $1 }
    { total[$1] += slots }
    END { for (i = 1; i <= count; i++) print order[i] " slots=" total[order[i]] }
' "$FAIRWAY_HOSTFILE" >"$hostfile"

# Each line with its rank, by Open MPI 5 and later: Open MPI 4 breaks lines that come in parts.
label_ranks=()
case $("$mpirun" --version) in
    *"(Open MPI) "[1-4].*) ;;
    *"(Open MPI) "*) label_ranks=(--tag-output) ;;
esac

# Ranks on other nodes see what mpirun is told to forward, and what `rank` sets there.
forward=()
while IFS= read -r name; do
    forward+=(-x "$name")
done < <(compgen -e | grep -E '^(FAIRWAY_.*|PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|OPAL_PREFIX|HPCX_.*)$')

# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
exec "$mpirun" ${FAIRWAY_MPI_ARGS-} "${label_ranks[@]}" --map-by ppr:8:node --bind-to numa -mca coll_hcoll_enable 0 \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment rank); rank"
