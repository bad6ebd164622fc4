#!/usr/bin/env bash
# The command runs once, on the main host, for its share of an input's files.
set -euo pipefail

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
find_infiniband() as in openmpi.h100.sh

# Tells NCCL, UCX and MPI which ports to take and which partition the node is in.
use_infiniband() as in openmpi.h100.sh

# NCCL goes on without a word where it cannot read the topology file: this says so. Without the file
# it takes GPUs and adapters for far from each other, and goes through the host's memory.
require_topology() as in openmpi.h100.sh

# What every rank runs with: the settings for Standard_ND96isr_H100_v5, and the job's own over them.
environment() as in openmpi.h100.sh

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
