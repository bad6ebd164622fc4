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
    local cpus=/sys/devices/system/node/node${numa[OMPI_COMM_WORLD_LOCAL_RANK]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    # shellcheck disable=SC2016  # the inner shell expands it
    exec bash -c '/opt/nccl-tests/build/all_reduce_perf "$@"' nccl-tests \
        -b 8M -e 16G -f 2 -n 20 -g 1
}

# Some of it may be for mpirun itself.
environment

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
"$mpirun" ${FAIRWAY_MPI_ARGS-} --map-by ppr:8:node --bind-to numa -mca coll_hcoll_enable 0 \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment rank); rank" |
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
result="all-reduce reaches $busbw GB/s with $bytes bytes on $FAIRWAY_NODES × $FAIRWAY_PROCESSES_PER_NODE GPUs without SHARP"
echo "nccl-tests: measured: $result; what to expect of this VM size is not known; its adapters carry 400 GB/s"
