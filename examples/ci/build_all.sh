#!/usr/bin/env bash
# Builds every job of a fleet on this machine, one after the other; a job that fails stops no other. In the checkout, with
# torchwheel on PATH; the arguments are those of `torchwheel matrix`:
#
#   JOB_TORCHWHEEL=ci/torchwheel-0.1.0-py3-none-any.whl ci/build_all.sh . -t rtx5070 -t cpu --python 3.12,3.13
set -euo pipefail
steps=$(dirname "$0")/job.sh
jobs=$(torchwheel matrix --no-image --platform "linux-$(uname -m)" "$@" | python3 -c '
import json, sys
for job in json.load(sys.stdin)["jobs"]:
    print(job["id"], json.dumps(job))')
failed=()
while read -r id job; do
  echo "=== $id"
  JOB=$job JOB_DIR=.torchwheel/$id bash "$steps" tools plan build inspect </dev/null || failed+=("$id")
done <<< "$jobs"
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
