#!/usr/bin/env bash
# The command runs once, on the main host.
set -euo pipefail

exec bash -c 'python train.py'
