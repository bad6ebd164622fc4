#!/usr/bin/env bash
# MVAPICH launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() {
    { compgen -G "${FAIRWAY_SYSTEM_ROOT-}/opt/$1" || true; } | sort -V | tail -n 1
}

# On PATH, or where Azure's HPC image has it, which `module load` alone puts there.
if ! command -v mpiexec >/dev/null; then
    home=$(newest 'mvapich*/bin/mpiexec')
    home=${home%/bin/mpiexec}
    if [[ -z $home ]]; then
        echo "error: there is no mpiexec on PATH, and no MVAPICH in /opt;" \
            "install it, or take an image that has it" >&2
        exit 4
    fi
    export PATH=$home/bin:$PATH LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# One rank, on whichever node.
rank() {
    exec bash -c 'python train.py'
}

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f rank); rank"
