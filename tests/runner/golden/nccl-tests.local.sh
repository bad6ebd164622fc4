#!/usr/bin/env bash
# all_reduce_perf measures the fabric between the GPUs.
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

# The image's HPC-X, which its programs are linked against, or else an Open MPI.
mpirun=mpirun
load_hpcx "$(newest 'hpcx-*')" || command -v mpirun >/dev/null || load_openmpi || {
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
    # shellcheck disable=SC2016  # the inner shell expands it
    exec bash -c '/opt/nccl-tests/build/all_reduce_perf "$@"' nccl-tests \
        -b 8M -e 16G -f 2 -n 20 -g 1
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

report=$FAIRWAY_SCRATCH_DIR/all_reduce
# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
"$mpirun" ${FAIRWAY_MPI_ARGS-} \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f rank); rank" |
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
result="all-reduce reaches $busbw GB/s with $bytes bytes on $FAIRWAY_NODES × $FAIRWAY_PROCESSES_PER_NODE GPUs"
echo "nccl-tests: measured: $result; what to expect of this VM size is not known"
