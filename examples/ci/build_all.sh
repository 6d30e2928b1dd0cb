#!/usr/bin/env bash
# Builds every job of a fleet on this machine, one after the other; a job that fails stops no other. What was built enters the
# site in the folder SITE, if that is set. In the checkout, with torchwheel on PATH; the arguments are those of `torchwheel
# matrix`:
#
#   SITE=/srv/wheels JOB_TORCHWHEEL=ci/torchwheel-0.1.0-py3-none-any.whl ci/build_all.sh . -w rtx5070 -w cpu --python 3.12,3.13
set -euo pipefail
steps=$(dirname "$0")/job.sh
mkdir -p .torchwheel
torchwheel matrix --no-image --platform "linux-$(uname -m)" "$@" > .torchwheel/matrix.json
jobs=$(python3 -c '
import json, sys
for job in json.load(sys.stdin)["jobs"]:
    print(job["id"], json.dumps(job))' < .torchwheel/matrix.json)
built=() failed=()
while read -r id job; do
  echo "=== $id"
  if JOB=$job JOB_DIR=.torchwheel/$id bash "$steps" tools plan build inspect </dev/null; then
    built+=(".torchwheel/$id/dist")
  else
    failed+=("$id")
  fi
done <<< "$jobs"
if [ -n "${SITE-}" ] && [ ${#built[@]} -gt 0 ]; then
  torchwheel index "${built[@]}" -o "$SITE" --variants --matrix .torchwheel/matrix.json
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
