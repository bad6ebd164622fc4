#!/usr/bin/env bash
# Mounts a container of Blob storage as a folder. mount(8) runs it for the type `blobs`:
#     mount.blobs HOST/CONTAINER PATH -o ro
# blobfuse2 itself is a service, which systemd starts again where it ends.
set -euo pipefail

packages=https://packages.microsoft.com/config/ubuntu
identity=/etc/fairway/identity
scratch=/mnt/resource_nvme
settings=/etc/fairway/blobs

say() { printf 'fairway-blobs: %s\n' "$*" >&2; }

# apt.sh

# An image may have the package, or Microsoft's repository, already: a second entry for that, with
# a key in another place, would break apt. Source: Azure documentation, install BlobFuse.
install_blobfuse() {
    local folder release
    ! command -v blobfuse2 >/dev/null || return 0
    apt_update
    if ! apt-cache show blobfuse2 &>/dev/null; then
        release=$(sed -n 's/^VERSION_ID="\(.*\)"$/\1/p' /etc/os-release)
        folder=$(mktemp -d)
        curl -fsSL --retry 5 -o "$folder/source.deb" \
            "$packages/$release/packages-microsoft-prod.deb"
        apt_get install "$folder/source.deb"
        rm -r "$folder"
        apt_update
    fi
    apt_get install blobfuse2 fuse3
}

# Half of what is free, on the fast disks if there are any; jobs have the rest. The folder is made
# anew: in one that somebody else made, root would write where it leads.
make_cache() {
    local disk=/var/cache cache
    ! mountpoint -q "$scratch" || disk=$scratch
    cache=$disk/fairway-blobs-$1
    rm -rf --one-file-system "$cache"
    mkdir -m 700 "$cache"
    printf '%s\n' "$cache"
}

# A file stays in the cache for a day, so that a job reads it once and not in each epoch; whether its
# blob has changed is asked after two minutes, when it is opened again.
write_settings() {
    local name=$1 host=${2%%/*} container=${2#*/} read_only=$3 cache free
    cache=$(make_cache "$name")
    free=$(df --block-size=1M --output=avail "$cache" | tail -n 1)
    mkdir -p "$settings"
    cat >"$settings/$name.yaml" <<YAML
allow-other: true
read-only: $read_only
logging: {type: syslog, level: log_warning}
components: [libfuse, file_cache, attr_cache, azstorage]
file_cache:
  path: '$cache'
  max-size-mb: $((free / 2))
  timeout-sec: 86400
  refresh-sec: 120
  allow-non-empty-temp: true
  cleanup-on-start: true
azstorage:
  type: block
  account-name: ${host%%.*}
  endpoint: https://$host
  container: $container
  mode: msi
YAML
    # Azure asks which identity is meant where a machine has several.
    [[ ! -s $identity ]] || printf "  resid: '%s'\n" "$(<"$identity")" >>"$settings/$name.yaml"
}

main() {
    local source=$1 path=$2 options="" flag name unit
    shift 2
    while getopts o:t:N:sfnv flag; do
        [[ $flag != o ]] || options=$OPTARG
    done
    name=$(systemd-escape --path "$path")
    unit=fairway-blobs@$name.service
    install_blobfuse
    systemctl stop "$unit"
    write_settings "$name" "$source" "$([[ ,$options, == *,ro,* ]] && echo true || echo false)"
    systemctl start "$unit"
    for _ in {1..60}; do
        ! mountpoint -q "$path" || return 0
        sleep 1
    done
    say "$path is not there after a minute: journalctl -u '$unit'; a new role takes some minutes"
    return 1
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main "$@"
fi
