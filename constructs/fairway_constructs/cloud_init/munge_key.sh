#!/usr/bin/env bash
# Replaces the munge key of a Slurm cluster, on its scheduler as root: a new one goes into the vault,
# then to all nodes that are up, and to the scheduler last. It changes nothing where slurmctld does not
# say which these are, or one cannot be reached: without the key it would be cut off, and its jobs
# started elsewhere.
set -euo pipefail

export PYTHONPATH=${PYTHONPATH:-/usr/local/lib/fairway}

# Nodes that are deleted have no address; those that boot read the key before they ask for a name. The
# first of each is Slurm's own: a reason or a comment behind it may have any words.
nodes_up() {
    scontrol -o show node | awk '{
        split("", first)
        for (i = 1; i <= NF; i++) {
            key = $i
            sub(/=.*/, "", key)
            if (!(key in first)) first[key] = substr($i, length(key) + 2)
        }
        if (first["NodeAddr"] ~ /^[0-9.]+$/ && first["State"] !~ /POWERED_DOWN|POWERING_DOWN/)
            print first["NodeName"], first["NodeAddr"]
    }'
}

# The login user gets to nodes with the key that they share. A command reads $input.
on() {
    runuser -u "$ADMIN" -- ssh -o BatchMode=yes -o ConnectTimeout=10 "$1" sudo -n "${@:2}" \
        <<<"$input" >/dev/null
}

# Runs a command on all nodes at once; says on which it failed, and then fails itself.
on_all() {
    local node waited=() failed=()
    for node in "${nodes[@]}"; do
        on "${node#* }" "$@" &
        waited+=("$! ${node% *}")
    done
    for node in "${waited[@]}"; do
        wait "${node% *}" || failed+=("${node#* }")
    done
    ((${#failed[@]} == 0)) || printf 'fairway-munge-key: not on %s\n' "${failed[*]}" >&2
    return $((${#failed[@]} > 0))
}

main() {
    local nodes input=''
    # shellcheck source=/dev/null
    source "${FAIRWAY_SETTINGS:-/etc/fairway/settings}"
    mapfile -t nodes < <(nodes_up)
    if ! wait "$!"; then
        printf 'nothing was changed: is slurmctld up? scontrol ping, journalctl -u slurmctld\n' >&2
        return 1
    fi
    if ! on_all true; then
        printf 'nothing was changed: delete such a node, or let it be reached\n' >&2
        return 1
    fi
    python3 -B -m fairway_boot.slurm.munge --new
    on_all systemctl start fairway-munge-key.service || true
    python3 -B -m fairway_boot.slurm.munge --read
    input=$(munge --no-input)
    if ! on_all unmunge; then
        printf 'the others have the new key: repeat this within two minutes, or these are down\n' >&2
        return 1
    fi
    printf 'fairway-munge-key: the scheduler and %d nodes have the new key\n' "${#nodes[@]}" >&2
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
