#!/usr/bin/env bash
# Tells the other nodes that this one is there: address, boot id, time and what it lacks in a file of
# its own, in a folder that all of them see. A timer runs it each minute. Nobody removes a file: who finds
# one that is some minutes old knows that the node is gone.
set -euo pipefail

boot_id=${FAIRWAY_BOOT_ID:-/proc/sys/kernel/random/boot_id}
health=${FAIRWAY_HEALTH:-/usr/local/sbin/fairway-health}

# The address towards Azure's own services, which every VM reaches over its first NIC.
address() { ip -4 -o route get 168.63.129.16 | sed -n 's/.* src \([0-9.]*\).*/\1/p'; }

# As the login user: the exports refuse root. Its id is the same on every node.
as_admin() { runuser -u "$ADMIN" -- "$@"; }

# What the node lacks, in one line; nothing where it is well, or has nothing to look at.
trouble() {
    [[ ! -x $health ]] || "$health" --reason 2>&1 | tr -s '[:cntrl:]' ' ' | cut -c 1-200 || true
}

main() {
    local place hosts file draft lacks
    # shellcheck source=/dev/null
    source "${FAIRWAY_SETTINGS:-/etc/fairway/settings}"
    # Before the file system is there this would fill the folder below it.
    mountpoint -q "$MOUNT"
    # Where the runs of several people queue, or else where those of the login user are.
    place=${QUEUE:-$SHARED}
    hosts=$place/clusters/$CLUSTER/hosts
    file=$hosts/$(hostname)
    draft=$hosts/.$(hostname).$$
    as_admin mkdir -p "$hosts"
    # Others may make folders there too; jobs are started on the hosts that this one names.
    [[ $(as_admin stat -c '%u %F' "$place") == "$(as_admin id -u) directory" ]]
    lacks=$(trouble)
    printf '%s %s %d%s\n' "$(address)" "$(<"$boot_id")" "$(date +%s)" "${lacks:+ $lacks}" |
        as_admin tee "$draft" >/dev/null
    # Whole or not at all, for whoever reads it now.
    as_admin mv -f "$draft" "$file"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
