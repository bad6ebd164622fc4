#!/usr/bin/env bash
# Open MPI launches the ranks.

# --- preflight: every node is checked, and the launcher starts where all of them pass ------

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
# shellcheck disable=SC2329  # called by name, on each node
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

check_gpus() {
    local count states
    if ! count=$(timeout 60 nvidia-smi --query-gpu=index --format=csv,noheader 2>&1); then
        fault "the GPU driver does not answer: $(tail -n 1 <<<"$count")"
        return
    fi
    count=$(grep -c '^[0-9]' <<<"$count")
    # GPUs behind NVLink switches wait for the fabric manager; others and old drivers say nothing.
    states=$(timeout 60 nvidia-smi --query-gpu=fabric.state --format=csv,noheader 2>/dev/null)
    if grep -qE 'In Progress|Not Started' <<<"$states"; then
        fault "the NVLink fabric is not up; look at the service nvidia-fabricmanager"
    fi
    if [[ ! -d ${FAIRWAY_SYSTEM_ROOT-}/sys/module/nvidia_peermem ]] &&
        ! grep -qs 'Open Kernel Module' "${FAIRWAY_SYSTEM_ROOT-}/proc/driver/nvidia/version"; then
        fault "InfiniBand cannot reach GPU memory: the module nvidia_peermem is not loaded"
    fi
    ((count == 8)) || fault "GPU count $count, expected 8"
}

check_infiniband() {
    local count=0 port files state rate limit
    find_infiniband
    for port in "${ib_ports[@]}"; do
        ((++count))
        files=${FAIRWAY_SYSTEM_ROOT-}/sys/class/infiniband/${port%:*}/ports/${port#*:}
        state=$(cat "$files/state" 2>/dev/null) # such as "4: ACTIVE"
        rate=$(cat "$files/rate" 2>/dev/null)   # such as "400 Gb/sec (4X NDR)"
        [[ $state == *ACTIVE ]] || fault "InfiniBand port $port is ${state:-unreadable}, expected ACTIVE"
        rate=${rate%%[!0-9]*}
        ((${rate:-0} >= 400)) ||
            fault "InfiniBand port $port runs at ${rate:-0} Gb/s, expected 400"
    done
    ((count == 8)) || fault "InfiniBand port count $count, expected 8"
    for port in "${!ib_keys[@]}"; do
        case ${ib_keys[port]} in
            0x0000 | 0x7fff) fault "InfiniBand port ${ib_ports[port]} has joined no partition" ;;
            *) report key "$(printf '0x%04x' $((ib_keys[port] & 0x7fff)))" ;;
        esac
    done
    # As the launcher will: a service that starts tasks may not have read limits.conf.
    ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)"
    limit=$(ulimit -l)
    [[ $limit == unlimited ]] || fault "locked memory is limited to $limit KiB, expected unlimited"
}

