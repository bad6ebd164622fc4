#!/usr/bin/env bash
# Intel MPI launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() {
    { compgen -G "${FAIRWAY_SYSTEM_ROOT-}/opt/$1" || true; } | sort -V | tail -n 1
}

# On Azure's HPC image it lies outside PATH.
oneapi=$(newest 'intel/oneapi/mpi/*/env/vars.sh')
if ! command -v mpiexec.hydra >/dev/null && [[ -r $oneapi ]]; then
    # shellcheck source=/dev/null
    set +u && source "$oneapi" && set -u
fi

# One rank, on whichever node.
rank() {
    exec bash -c 'python train.py'
}

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec.hydra -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f rank); rank"
