#!/usr/bin/env bash
# Sets up a node of jobs: how far NFS reads ahead, and tasks' scratch on its local NVMe disks. Runs
# among the node's own mounts whenever the pod of the set-up starts, and changes nothing that is
# right.
set -euo pipefail

disk=/mnt/resource_nvme
rules=/etc/udev/rules.d/99-nfs.rules
volumes=/proc/fs/nfsfs/volumes
devices=/sys/class/bdi

say() { printf 'fairway-node-setup: %s\n' "$*" >&2; }

# local_disks.sh

# Kernels from 5.4 on read 128 KiB ahead, and a volume of Kubernetes has no option for it. Source:
# Azure documentation, "Improve performance for NFS Azure file shares": 15 MiB, by this rule. AKS'
# own images have one, which stays (Azure/AgentBaker, install-dependencies.sh: 15,380 KiB). In one
# line: udev takes the last of several for a rule of all devices (azhpc-images, issue 293).
read_far_ahead() {
    local device
    [[ ! -e $rules ]] || return 0
    cat >"$rules.new" <<'RULE'
SUBSYSTEM=="bdi", ACTION=="add", PROGRAM="/usr/bin/awk -v bdi=$kernel 'BEGIN{ret=1} {if ($$4 == bdi) {ret=0}} END{exit ret}' /proc/fs/nfsfs/volumes", ATTR{read_ahead_kb}="15360"
RULE
    mv "$rules.new" "$rules"
    udevadm control --reload
    # And what is mounted by now.
    [[ -r $volumes ]] || return 0
    while read -r _ _ _ device _; do
        [[ ! -e $devices/$device/read_ahead_kb ]] || echo 15360 >"$devices/$device/read_ahead_kb"
    done <"$volumes"
}

main() {
    read_far_ahead
    mount_scratch "$disk"
    mountpoint -q "$disk" || say "no free local NVMe disk: tasks' scratch is on the system disk"
    # Tasks wait for this folder: it comes when the disks are there.
    mkdir -p "$disk/fairway"
    chmod 1777 "$disk/fairway"
    say "ready"
}

if [[ ${BASH_SOURCE[0]-$0} == "$0" ]]; then
    main
fi
