#!/usr/bin/env bash
# MPICH launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() {
    { compgen -G "${FAIRWAY_SYSTEM_ROOT-}/opt/$1" || true; } | sort -V | tail -n 1
}

# On PATH, or where Azure's HPC image has it, which `module load` alone puts there.
if ! command -v mpiexec >/dev/null; then
    home=$(newest 'mvapich*/bin/mpiexec')
    home=${home%/bin/mpiexec}
    if [[ -z $home ]]; then
        echo "error: there is no mpiexec on PATH, and no MVAPICH, which is one, in /opt;" \
            "install it, or take an image that has it" >&2
        exit 4
    fi
    export PATH=$home/bin:$PATH LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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

# One rank, on whichever node.
rank() {
    environment
    # Near its GPU: the NUMA node of each local rank's. Where a cpuset forbids that, it stays.
    local numa=(0 0 0 0 1 1 1 1)
    local cpus=/sys/devices/system/node/node${numa[MPI_LOCALRANKID]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    exec bash -c 'python train.py'
}

# Some of it may be for mpiexec itself.
environment

# Hydra passes its whole environment on, and counts equal hosts as one.
exec mpiexec -genvall -hosts "$FAIRWAY_HOSTS" \
    -ppn "$FAIRWAY_PROCESSES_PER_NODE" -n "$FAIRWAY_WORLD_SIZE" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment rank); rank"
