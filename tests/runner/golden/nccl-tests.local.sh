#!/usr/bin/env bash
# all_reduce_perf measures the fabric between the GPUs.
set -euo pipefail

# One rank, on whichever node.
rank() {
    # shellcheck disable=SC2016  # the inner shell expands it
    exec bash -c '/opt/nccl-tests/build/all_reduce_perf "$@"' nccl-tests \
        -b 8M -e 8G -f 2 -n 20 -g 1
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

report=$FAIRWAY_SCRATCH_DIR/all_reduce
# FAIRWAY_MPI_ARGS is several words on purpose.
# shellcheck disable=SC2086
mpirun ${FAIRWAY_MPI_ARGS-} \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
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
