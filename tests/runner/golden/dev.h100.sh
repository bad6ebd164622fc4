#!/usr/bin/env bash
# A session: commands run beside this script, which waits for them.
set -euo pipefail

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
find_infiniband() {
    local port device key
    ib_ports=() ib_keys=()
    for port in "${FAIRWAY_SYSTEM_ROOT-}"/sys/class/infiniband/*/ports/*; do
        [[ -r $port/link_layer && $(<"$port/link_layer") == InfiniBand ]] || continue
        device=${port%/ports/*}
        ib_ports+=("${device##*/}:${port##*/}")
        key=$(cat "$port"/pkeys/[01] 2>/dev/null | sort | tail -n 1 || true)
        ib_keys+=("${key:-0x0000}")
    done
}

# Tells NCCL, UCX and MPI which ports to take and which partition the node is in.
use_infiniband() {
    local ports key
    find_infiniband
    key=${ib_keys[0]:-0x0000}
    if [[ $key == 0x0000 || $key == 0x7fff ]]; then
        ((FAIRWAY_NODES > 1)) || return 0 # nothing leaves the node
        echo "error: $(hostname) cannot reach the other nodes: InfiniBand ports" \
            "${ib_ports[*]:-none}, partition key $key; see \`preflight: fabric\`" >&2
        return 69
    fi
    ports=$(IFS=, && echo "${ib_ports[*]}")
    export NCCL_IB_HCA="=$ports"
    export UCX_NET_DEVICES="$ports"
    # The key without the bit of full membership, as UCX compares it.
    printf -v UCX_IB_PKEY '0x%04x' $((key & 0x7fff))
    export UCX_IB_PKEY MV2_DEFAULT_PKEY="$key"
    # Adapters register memory, and what starts a task may not have read limits.conf.
    ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)"
}

# NCCL goes on without a word where it cannot read the topology file: this says so. Without the file
# it takes GPUs and adapters for far from each other, and goes through the host's memory.
require_topology() {
    [[ ${NCCL_TOPO_FILE-} && ! -r ${FAIRWAY_SYSTEM_ROOT-}$NCCL_TOPO_FILE ]] || return 0
    echo "warning: $(hostname) has no topology file $NCCL_TOPO_FILE: NCCL may be slow between" \
        "nodes; mount it, or set \`env: {NCCL_TOPO_FILE: PATH}\`" >&2
    export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-SYS}"
}

# What every rank runs with: the settings for Standard_ND96isr_H100_v5, and the job's own over them.
environment() {
    export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-eth0}
    export GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-eth0}
    export TP_SOCKET_IFNAME=${TP_SOCKET_IFNAME:-eth0}
    export OMPI_MCA_btl_tcp_if_include=${OMPI_MCA_btl_tcp_if_include:-eth0}
    export OMPI_MCA_oob_tcp_if_include=${OMPI_MCA_oob_tcp_if_include:-eth0}
    export PRTE_MCA_prte_if_include=${PRTE_MCA_prte_if_include:-eth0}
    export FI_TCP_IFACE=${FI_TCP_IFACE:-eth0}
    export I_MPI_HYDRA_IFACE=${I_MPI_HYDRA_IFACE:-eth0}
    export OMPI_MCA_pml=ucx
    export NCCL_IB_PCI_RELAXED_ORDERING=1
    export NCCL_TOPO_FILE=/opt/microsoft/ndv5/topo.xml
    export NCCL_IGNORE_CPU_AFFINITY=1
    export NCCL_PXN_DISABLE=1
    export NCCL_MIN_NCHANNELS=32
    export NCCL_IB_QPS_PER_CONNECTION=4
    export NCCL_P2P_NET_CHUNKSIZE=2097152
    export CUDA_DEVICE_ORDER=PCI_BUS_ID
    use_infiniband
    export LEARNING_RATE=0.1
    export GREETING='it'"'"'s
me'
    require_topology
}

# What commands run beside: they get its environment, and the folder of the code.
hold() {
    environment
    export FAIRWAY_SESSION=$PWD
    exec sleep infinity
}

# Whether somebody uses this node: a command runs beside the session, or a GPU is busy.
in_use() {
    local found use
    while IFS= read -r found; do
        if grep -qsxzF "FAIRWAY_RUN=$FAIRWAY_RUN" "$found"; then return 0; fi
    done < <(grep -lsz '^FAIRWAY_PID=' /proc/[0-9]*/environ)
    use=$(nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null) || use=
    [[ $use == *[1-9]* ]] || grep -qs '[1-9]' /sys/class/drm/card*/device/gpu_busy_percent
}

# Fails on a node that is in use.
# shellcheck disable=SC2329
node() {
    if in_use; then exit 1; fi
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
hold &
# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
$FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment hold); hold" &
echo "fairway: the session has begun"

unused=0
while ((unused < 30)); do
    sleep 60
    # Where one of these has failed, so has the session.
    for each in $(jobs -p); do
        kill -0 "$each" 2>/dev/null || wait "$each" || exit $?
    done
    if in_use; then unused=0 && continue; fi
    # shellcheck disable=SC2086
    $FAIRWAY_EACH_NODE \
        bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment in_use node); node" || { unused=0 && continue; }
    unused=$((unused + 1))
done
echo "fairway: nobody has used the session for 1800 s"
exit 124
