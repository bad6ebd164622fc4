#!/usr/bin/env bash
# Open MPI launches the ranks.
set -euo pipefail

# The newest of what matches in /opt. FAIRWAY_SYSTEM_ROOT may name a folder with another opt/.
newest() as in openmpi.h100.sh

# Takes the HPC-X in that folder for this shell, if it is there.
load_hpcx() as in openmpi.h100.sh

load_openmpi() as in openmpi.h100.sh

# The mpirun on PATH, or else that of Azure's HPC image, where `module load` alone puts it there.
mpirun=mpirun
command -v mpirun >/dev/null || load_hpcx "$(newest 'hpcx-*')" || load_openmpi || {
    echo "error: there is no mpirun on PATH, and neither an HPC-X nor an Open MPI in /opt;" \
        "install Open MPI, or take an image that has it" >&2
    exit 4
}

# Runs one rank, and then ends what it has left running: as long as that could still write to the
# rank's output, the launcher would wait. It has a second to end by itself.
watch_rank() as in openmpi.h100.sh

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
find_infiniband() as in openmpi.h100.sh

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

# One rank, on whichever node.
rank() {
    environment
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
exec "$mpirun" ${FAIRWAY_MPI_ARGS-} "${label_ranks[@]}" --map-by ppr:2:numa:pe=22 -report-bindings -mca pml ucx --mca btl '^vader,tcp,openib' \
    --hostfile "$hostfile" -np "$FAIRWAY_WORLD_SIZE" "${forward[@]}" \
    bash -euo pipefail -c "$(declare -f watch_rank); watch_rank \"\$@\"" fairway-waits \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband environment rank); rank"
