#!/usr/bin/env bash
# The start task of an Azure Batch node: does what cloud-init does on the nodes of a scale set.
# Batch runs it as root at each boot, and gives the node no job before it succeeded; what it
# prints is stderr.txt of the start task.
set -euo pipefail

say() { printf 'fairway-start-task: %s\n' "$*" >&2; }

# apt.sh

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
        apt_update
        apt_get install "${missing[@]}"
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
