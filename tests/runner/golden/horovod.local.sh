#!/usr/bin/env bash
# mpirun launches the ranks of Horovod.
set -euo pipefail

# One rank, on whichever node.
rank() {
    # Horovod's own, unless the job's `env` sets them.
    export HOROVOD_FUSION_THRESHOLD=${HOROVOD_FUSION_THRESHOLD:-67108864}
    export HOROVOD_CYCLE_TIME=${HOROVOD_CYCLE_TIME:-1.0}
    exec bash -c 'python train.py'
}

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
done < <(compgen -e | grep -E '^(FAIRWAY_.*|PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV)$')

# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
exec mpirun ${FAIRWAY_MPI_ARGS-} \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f rank); rank"