check_gpu_health() {
    local table failed
    # Not every image has it; and where the service nvidia-dcgm does not run, no table comes.
    command -v dcgmi >/dev/null || return 0
    table=$(timeout 300 dcgmi diag -r 1 2>/dev/null) || [[ $? != 124 ]] ||
        fault "the GPUs' quick diagnosis (dcgmi diag -r 1) does not end"
    # A row is a test and its result, "Fail" or "GPU3: Fail"; rows of one test may go without its name.
    failed=$(awk -F '|' '
        $2 ~ /[^ ]/ { test = $2; gsub(/^ +| +$/, "", test) }
        $3 ~ /^ *(GPU[^:]*: *)?Fail( |$)/ && !seen[test]++ { tests = tests ", " test }
        END { print substr(tests, 3) }' <<<"$table")
    [[ -z $failed ]] || fault "the GPUs fail a quick diagnosis: $failed; see dcgmi diag -r 1"
}

check_directories() {
    local path free mounts=(/data)
    for path in "${mounts[@]}"; do
        if ! awk -v path="$path" '$2 == path { found = 1 } END { exit !found }' \
            "${FAIRWAY_SYSTEM_ROOT-}/proc/self/mounts"; then
            fault "nothing is mounted at $path"
        elif [[ ! -w $path ]]; then
            fault "the mount $path is not writable"
        fi
    done
    path=$FAIRWAY_SCRATCH_DIR
    free=$(df -P -k "$path" 2>/dev/null | awk 'NR == 2 { print int($4 / 1048576) }')
    [[ -n $free ]] || fault "the scratch directory $path does not exist"
    ((${free:-1} >= 1)) || fault "less than 1 GiB is free in the scratch directory $path"
}

# A line for the main host; nodes answer through their output, which every engine brings there.
report() {
    printf 'fairway-preflight %s %s %s\n' "$FAIRWAY_NODE_RANK" "$1" "$2"
}

fault() {
    report fault "$1"
}

# Its exit code is always 0: a node that fails must not end the checks of the others.
check_node() {
    check_gpus
    check_infiniband
    check_gpu_health
    check_directories
    report checked ""
    return 0
}

# Reads the reports of all nodes, and names each fault with its node.
preflight() {
    local checks reports faults
    checks="$(declare -f find_infiniband check_infiniband check_gpus check_gpu_health check_directories report fault check_node); check_node"
    # FAIRWAY_EACH_NODE is a command prefix of several words.
    # shellcheck disable=SC2086
    reports=$($FAIRWAY_EACH_NODE bash -uo pipefail -c "$checks" | sed -n 's/^.*fairway-preflight //p')
    faults=$(awk -v hosts="$FAIRWAY_HOSTS" -v nodes="$FAIRWAY_NODES" '
        {
            text = $0
            sub(/^[^ ]+ [^ ]+ /, "", text)
        }
        $2 == "fault" { faults[$1] = faults[$1] text "\n" }
        $2 == "checked" { checked[$1] = 1 }
        $2 == "key" && !(($1, $3) in seen) {
            seen[$1, $3] = 1
            keys[$1] = keys[$1] " " $3
            count[$3]++
        }
        END {
            split(hosts, host, ",")
            for (rank = 0; rank < nodes; rank++) {
                split(keys[rank], own, " ")
                if (count[own[1]] > count[most]) most = own[1]
            }
            for (rank = 0; rank < nodes; rank++) {
                if (!(rank in checked)) faults[rank] = faults[rank] "it did not finish its checks\n"
                if (keys[rank] && keys[rank] != " " most)
                    faults[rank] = faults[rank] "partition key" keys[rank] ", while " \
                        count[most] " of " nodes " nodes have " most "\n"
                found = split(faults[rank], each, "\n")
                for (i = 1; i < found; i++) print "node " host[rank + 1] ": " each[i]
            }
        }' <<<"$reports")
    if [[ -n $faults ]]; then
        printf '%s\n' "$faults" >&2
        echo "preflight failed on $(cut -d : -f 1 <<<"$faults" | sort -u | wc -l) of $FAIRWAY_NODES nodes;" \
            "the launcher was not started" >&2
        return 69
    fi
    echo "preflight passed on $FAIRWAY_NODES nodes"
}

preflight || exit
# --- end of the preflight -------------------------------------------------------------------

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
}

# One rank, on whichever node.
rank() {
    environment
    # Near its GPU: the NUMA node of each local rank's. Where a cpuset forbids that, it stays.
    local numa=(0 0 0 0 1 1 1 1)
    local cpus=/sys/devices/system/node/node${numa[OMPI_COMM_WORLD_LOCAL_RANK]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    exec bash -c 'python train.py'
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
exec "$mpirun" ${FAIRWAY_MPI_ARGS-} "${label_ranks[@]}" --map-by ppr:8:node --bind-to numa -mca coll_hcoll_enable 0 \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband environment rank); rank"
