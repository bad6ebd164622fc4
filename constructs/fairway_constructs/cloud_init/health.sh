#!/usr/bin/env bash
# Answers one HTTP request with the health of this node. systemd starts it for each connection
# to a port of the loopback address; Azure's health extension asks there, and Azure repairs a
# node that stays unwell. It looks at the node's own hardware and at nothing else: a file
# server that is away makes no node unwell. With `--reason` it only says what is wrong, if anything.
set -uo pipefail

fabric=${FAIRWAY_FABRIC:-/sys/class/infiniband}
# The extension waits for half a minute.
longest=25

# GPUS is 0 where they have no NVIDIA driver. A GPU that has fallen off the bus makes
# nvidia-smi fail, or never come back.
check_gpus() {
    local list found
    ((GPUS > 0)) || return 0
    list=$(timeout "$longest" nvidia-smi --list-gpus 2>&1) ||
        {
            printf 'nvidia-smi does not answer: %s\n' "${list%%$'\n'*}"
            return 1
        }
    found=$(grep -c '^GPU [0-9]' <<<"$list")
    ((found >= GPUS)) || {
        printf '%d of %d GPUs\n' "$found" "$GPUS"
        return 1
    }
}

check_adapters() {
    local port up=0
    for port in "$fabric"/*/ports/1; do
        [[ -r $port/state && $(<"$port/link_layer") == InfiniBand ]] || continue
        [[ $(<"$port/state") != *ACTIVE* ]] || up=$((up + 1))
    done
    ((up >= ADAPTERS)) || {
        printf '%d of %d InfiniBand adapters are up\n' "$up" "$ADAPTERS"
        return 1
    }
}

answer() {
    printf 'HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n' "$1" "${#2}"
    printf 'Connection: close\r\n\r\n%s' "$2"
}

main() {
    local line reason
    # shellcheck source=/dev/null
    source "${FAIRWAY_SETTINGS:-/etc/fairway/settings}"
    if [[ ${1-} == --reason ]]; then
        check_gpus && check_adapters
        return
    fi
    # The request ends with an empty line; what it asks for does not matter.
    while IFS= read -r -t 5 line && [[ -n ${line%$'\r'} ]]; do :; done
    if reason=$(check_gpus && check_adapters); then
        answer '200 OK' well
    else
        printf 'fairway-health: %s\n' "$reason" >&2
        answer '503 Service Unavailable' "$reason"
    fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main "$@"
fi
