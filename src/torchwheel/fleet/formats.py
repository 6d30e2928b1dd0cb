"""A fleet's jobs as the files that services read, and as a script for a shell."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchwheel._toml import shipped_toml
from torchwheel.fleet.jobs import Fleet, FleetRequest, Job

_FILE = Path(__file__).with_name("steps.toml")
_FOLDER = ".torchwheel"
_KEPT = f"{_FOLDER}/keep"
_WHEELS = f"{_FOLDER}/dist/*.whl"
_COLUMNS = 118
_CCACHE_DEFAULT = 5000
"""Megabytes that ccache keeps if nobody says otherwise: https://ccache.dev/manual/latest.html#config_max_size"""

# The major versions that GitHub's own documents and starter workflows name: https://github.com/actions/starter-workflows
_CHECKOUT, _CACHE, _UPLOAD = "actions/checkout@v6", "actions/cache", "actions/upload-artifact@v6"

# https://cloud.google.com/build/docs/cloud-builders
_DOCKER, _CLOUD_SDK = "gcr.io/cloud-builders/docker", "gcr.io/google.com/cloudsdktool/cloud-sdk:slim"
_BUILDER = "torchwheel-builder"
_RESTORE = f"""\
mkdir -p {_KEPT}
if gcloud storage ls "$STORE" >/dev/null 2>&1; then gcloud storage cat "$STORE" | tar -x -C {_KEPT}; fi
"""
_STORE = f"""\
mkdir -p {_KEPT}
tar -c -C {_KEPT} . | gcloud storage cp - "$STORE"
"""
Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]
_PLAIN = re.compile(r"(?:[A-Za-z_/$]|\.[A-Za-z/])[A-Za-z0-9_./@+=,$(){}-]*(?: [A-Za-z0-9_./@+=,$(){}-]+)*")
"""Words without what means something in block context: ``:``, ``#``, quotes, indicators, digits ahead."""
_RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"])
"""What YAML 1.1 or 1.2 takes for something else than text: https://yaml.org/type/bool.html."""
_NOT_LITERAL = re.compile(r"[^\x20-\x7e\n]")
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def files(fleet: Fleet, request: FleetRequest, folder: str) -> dict[str, str]:
    """The files for a service, by name.

    Args:
        fleet: the jobs.
        request: what was asked for.
        folder: where the files will lie in the checkout, with ``/``; services that read several files need it.
    """
    head = _head(request)
    if request.service.format == "cloud-build":
        return _cloud_build(fleet, head, folder, request)
    write = {"github": _github, "gitlab": _gitlab, "shell": _shell}[request.service.format]
    name = {"github": "torchwheel.yml", "gitlab": "torchwheel.gitlab-ci.yml", "shell": "torchwheel.sh"}
    return {name[request.service.format]: write(fleet, head, request)}


def script(step: str, kind: str, shell: str = "bash") -> str:
    """The commands of a step, empty for none.

    Args:
        step: ``tools``, ``plan``, ``build`` or ``inspect``.
        kind: what is built, as :attr:`Fleet.kind` says.
        shell: ``bash`` or ``pwsh``.
    """
    command = shipped_toml(_FILE)["commands"][kind].get(step, "")
    for word, spelled in shipped_toml(_FILE)["words"][shell].items():
        command = command.replace(word, spelled)
    text: str = shipped_toml(_FILE)[shell][step].lstrip("\n").replace("COMMAND", command)
    return "" if step == "plan" and not command else text


def _common(fleet: Fleet, request: FleetRequest, *, minutes: int = 0) -> dict[str, str]:
    """The variables that the commands of every job need, beside its own.

    Args:
        minutes: after how many the commands end a build; 0 where the service does.
    """
    own = {"JOB_DIR": _FOLDER, "JOB_WHEELS": request.wheels, "JOB_MINUTES": str(minutes)}
    return {**own, **fleet.variables}


def image_script() -> str:
    """The commands that make a job's image of Ubuntu serve."""
    return "".join(f"{line}\n" for line in shipped_toml(_FILE)["image"]["commands"])


