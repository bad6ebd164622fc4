#!/usr/bin/env bash
# torchrun launches the processes, one agent a node.
set -euo pipefail

# One process of a node.
process() {
    exec bash -c 'python train.py'
}

# One agent.
node() {
    local hosts threads=$(($(nproc) / FAIRWAY_PROCESSES_PER_NODE))
    IFS=, read -ra hosts <<<"$FAIRWAY_HOSTS"
    # torchrun itself would leave each process a single one.
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}
    exec torchrun \
        --nnodes "$FAIRWAY_NODES" --nproc_per_node "$FAIRWAY_PROCESSES_PER_NODE" \
        --rdzv_endpoint "$FAIRWAY_MAIN_HOST:$FAIRWAY_MAIN_PORT" \
        --rdzv_id "$FAIRWAY_RUN-$FAIRWAY_TASK-$FAIRWAY_ATTEMPT" \
        --rdzv_backend c10d --rdzv_conf "is_host=$((FAIRWAY_NODE_RANK == 0))" \
        --local_addr "${hosts[FAIRWAY_NODE_RANK]}" --max_restarts 0 \
        --no_python bash -euo pipefail -c "$(declare -f process); process"
}

# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
exec $FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f process node); node"
