#!/usr/bin/env bash
# The command runs once, on the main host.
set -euo pipefail

exec bash -c 'mkdir -p $FAIRWAY_OUTPUT_MODEL; echo loss=0.5; echo weights > $FAIRWAY_OUTPUT_MODEL/w'
