#!/usr/bin/env bash
# The command runs once, on the main host, for its share of an input's files.
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
    export UCX_NET_DEVICES="$ports"
    # The key without the bit of full membership, as UCX compares it.
    printf -v UCX_IB_PKEY '0x%04x' $((key & 0x7fff))
    export UCX_IB_PKEY MV2_DEFAULT_PKEY="$key"
    # Adapters register memory, and what starts a task may not have read limits.conf.
    ulimit -l unlimited 2>/dev/null || ulimit -S -l "$(ulimit -H -l)"
}

# What every rank runs with: the settings for Standard_HB176rs_v4, and the job's own over them.
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
    export I_MPI_FABRICS=shm:ofi
    export FI_PROVIDER=mlx
    export I_MPI_PIN_DOMAIN=numa
    use_infiniband
    export LEARNING_RATE=0.1
    export GREETING='it'"'"'s
me'
}

environment
# Every file whose turn it is, in the order of their paths; hidden ones are no data.
folder=$FAIRWAY_INPUT_IMAGES
export FAIRWAY_FILES=$FAIRWAY_SHARED_DIR/files-$FAIRWAY_TASK
: >"$FAIRWAY_FILES"
count=$(
    find -L "$folder/" -mindepth 1 -name '.*' -prune -o -type f -print0 |
        LC_ALL=C sort -z | tr '\n\0' '\1\n' |
        awk '(NR - 1) % 1 == 0 { print >ENVIRON["FAIRWAY_FILES"] } END { print NR }'
)
if grep -q $'\1' "$FAIRWAY_FILES"; then
    echo "fairway: a file of the input images has a line break in its name" >&2
    exit 1
elif [ "$count" -eq 0 ]; then
    echo "fairway: the input images has no file" >&2
    exit 1
elif [ ! -s "$FAIRWAY_FILES" ]; then
    echo "fairway: share 0 of 1 has none of the $count files"
    exit 0
fi
echo "fairway: share 0 of 1 has $(wc -l <"$FAIRWAY_FILES") of the $count files"
exec bash -c 'python train.py'
