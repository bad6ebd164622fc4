#!/usr/bin/env bash
# DeepSpeed's launcher starts the processes of each node.
set -euo pipefail

# One process of a node.
process() {
    exec bash -c 'python train.py'
}

# What `deepspeed` would start through ssh. It sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and
# MASTER_PORT, which deepspeed.init_distributed reads; the program gets no --local_rank.
node() {
    local gpus node separator="" world="{"
    gpus=$(seq -s , 0 $((FAIRWAY_PROCESSES_PER_NODE - 1)))
    for ((node = 0; node < FAIRWAY_NODES; node++)); do
        world+="$separator\"node$node\": [$gpus]"
        separator=", "
    done
    world=$(printf '%s}' "$world" | base64 -w 0 | tr '+/' '-_')
    exec python -m deepspeed.launcher.launch --world_info="$world" \
        --node_rank="$FAIRWAY_NODE_RANK" \
        --master_addr="$FAIRWAY_MAIN_HOST" --master_port="$FAIRWAY_MAIN_PORT" \
        --no_python --no_local_rank bash -euo pipefail -c "$(declare -f process); process"
}

# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
exec $FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f process node); node"
