#!/usr/bin/env bash
# Removes tasks' scratch from a node's local disks: each pod has a folder there, which its program
# holds locked as long as it runs, however it ends.
set -euo pipefail

# Minutes after which a folder goes that no program has ever locked: the container did not start.
unused=60

clean() {
    local folder
    for folder in "$1"/*; do
        [[ -d $folder && ! -L $folder ]] || continue
        [[ -e $folder/.fairway || $(find "$folder" -maxdepth 0 -mmin "+$unused") ]] || continue
        flock --nonblock "$folder" rm -rf --one-file-system "$folder" || true
    done
}

main() {
    trap 'exit 0' TERM
    while :; do
        clean /scratch
        sleep 60 &
        wait $!
    done
}

if [[ ${BASH_SOURCE[0]-$0} == "$0" ]]; then
    main
fi
