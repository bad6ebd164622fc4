#!/usr/bin/env bash
# Tells the other nodes that this one is there: address, boot id and time in a file of its own, in
# a folder that all of them see. A timer runs it each minute. Nobody removes a file: who finds
# one that is some minutes old knows that the node is gone.
set -euo pipefail

boot_id=${FAIRWAY_BOOT_ID:-/proc/sys/kernel/random/boot_id}

# The address towards Azure's own services, which every VM reaches over its first NIC.
address() { ip -4 -o route get 168.63.129.16 | sed -n 's/.* src \([0-9.]*\).*/\1/p'; }

# As the login user: the exports refuse root. Its id is the same on every node.
as_admin() { runuser -u "$ADMIN" -- "$@"; }

main() {
    local hosts file draft
    # shellcheck source=/dev/null
    source "${FAIRWAY_SETTINGS:-/etc/fairway/settings}"
    # Before the file system is there this would fill the folder below it.
    mountpoint -q "$MOUNT"
    hosts=$SHARED/clusters/$CLUSTER/hosts
    file=$hosts/$(hostname)
    draft=$hosts/.$(hostname).$$
    as_admin mkdir -p "$hosts"
    printf '%s %s %d\n' "$(address)" "$(<"$boot_id")" "$(date +%s)" |
        as_admin tee "$draft" >/dev/null
    # Whole or not at all, for whoever reads it now.
    as_admin mv -f "$draft" "$file"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
