#!/usr/bin/env bash
# A session: commands run beside this script, which waits for them.
set -euo pipefail

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

# What commands run beside: they get its environment, and the folder of the code.
hold() {
    environment
    export FAIRWAY_SESSION=$PWD
    exec sleep infinity
}

# Whether somebody uses this node: a command runs beside the session, or a GPU is busy.
in_use() {
    local found use
    while IFS= read -r found; do
        if grep -qsxzF "FAIRWAY_RUN=$FAIRWAY_RUN" "$found"; then return 0; fi
    done < <(grep -lsz '^FAIRWAY_PID=' /proc/[0-9]*/environ)
    use=$(nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null) || use=
    [[ $use == *[1-9]* ]] || grep -qs '[1-9]' /sys/class/drm/card*/device/gpu_busy_percent
}

# Fails on a node that is in use.
# shellcheck disable=SC2329
node() {
    if in_use; then exit 1; fi
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
hold &
# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
$FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment hold); hold" &
echo "fairway: the session has begun"

unused=0
while ((unused < 30)); do
    sleep 60
    # Where one of these has failed, so has the session.
    for each in $(jobs -p); do
        kill -0 "$each" 2>/dev/null || wait "$each" || exit $?
    done
    if in_use; then unused=0 && continue; fi
    # shellcheck disable=SC2086
    $FAIRWAY_EACH_NODE \
        bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment in_use node); node" || { unused=0 && continue; }
    unused=$((unused + 1))
done
echo "fairway: nobody has used the session for 1800 s"
exit 124
