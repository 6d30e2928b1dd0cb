#!/usr/bin/env bash
# Runs steps of one job of `torchwheel matrix`, in the checkout: job.sh system | tools | plan | build | inspect ...
#
#   JOB, or JOB_BASE64  the job, an entry of `jobs`: as JSON, or that in Base64 where a service would expand a $ in it
#   JOB_TORCHWHEEL      what to install as torchwheel: a wheel in the checkout, or the address of a repository and commit
#   JOB_DIR             the job's folder, for its environment and its wheel; .torchwheel by default
#   JOB_MINUTES         how long a build may take; 0, the default, for as long as it needs
#
# What to keep from one run to the next is .torchwheel/keep, the compiler cache.
set -euo pipefail

# For an image of Ubuntu, as root. Where the service checks out after this, git must be there, or it unpacks an archive
# without commits. --system, because steps may differ in their home folder.
system() {
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    build-essential ca-certificates ccache git python3-dev python3-venv
  git config --system --add safe.directory '*'
}

# No value becomes a part of a command: all come by environment variables.
read_job() {
  if [ -n "${JOB_BASE64-}" ]; then JOB=$(printf '%s' "$JOB_BASE64" | base64 -d); fi
  export JOB JOB_DIR="${JOB_DIR:-.torchwheel}"
  eval "$(python3 -c '
import json, os, shlex
for name, value in json.loads(os.environ["JOB"])["variables"].items():
    print(f"export {name}={shlex.quote(value)}")')"
}

# uv brings the Python, free-threaded ones too; pip installs, because it follows the settings (indexes, certificates) that
# a site has for it. What git does not ignore is source, so .torchwheel is ignored in this clone.
tools() {
  : "${JOB_TORCHWHEEL:?names no wheel of torchwheel for the job to install}"
  mkdir -p "$JOB_DIR"
  if exclude=$(git rev-parse --git-path info/exclude 2>/dev/null); then
    mkdir -p "${exclude%/*}"
    grep -qxsF /.torchwheel/ "$exclude" || echo /.torchwheel/ >> "$exclude"
  fi
  if [ ! -x .torchwheel/uv/bin/uv ]; then
    python3 -m venv .torchwheel/uv
    .torchwheel/uv/bin/python -m pip install --upgrade pip uv
  fi
  .torchwheel/uv/bin/uv venv --clear --python "$JOB_PYTHON" "$JOB_DIR/env"
  printf '%s\n' "$JOB_TORCH" > "$JOB_DIR/torch.txt"
  printf '%s\n' "$JOB_REQUIRES" > "$JOB_DIR/requires.txt"
  .torchwheel/uv/bin/python -m pip --python "$JOB_DIR/env" install -r "$JOB_DIR/torch.txt"
  .torchwheel/uv/bin/python -m pip --python "$JOB_DIR/env" install pip -r "$JOB_DIR/requires.txt" "$JOB_TORCHWHEEL"
}

enter() {
  # shellcheck source=/dev/null
  . "$JOB_DIR/env/bin/activate"
  export CCACHE_DIR="${CCACHE_DIR:-$PWD/.torchwheel/keep/ccache}"
}

# It stops a job that cannot succeed before anything is compiled. Only CMake knows the commands of its own extensions.
plan() {
  enter
  case "$JOB_KIND" in
    tree | extension) torchwheel plan "$JOB_PROJECT" ;;
  esac
}

build() {
  enter
  case "$JOB_KIND" in
    tree) command=(torchwheel build "$JOB_PROJECT" -o "$JOB_DIR/dist") ;;
    *) command=(python -m pip wheel "$JOB_PROJECT" --no-deps --no-build-isolation -w "$JOB_DIR/dist") ;;
  esac
  rm -rf "$JOB_DIR/dist"
  status=0
  timeout --foreground "${JOB_MINUTES:-0}m" "${command[@]}" || status=$?
  if [ "$status" = 124 ]; then
    echo "The build was stopped after $JOB_MINUTES minutes. Run the job again: it reuses what was compiled."
  fi
  return "$status"
}

# The wheel must run on every GPU of the target.
inspect() {
  enter
  arguments=()
  for gpu in $JOB_GPUS; do arguments+=(--gpu "$gpu"); done
  torchwheel inspect "${arguments[@]}" "$JOB_DIR"/dist/*.whl
}

for step in "$@"; do
  [ "$step" = system ] || read_job
  # In a subshell, so that no environment is entered twice.
  case "$step" in
    system | tools | plan | build | inspect) ("$step") ;;
    *) echo "job.sh: there is no step $step" >&2; exit 2 ;;
  esac
done
