#!/usr/bin/env bash
# The processes of every node, each with its TF_CONFIG.
set -euo pipefail

# One process of a node.
process() {
    exec bash -c 'python train.py'
}

# Sets `roles` and `indices` by process, and `cluster` to JSON with their addresses: a port for
# each process of a host, from FAIRWAY_MAIN_PORT on.
lay_out_cluster() {
    local hosts host rank role port
    local -A ports=() addresses=() count=()
    roles=() indices=()
    IFS=, read -ra hosts <<<"$FAIRWAY_HOSTS"
    for ((rank = 0; rank < FAIRWAY_WORLD_SIZE; rank++)); do
        role="worker"
        host=${hosts[rank / FAIRWAY_PROCESSES_PER_NODE]}
        port=$((FAIRWAY_MAIN_PORT + ${ports[$host]:-0}))
        ports[$host]=$((${ports[$host]:-0} + 1))
        addresses[$role]+="${addresses[$role]:+, }\"$host:$port\""
        roles+=("$role")
        indices+=("${count[$role]:-0}")
        count[$role]=$((${count[$role]:-0} + 1))
    done
    cluster=""
    for role in chief ps worker; do
        [[ -z ${addresses[$role]-} ]] || cluster+="${cluster:+, }\"$role\": [${addresses[$role]}]"
    done
}

node() {
    local roles indices cluster rank started=() status=0
    lay_out_cluster
    # shellcheck disable=SC2089,SC2090  # the quotes in TF_CONFIG are JSON's
    for ((LOCAL_RANK = 0; LOCAL_RANK < FAIRWAY_PROCESSES_PER_NODE; LOCAL_RANK++)); do
        rank=$((FAIRWAY_NODE_RANK * FAIRWAY_PROCESSES_PER_NODE + LOCAL_RANK))
        printf -v TF_CONFIG '{"cluster": { %s }, "task": {"type": "%s", "index": %d}}' \
            "$cluster" "${roles[rank]}" "${indices[rank]}"
        export LOCAL_RANK TF_CONFIG
        bash -euo pipefail -c "$(declare -f process); process" &
        started+=($!)
    done
    for _ in "${started[@]}"; do
        wait -n || status=$?
        ((status == 0)) || break
    done
    # 127 may only say that a process ended before it was waited for; its own status is kept.
    if ((status == 127)); then
        status=0
        for process in "${started[@]}"; do wait "$process" || status=$?; done
    fi
    kill "${started[@]}" 2>/dev/null || true
    wait
    return "$status"
}

# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
exec $FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f process lay_out_cluster node); node"
