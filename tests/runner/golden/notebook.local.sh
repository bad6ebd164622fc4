#!/usr/bin/env bash
# papermill runs the notebook on the main host.
set -euo pipefail

notebook=report.ipynb
executed=$FAIRWAY_OUTPUT_NOTEBOOK/${notebook##*/}
arguments=(--log-output --no-progress-bar)
exec papermill "$notebook" "$executed" "${arguments[@]}"
