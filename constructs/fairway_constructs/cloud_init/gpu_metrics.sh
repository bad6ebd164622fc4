#!/usr/bin/env bash
# Writes one line about the node's NVIDIA GPUs to syslog; a timer runs it each minute. The
# Azure Monitor agent sends the line on, and the alert on idle GPUs reads it.
#   gpus=8 busiest=97 mean=62 memory=41      the last three in percent
set -euo pipefail

summary() {
    awk -F ', *' '
        $1 ~ /^[0-9]+$/ {
            gpus++
            busy += $1
            if ($1 > busiest) busiest = $1
            used += $2
            total += $3
        }
        END {
            if (!gpus) exit
            printf "gpus=%d busiest=%d mean=%d memory=%d\n",
                gpus, busiest, busy / gpus, total ? 100 * used / total : 0
        }'
}

main() {
    local line
    line=$(nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total \
        --format=csv,noheader,nounits | summary)
    # No number at all, for example with GPUs cut into instances.
    [[ -n $line ]] || return 0
    logger --tag fairway-gpu --priority local0.info "$line"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
