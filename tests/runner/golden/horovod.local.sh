#!/usr/bin/env bash
# mpirun launches the ranks of Horovod.
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

load_openmpi() {
    mpirun=$(newest 'openmpi-*/bin/mpirun')
    [[ $mpirun ]] || return 1
    export PATH=${mpirun%/mpirun}:$PATH
    export LD_LIBRARY_PATH=${mpirun%/bin/mpirun}/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# The mpirun on PATH, or else that of Azure's HPC image, where `module load` alone puts it there.
mpirun=mpirun
command -v mpirun >/dev/null || load_hpcx "$(newest 'hpcx-*')" || load_openmpi || {
    echo "error: there is no mpirun on PATH, and neither an HPC-X nor an Open MPI in /opt;" \
        "install Open MPI, or take an image that has it" >&2
    exit 4
}

# Runs one rank, and then ends what it has left running: as long as that could still write to the
# rank's output, the launcher would wait. It has a second to end by itself.
watch_rank() {
    local mark="$FAIRWAY_RUN $FAIRWAY_TASK $$" status=0 look output pids
    # The launcher sends its signals to the rank's whole process group.
    trap : HUP INT TERM USR1 USR2
    # The shell itself stays silent: of a rank that a signal has ended it would print the whole text.
    exec {output}>&2 2>/dev/null
    _FAIRWAY_RANK=$mark "$@" 2>&"$output" {output}>&- || status=$?
    for look in {0..20}; do
        mapfile -t pids < <(grep -lsxzF "_FAIRWAY_RANK=$mark" /proc/[0-9]*/environ | cut -d / -f 3)
        [[ ${pids[*]-} ]] || break
        case $look in
            10) kill "${pids[@]}" || true ;;
            20) kill -KILL "${pids[@]}" || true ;;
        esac
        sleep 0.1
    done
    if ((status > 128 && status < 144)); then
        # A launcher ends the other ranks where a signal ended one: it is to see that.
        trap - HUP INT TERM USR1 USR2
        ulimit -c 0
        kill -"$((status - 128))" $$
    fi
    return "$status"
}

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
exec "$mpirun" ${FAIRWAY_MPI_ARGS-} "${label_ranks[@]}" \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f rank); rank"
