#!/usr/bin/env bash
# The command runs once on every node.
set -euo pipefail

node() {
    exec bash -c 'python train.py'
}

# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
exec $FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f node); node"
