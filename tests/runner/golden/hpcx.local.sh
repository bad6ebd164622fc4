#!/usr/bin/env bash
# HPC-X's Open MPI launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() {
    { compgen -G "${FAIRWAY_SYSTEM_ROOT-}/opt/$1" || true; } | sort -V | tail -n 1
}

# Takes the HPC-X in that folder for this shell, if it is there.
load_hpcx() {
    [[ -r $1/hpcx-init.sh ]] || return 1
    # Its scripts do not keep to `set -u`.
    set +u
    # shellcheck source=/dev/null
    source "$1/hpcx-init.sh"
    hpcx_load
    set -u
    # By its whole path, mpirun finds its daemons under the same one on the other nodes.
    mpirun=$HPCX_MPI_DIR/bin/mpirun
}

hpcx=$(newest 'hpcx-*')
load_hpcx "$hpcx" || {
    echo "error: there is no HPC-X in ${hpcx:-/opt}; name its folder in the job's" \
        "\`options: {home: …}\`" >&2
    exit 4
}

# One rank, on whichever node.
rank() {
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
done < <(compgen -e | grep -E '^(FAIRWAY_.*|PATH|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|OPAL_PREFIX|HPCX_.*)$')

# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
exec "$mpirun" ${FAIRWAY_MPI_ARGS-} \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f rank); rank"
