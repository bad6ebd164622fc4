#!/usr/bin/env bash
# A session: commands run beside this script, which waits for them.
set -euo pipefail

# What commands run beside: they get its environment, and the folder of the code.
hold() {
    export FAIRWAY_SESSION=$PWD
    exec sleep infinity
}

# Whether somebody uses this node: a command runs beside the session, or a GPU is busy.
in_use() {
    local found use
    while IFS= read -r found; do
        if grep -qsxzF "FAIRWAY_RUN=$FAIRWAY_RUN" "$found"; then return 0; fi
    done < <(grep -lsz '^FAIRWAY_PID=' /proc/[0-9]*/environ)
    use=$(nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null) || use=
    [[ $use == *[1-9]* ]] || grep -qs '[1-9]' /sys/class/drm/card*/device/gpu_busy_percent
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
hold &
echo "fairway: the session has begun"

unused=0
while ((unused < 30)); do
    sleep 60
    # Where one of these has failed, so has the session.
    for each in $(jobs -p); do
        kill -0 "$each" 2>/dev/null || wait "$each" || exit $?
    done
    if in_use; then unused=0 && continue; fi
    unused=$((unused + 1))
done
echo "fairway: nobody has used the session for 1800 s"
exit 124
