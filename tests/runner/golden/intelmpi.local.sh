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
    exec bash -c 'python train.py'
}

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec.hydra -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f rank); rank"
