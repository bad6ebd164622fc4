#!/usr/bin/env bash
# Prepares a compute node: local scratch, shared file systems, SSH between the nodes.
# Runs at each boot; may be run by hand at any time, and changes nothing that is right.
set -euo pipefail

# Source: Azure's NFS guidance for HPC clients.
nfs_read_ahead_kb=15380
mounts=/etc/fairway/mounts
scratch=/mnt/resource_nvme
docker_moved=/run/fairway-docker-moved

say() { printf 'fairway-node: %s\n' "$*" >&2; }

# local_disks.sh

mount_shared() {
    local type options source path root device
    modprobe sunrpc
    sysctl -q --system
    while read -r type options source path root; do
        [[ -n $type ]] || continue
        mkdir -p "$path"
        mountpoint -q "$path" || mount -t "$type" -o "$options" "$source" "$path"
        if [[ $type == nfs ]]; then
            device=$(mountpoint -d "$path")
            echo "$nfs_read_ahead_kb" >"/sys/class/bdi/$device/read_ahead_kb"
        fi
        [[ $root != root ]] || open_to_users "$path"
    done <"$mounts"
}

# As in /tmp every user may make a folder, and only its owner removes it. Done once in the life
# of a file system: what people change later stays.
open_to_users() {
    [[ ! -e $1/.fairway ]] || return 0
    chmod 1777 "$1"
    mkdir -p "$1/.fairway"
}

# As the login user: the exports refuse root. Its id is the same on every node.
as_admin() { runuser -u "$ADMIN" -- "$@"; }

# Makes a folder of the login user's. Everybody may make folders on a shared file system: in one
# that is another's, or a link to one, others could put keys by which they log in here.
own_folder() {
    local found
    as_admin mkdir -p "$@"
    found=$(as_admin stat -c '%u %F' "${@: -1}")
    [[ $found == "$(as_admin id -u) directory" ]] && return
    say "${*: -1} is not a folder of $ADMIN's: remove it, then restart this node"
    return 1
}

# One key pair for all nodes that share a folder, made by the node that comes first.
trust_peers() {
    local home key
    [[ -n $SHARED ]] || return 0
    home=$(getent passwd "$ADMIN" | cut -d: -f6)
    own_folder "$SHARED"
    own_folder -m 700 "$SHARED/ssh"
    as_admin chmod go-w "$SHARED"
    as_admin chmod 700 "$SHARED/ssh"
    # shellcheck disable=SC2016 # $1 is the inner shell's
    as_admin flock "$SHARED/ssh/lock" bash -c \
        '[[ -e $1.pub ]] || { rm -f "$1" && ssh-keygen -q -t ed25519 -N "" -C fairway -f "$1"; }' \
        bash "$SHARED/ssh/id_ed25519"
    as_admin mkdir -p -m 700 "$home/.ssh"
    as_admin install -m 600 "$SHARED/ssh/id_ed25519" "$home/.ssh/id_fairway"
    key=$(as_admin cat "$SHARED/ssh/id_ed25519.pub")
    as_admin touch "$home/.ssh/authorized_keys"
    grep -qxF "$key" "$home/.ssh/authorized_keys" ||
        printf '%s\n' "$key" | as_admin tee -a "$home/.ssh/authorized_keys" >/dev/null
}

# Docker's daemon answers its group alone. Who logs in here may use sudo anyway.
let_run_containers() {
    if id "$ADMIN" &>/dev/null && getent group docker >/dev/null; then
        usermod --append --groups docker "$ADMIN"
    fi
}

# Images and containers fill the small system disk. What was pulled before comes along. Once in a
# boot: Docker may have started on the folder below the mount, and to restart it ends containers.
move_docker() {
    local disk=$scratch root unit
    command -v dockerd >/dev/null && [[ ! -e $docker_moved ]] || return 0
    # Without such disks, beside what Batch keeps on a disk of its own.
    mountpoint -q "$disk" || disk=$(dirname "${AZ_BATCH_NODE_ROOT_DIR:-/none}")
    [[ $(stat -c %d "$disk") != "$(stat -c %d /)" ]] || return 0
    root=$disk/docker
    for unit in docker.socket docker.service; do
        ! systemctl cat "$unit" >/dev/null 2>&1 || systemctl stop "$unit"
    done
    if [[ ! -d $root ]]; then
        mkdir -p "$root.new"
        [[ ! -d /var/lib/docker ]] || cp -a /var/lib/docker/. "$root.new/"
        mv "$root.new" "$root"
    fi
    set_docker_root "$root"
    systemctl start docker.service
    : >"$docker_moved"
    say "Docker keeps its images in $root"
}

# The file holds the settings of the GPU runtime too.
set_docker_root() {
    python3 - "$1" "${2:-/etc/docker/daemon.json}" <<'PYTHON'
import json, os, pathlib, sys

root, file = sys.argv[1], pathlib.Path(sys.argv[2])
settings = json.loads(file.read_text()) if file.exists() else {}
settings["data-root"] = root
file.parent.mkdir(parents=True, exist_ok=True)
new = file.with_suffix(".new")
new.write_text(json.dumps(settings, indent=4) + "\n")
os.replace(new, file)
PYTHON
}

main() {
    # shellcheck source=/dev/null
    source /etc/fairway/settings
    let_run_containers
    mount_scratch "$scratch"
    mount_shared
    trust_peers
    move_docker
    say "ready"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
