#!/usr/bin/env bash
# Submits a build to Google Cloud Build for each job of a fleet. Copy it, cloudbuild.yaml, Dockerfile and job.sh to ci, and
# run it in the checkout, whose submodules are there; the arguments are those of `torchwheel matrix`:
#
#   ci/cloudbuild_submit.sh . -t a100,h100 -t cpu --python 3.12,3.13
set -euo pipefail
torchwheel matrix "$@" | python3 -c '
import base64, json, sys
for job in json.load(sys.stdin)["jobs"]:
    print(job["id"], job["image"], base64.b64encode(json.dumps(job).encode()).decode())' |
while read -r id image job; do
  gcloud builds submit --async --config ci/cloudbuild.yaml \
    --substitutions "_ID=$id,_IMAGE=$image,_JOB_BASE64=$job" . </dev/null
done
