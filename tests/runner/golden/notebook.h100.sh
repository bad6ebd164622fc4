#!/usr/bin/env bash
# papermill runs the notebook on the main host.
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
notebook=report.ipynb
executed=$FAIRWAY_OUTPUT_NOTEBOOK/${notebook##*/}
arguments=(--log-output --no-progress-bar)
exec papermill "$notebook" "$executed" "${arguments[@]}"
