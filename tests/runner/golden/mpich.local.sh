#!/usr/bin/env bash
# MPICH launches the ranks.
set -euo pipefail

# One rank, on whichever node.
rank() {
    exec bash -c 'python train.py'
}

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f rank); rank"
