#!/usr/bin/env bash
# The start task of an Azure Batch node: does what cloud-init does on the nodes of a scale set,
# then moves Docker off the system disk. Batch runs it as root at each boot, and gives the node
# no job before it succeeded; what it prints is stderr.txt of the start task.
set -euo pipefail

say() { printf 'fairway-start-task: %s\n' "$*" >&2; }

is_installed() {
    if command -v dpkg-query >/dev/null; then
        # shellcheck disable=SC2016 # dpkg's own variable
        [[ $(dpkg-query --show --showformat '${Status}' "$1" 2>/dev/null || true) == *' installed' ]]
    else
        rpm --query --quiet "$1"
    fi
}

install_packages() {
    local package missing=()
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    ((${#missing[@]} > 0)) || return 0
    say "installing ${missing[*]}"
    if command -v apt-get >/dev/null; then
        # The system's own updates may hold the lock for minutes after the first boot.
        apt-get -qo DPkg::Lock::Timeout=600 update
        DEBIAN_FRONTEND=noninteractive \
            apt-get -qyo DPkg::Lock::Timeout=600 install "${missing[@]}"
    else
        dnf --quiet --assumeyes install "${missing[@]}"
    fi
}

# write_file PATH MODE: puts what comes on standard input there, whole or not at all.
write_file() {
    local new
    mkdir -p "$(dirname "$1")"
    new=$(mktemp "$1.XXXXXX")
    cat >"$new"
    chmod "$2" "$new"
    mv "$new" "$1"
}

# Images and containers fill the small system disk. Whatever Batch has pulled comes along.
move_docker() {
    local disk=/mnt/resource_nvme root unit
    command -v dockerd >/dev/null || return 0
    mountpoint -q "$disk" || disk=$(dirname "$AZ_BATCH_NODE_ROOT_DIR")
    [[ $(stat -c %d "$disk") != "$(stat -c %d /)" ]] || return 0
    root=$disk/docker
    # Started at boot, Docker may hold the folder below the mount: it is restarted each time.
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
