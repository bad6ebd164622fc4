#!/usr/bin/env bash
# all_reduce_perf measures the fabric between the GPUs.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() as in openmpi.h100.sh

# Takes the HPC-X in that folder for this shell, if it is there.
load_hpcx() as in openmpi.h100.sh

load_openmpi() as in openmpi.h100.sh

# The image's HPC-X, which its programs are linked against, or else an Open MPI.
mpirun=mpirun
load_hpcx "$(newest 'hpcx-*')" || command -v mpirun >/dev/null || load_openmpi || {
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
    # shellcheck disable=SC2016  # the inner shell expands it
    exec bash -c '/opt/nccl-tests/build/all_reduce_perf "$@"' nccl-tests \
        -b 8M -e 16G -f 2 -n 20 -g 1
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

# Ranks on other nodes see what mpirun is told to forward, and what `rank` sets there.
forward=()
while IFS= read -r name; do
    forward+=(-x "$name")
done < <(compgen -e | grep -E '^(FAIRWAY_.*|PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|OPAL_PREFIX|HPCX_.*)$')

report=$FAIRWAY_SCRATCH_DIR/all_reduce
# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
"$mpirun" ${FAIRWAY_MPI_ARGS-} --map-by ppr:8:node --bind-to numa -mca coll_hcoll_enable 0 \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment rank); rank" |
    tee "$report"

# The best bus bandwidth, out of place, over all sizes: column 8 in GB/s; column 1 is the bytes.
read -r bytes busbw < <(awk '
    $1 ~ /^[0-9]+$/ && NF > 8 && $8 + 0 > best + 0 { best = $8; bytes = $1 }
    END { print bytes ? bytes : 0, best ? best : 0 }
' "$report")
if ! grep -q '^# Out of bounds values : 0 ' "$report"; then
    echo "nccl-tests: failed: no result, or sums that are wrong" >&2
    exit 1
fi
result="all-reduce reaches $busbw GB/s with $bytes bytes on $FAIRWAY_NODES × $FAIRWAY_PROCESSES_PER_NODE GPUs without SHARP"
echo "nccl-tests: measured: $result; what to expect of this VM size is not known; its adapters carry 400 GB/s"