def _head(request: FleetRequest) -> str:
    """What a reader should know, as comments."""
    service = request.service
    text = f"Made by torchwheel matrix; make it again rather than edit it. {_sentence(service.limits)}"
    if service.build and service.format != "shell":
        text += f" The build gets {service.build} minutes; what it compiled by then is kept, and the next run goes on."
    lines = [*textwrap.wrap(text, _COLUMNS, break_on_hyphens=False), *service.sources]
    return "".join(f"# {line}\n" for line in lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# --- GitHub Actions: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax


def _github(fleet: Fleet, head: str, request: FleetRequest) -> str:
    systems = {"linux": [job for job in fleet.jobs if not job.windows]}
    systems["windows"] = [job for job in fleet.jobs if job.windows]
    document: dict[str, Value] = {
        "name": "torchwheel",
        "on": {"workflow_dispatch": {}, "push": {"tags": ["v*"]}},
        "permissions": {"contents": "read"},
        "jobs": {name: _github_job(fleet, jobs, request) for name, jobs in systems.items() if jobs},
    }
    return head + yaml_document(document)


def _github_job(fleet: Fleet, jobs: Sequence[Job], request: FleetRequest) -> dict[str, Value]:
    """One job of the workflow: its matrix, and steps that see of it only environment variables.

    An expression in a command would be code of whoever chose its value:
    https://docs.github.com/en/actions/concepts/security/script-injections
    """
    shell = "pwsh" if jobs[0].windows else "bash"
    # The keys are those of `torchwheel matrix --json`: include: ${{ fromJSON(...) }} may stand here as well.
    include: list[Value] = [
        {"id": job.name, "machine": job.machine, "image": job.image, "variables": job.variables}
        for job in jobs
    ]
    variables = {name: f"${{{{ matrix.variables.{name} }}}}" for name in jobs[0].variables}
    own = _no_expressions(_common(fleet, request))
    if request.service.cache:
        share = min(_CCACHE_DEFAULT, request.service.cache * 1000 // len(fleet.jobs))
        own["CCACHE_MAXSIZE"], own["SCCACHE_CACHE_SIZE"] = f"{share}M", f"{share}M"
    key = "torchwheel-${{ matrix.id }}-"
    kept = {"path": _KEPT, "key": f"{key}${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}"}
    steps: list[Value] = []
    if shell == "bash":
        steps.append({"name": "Compilers and git", "run": image_script()})
    steps += [
        {"uses": _CHECKOUT, "with": {"submodules": "recursive"}},
        {"uses": f"{_CACHE}/restore@v5", "with": {**kept, "restore-keys": key}},
        {"name": "Python and torchwheel", "run": script("tools", fleet.kind, shell)},
    ]
    if plan := script("plan", fleet.kind, shell):
        steps.append({"name": "Plan", "run": plan})
    steps += [
        {
            "name": "Build",
            "timeout-minutes": request.service.build,
            "run": script("build", fleet.kind, shell),
        },
        {"uses": f"{_CACHE}/save@v5", "if": "always()", "with": kept},
        {"name": "Inspect", "run": script("inspect", fleet.kind, shell)},
        {
            "uses": _UPLOAD,
            "with": {"name": "${{ matrix.id }}", "path": _WHEELS, "if-no-files-found": "error"},
        },
    ]
    container: dict[str, Value] = {"container": "${{ matrix.image }}"} if shell == "bash" else {}
    return {
        "name": "${{ matrix.id }}",
        "runs-on": "${{ matrix.machine }}",
        **container,
        "strategy": {"fail-fast": False, "matrix": {"include": include}},
        "defaults": {"run": {"shell": shell}},
        "env": {**variables, **own},
        "steps": steps,
    }


def _no_expressions(variables: Mapping[str, str]) -> dict[str, Value]:
    """Values in which GitHub finds no expression to evaluate."""
    return {name: value.replace("${{", "${{ '${{' }}") for name, value in variables.items()}


# --- GitLab CI: https://docs.gitlab.com/ci/yaml/


def _gitlab(fleet: Fleet, head: str, request: FleetRequest) -> str:
    own = {
        "GIT_SUBMODULE_STRATEGY": "recursive",
        **_common(fleet, request, minutes=request.service.build),
    }
    steps = [script(step, fleet.kind) for step in ("tools", "plan", "build", "inspect")]
    document: dict[str, Value] = {
        ".torchwheel": {
            "timeout": f"{request.service.build + 30} minutes",
            "variables": _dollars(own),
            "cache": {"key": "torchwheel-$CI_JOB_NAME_SLUG", "paths": [f"{_KEPT}/"], "when": "always"},
            "artifacts": {"paths": [_WHEELS]},
            # GitLab clones before the first command, so the clone is there though the image has no git yet.
            "script": [image_script(), *(step for step in steps if step)],
        }
    }
    for job in fleet.jobs:
        document[job.name] = {
            "extends": ".torchwheel",
            "image": job.image,
            "tags": [job.machine],
            "variables": _dollars(job.variables),
        }
    return head + yaml_document(document)


def _dollars(variables: Mapping[str, str]) -> dict[str, Value]:
    """Values in which GitLab and Cloud Build see no variable."""
    return {name: value.replace("$", "$$") for name, value in variables.items()}


# --- Google Cloud Build: https://cloud.google.com/build/docs/build-config-file-schema


def _cloud_build(fleet: Fleet, head: str, folder: str, request: FleetRequest) -> dict[str, str]:
    """The Dockerfile of the machine that builds, a configuration for each job, and a script that submits them all."""
    made = {"Dockerfile": head + _dockerfile(fleet.jobs[0].image)}
    for job in fleet.jobs:
        made[f"{job.name}.yaml"] = head + yaml_document(_cloud_build_job(fleet, job, folder, request))
    configs = " ".join(shlex.quote(f"{folder}/{job.name}.yaml") for job in fleet.jobs)
    made["submit.sh"] = (
        f"#!/usr/bin/env bash\n{head}#\n# Run it in the checkout. The bucket gs://PROJECT-torchwheel must be there.\n"
        f"set -euo pipefail\nconfigs=({configs})\n"
        'for config in "${configs[@]}"; do gcloud builds submit --async --config "$config" .; done\n'
    )
    return made


def _dockerfile(image: str) -> str:
    run = " \\\n    && ".join(shipped_toml(_FILE)["image"]["commands"])
    return f"ARG BASE={image}\nFROM ${{BASE}}\nRUN {run}\n"


def _cloud_build_job(fleet: Fleet, job: Job, folder: str, request: FleetRequest) -> dict[str, Value]:
    store = f"gs://$PROJECT_ID-torchwheel/{job.name}.tar"
    own = {**_common(fleet, request, minutes=request.service.build), **job.variables}

    def step(name: str, image: str, text: str, **more: Value) -> Value:
        return {
            "id": name,
            "name": image,
            "script": f"#!/usr/bin/env bash\nset -euo pipefail\n{text}",
            **more,
        }

    build_image: list[Value] = [
        "build",
        "--build-arg",
        f"BASE={job.image}",
        "--tag",
        _BUILDER,
        folder.replace("$", "$$"),
    ]
    plan = script("plan", fleet.kind)
    steps = [
        {"id": "image", "name": _DOCKER, "args": build_image},
        step("restore", _CLOUD_SDK, _RESTORE),
        step("submodules", _BUILDER, "if [ -d .git ]; then git submodule update --init --recursive; fi\n"),
        step("tools", _BUILDER, script("tools", fleet.kind)),
        *([step("plan", _BUILDER, plan)] if plan else ()),
        # What it compiled is stored also where it fails; the last step fails without a wheel.
        step("build", _BUILDER, script("build", fleet.kind), allowFailure=True),
        step("store", _CLOUD_SDK, _STORE),
        step("inspect", _BUILDER, script("inspect", fleet.kind)),
    ]
    wheels: dict[str, Value] = {
        "location": f"gs://$PROJECT_ID-torchwheel/wheels/{job.name}/$BUILD_ID/",
        "paths": [_WHEELS],
    }
    return {
        "steps": steps,
        "artifacts": {"objects": wheels},
        # A day is the most, and 4000 GB: https://cloud.google.com/build/docs/build-config-file-schema
        "timeout": "86400s",
        "options": {
            "machineType": job.machine,
            "diskSizeGb": 200,
            "env": [f"{name}={value}" for name, value in _dollars(own).items()] + [f"STORE={store}"],
        },
    }


# --- a shell


def _shell(fleet: Fleet, head: str, request: FleetRequest) -> str:
    """A script whose arguments are the jobs to run; a failed one stops no other."""
    lines = [
        "#!/usr/bin/env bash",
        f"{head}#",
        "# Run it in the checkout, with the ids of jobs, or without for all; --list prints them.",
        "set -euo pipefail",
        f"all=({' '.join(shlex.quote(job.name) for job in fleet.jobs)})",
        "",
        "job() {",
        *_exports(_common(fleet, request)),
        f'  export JOB_DIR="{_FOLDER}/$1"',
        '  case "$1" in',
    ]
    for job in fleet.jobs:
        lines += [f"  {shlex.quote(job.name)})", f"    machine={shlex.quote(job.platform.partition('_')[2])}"]
        lines += [f"  {line}" for line in _exports(job.variables)]
        lines.append("    ;;")
    lines += [
        '  *) echo "there is no job $1" >&2; exit 2 ;;',
        "  esac",
        '  if [ "$(uname -m)" != "$machine" ]; then echo "$1 is for $machine, and left out here"; exit 0; fi',
        *(f"  {step}" for step in ("tools", "plan", "build", "inspect") if script(step, fleet.kind)),
        "}",
        "",
    ]
    for step in ("tools", "plan", "build", "inspect"):
        if text := script(step, fleet.kind):
            # Not indented: here-documents end at the margin. A subshell, so that nothing of it stays.
            lines += [f"{step}() (", text.rstrip("\n"), ")", ""]
    lines += [
        'if [ "${1-}" = --job ]; then job "$2"; exit; fi',
        'if [ "${1-}" = --list ]; then printf \'%s\\n\' "${all[@]}"; exit; fi',
        '[ $# -gt 0 ] || set -- "${all[@]}"',
        "failed=()",
        'for id in "$@"; do',
        '  echo "=== $id"',
        # Behind `if` or `||` bash ignores set -e, also in what is called there; so it is another process.
        '  bash "$0" --job "$id" || failed+=("$id")',
        "done",
        'if [ ${#failed[@]} -gt 0 ]; then echo "failed: ${failed[*]}" >&2; exit 1; fi',
    ]
    return "\n".join(lines) + "\n"


def _exports(variables: Mapping[str, str]) -> Iterator[str]:
    return (f"  export {name}={shlex.quote(value)}" for name, value in variables.items())


# YAML by hand, because torchwheel installs on a brand-new Python: of the libraries that write it none is among its
# dependencies, and an optional one would let the command fail for whoever has not got it. Block mappings and sequences,
# long text as literal blocks, every other text in quotes where it could be taken for anything else; two libraries read
# it back in the tests.


def yaml_document(value: Mapping[str, Value]) -> str:
    """A document with one mapping."""
    return "\n".join(_mapping(value)) + "\n"


def yaml_text(text: str) -> str:
    """A text on one line: as it is, or in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return '"' + "".join(map(_character, text)) + '"'


def _character(one: str) -> str:
    """A character between double quotes; https://yaml.org/spec/1.2.2/#57-escaped-characters."""
    if one in _ESCAPED:
        return _ESCAPED[one]
    code = ord(one)
    if 0x20 <= code < 0x7F:
        return one
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _mapping(value: Mapping[str, Value]) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{yaml_text(key)}:", item)


def _sequence(value: Sequence[Value]) -> Iterator[str]:
    for item in value:
        if isinstance(item, Mapping) and item:
            first, *rest = _mapping(item)
            yield f"- {first}"
            yield from (f"  {line}" if line else line for line in rest)
        else:
            yield from _entry("-", item)


def _is_literal(text: str) -> bool:
    """Whether it is printable ASCII, ends with one line end and begins with no space: that needs no indicator."""
    framed = text.endswith("\n") and text[0] > " " and text[-2] > " "
    return framed and _NOT_LITERAL.search(text) is None


def _entry(head: str, value: Value) -> Iterator[str]:
    if isinstance(value, bool):
        yield f"{head} {str(value).lower()}"
    elif isinstance(value, int):
        yield f"{head} {value}"
    elif isinstance(value, str) and _is_literal(value):
        yield f"{head} |"
        yield from (f"  {line}" if line else line for line in value[:-1].split("\n"))
    elif isinstance(value, str):
        yield f"{head} {yaml_text(value)}"
    elif not value:
        yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"
    else:
        yield head
        lines = _mapping(value) if isinstance(value, Mapping) else _sequence(value)
        yield from (f"  {line}" if line else line for line in lines)
