"""Turn what `torchwheel matrix` prints into the jobs of a GitLab child pipeline; JSON is YAML."""

import base64
import json
import sys

# The runners' tags: https://docs.gitlab.com/ee/ci/runners/hosted_runners/linux.html
TAGS = {"linux_x86_64": "saas-linux-medium-amd64", "linux_aarch64": "saas-linux-medium-arm64"}


def encode(document: object) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


matrix = json.load(sys.stdin)
pipeline = {
    job["id"]: {
        "extends": ".torchwheel",
        "image": job["image"],
        "tags": [TAGS[job["platform"]]],
        # GitLab expands variables in the values of variables.
        "variables": {"JOB_BASE64": encode(job)},
    }
    for job in matrix["jobs"]
}
# It gets the artifacts of all jobs of earlier stages.
pipeline["pages"] = {
    "extends": ".torchwheel-site",
    "before_script": [f"echo {encode(matrix)} | base64 -d > matrix.json"],
}
json.dump(pipeline, sys.stdout, indent=2)
