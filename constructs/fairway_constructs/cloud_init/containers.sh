#!/usr/bin/env bash
# Lets people run containers who may not use Docker: Podman, in whose containers root is the person.
# Started by fairway-people; may be run by hand at any time, and changes nothing that is right.
set -euo pipefail

people=${FAIRWAY_PEOPLE:-/etc/fairway/people}
scratch=/mnt/resource_nvme

say() { printf 'fairway-containers: %s\n' "$*" >&2; }

# apt.sh

# crun: another runtime starts no container within the cgroup of a job.
install_podman() {
    local program missing=()
    for program in podman crun newuidmap; do
        command -v "$program" >/dev/null || missing+=("${program/newuidmap/uidmap}")
    done
    ((${#missing[@]})) || return 0
    if ! command -v apt-get >/dev/null; then
        dnf --assumeyes --quiet install "${missing[@]/uidmap/shadow-utils}"
        return
    fi
    apt_update
    apt_get install "${missing[@]}"
}

# The users of a person's containers, beside the person. fairway-people keeps the machine's identity
# from all of them, as their numbers are above 65535.
give_range() {
    local file first
    for file in /etc/subuid /etc/subgid; do
        touch "$file"
        awk -F: -v name="$1" '$1 == name { exit 1 }' "$file" || continue
        first=$(awk -F: '
            BEGIN { first = 100000 } $2 + $3 > first { first = $2 + $3 } END { print first }' "$file")
        printf '%s:%d:65536\n' "$1" "$first" >>"$file"
    done
}

# A folder of a user's own, where anybody may make one: of what is there already, only the user's is
# left. It is root's until it is given away, so that nobody puts a link in its place meanwhile.
own_folder() {
    if [[ -d $1 && ! -L $1 && $(stat -c %u "$1") == "$2" ]]; then
        # Not as root, who would follow a link that is put there now.
        setpriv --reuid "$2" --regid "$2" --clear-groups chmod go-w "$1"
        return
    fi
    rm -rf --one-file-system "$1" && mkdir -m 700 "$1" && chown -h "$2:$2" "$1"
}

# Images fill the small system disk, and a home on NFS cannot hold them.
set_up_podman() {
    install -d /etc/cdi /etc/containers/registries.conf.d /etc/tmpfiles.d
    cat >/etc/containers/storage.conf <<CONF
# Written by Fairway, for Podman by hand. Jobs have a store beside it.
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
rootless_storage_path = "$place/fairway-\$UID/containers"
CONF
    # Names without a registry are Docker's, as Docker has it.
    printf 'unqualified-search-registries = ["docker.io"]\n' \
        >/etc/containers/registries.conf.d/90-fairway.conf
    # systemd removes old files there, and would leave parts of images.
    printf 'x /var/tmp/fairway-*\n' >/etc/tmpfiles.d/fairway.conf
}

# The number of somebody whom Entra ID signs in is not known before, and so is not their folder. Where
# another made it, or a link, Podman would take that one's images for its user's own.
guard_podman() {
    local real
    real=$(type -ap podman | grep -vxm 1 /usr/local/bin/podman)
    cat >/usr/local/bin/podman.new <<PROGRAM
#!/bin/sh
# Written by Fairway: see storage.conf.
uid=\$(id -u)
folder=$place/fairway-\$uid
if [ "\$uid" != 0 ]; then
    [ -e "\$folder" ] || mkdir -m 700 "\$folder"
    # Asked once: another user could replace what is not this one's between two questions.
    case "\$(LC_ALL=C stat -c '%u %F %A' "\$folder")" in
    "\$uid directory d"???????-?) chmod g-w "\$folder" ;;
    *)
        echo "podman: \$folder is not a folder of yours alone: ask an administrator to remove it" >&2
        exit 125
        ;;
    esac
fi
exec $real "\$@"
PROGRAM
    chmod 755 /usr/local/bin/podman.new
    mv -f /usr/local/bin/podman.new /usr/local/bin/podman
}

# By which names Podman knows NVIDIA's GPUs. Source: NVIDIA Container Toolkit, "Support for
# Container Device Interface".
name_gpus() {
    # It loads the driver too.
    nvidia-smi --list-gpus &>/dev/null || return 0
    if ! command -v nvidia-ctk >/dev/null; then
        say "no nvidia-ctk: containers have no GPUs"
        return 0
    fi
    nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
}

main() {
    local name uid place=/var/tmp
    # shellcheck source=/dev/null
    source "${FAIRWAY_PEOPLE_SETTINGS:-/etc/fairway/people-settings}"
    ! mountpoint -q "$scratch" || place=$scratch
    install_podman
    set_up_podman
    guard_podman
    while read -r name uid; do
        give_range "$name"
        # So that nobody makes another's: see fairway_agent.scratch.
        own_folder "$place/fairway-$uid" "$uid" || say "$name has no folder in $place"
    done < <(awk '!seen[$1]++ { print $1, $2 }' "$people")
    # Entra ID makes these accounts, with numbers of its own, when they first sign in.
    for name in $SIGNED_IN; do give_range "$name"; done
    name_gpus
    say "ready"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
