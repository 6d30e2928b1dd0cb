"""Install a wheel in a temporary environment, import it and calculate with it; or try an installed package."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags

from torchwheel.engine.process import ProcessFailed, full_disk, last_lines, run_streaming
from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus
from torchwheel.host.installer import find_installer, installing_variables, read_installer
from torchwheel.host.machine import this_python
from torchwheel.host.programs import NoAnswer, find_program
from torchwheel.host.this import base_interpreter, interpreter_in, site_packages
from torchwheel.proof import Check, not_tried
from torchwheel.proof.libraries import check_libraries, needs_torch_beside, required_names
from torchwheel.proof.loading import MODULE, installed_path, read_files
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.terminal import count_noun, format_duration, join_items, say
from torchwheel.system.paths import exists, is_file
from torchwheel.wheel.archive import plain_file_name
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.inspection import judge_libraries

_PACKAGE = re.compile(r"(?P<name>[^/.-]+)/__init__\.py")
_STEPS_SECONDS = 15 * 60  # what hangs is ended; importing torch from a cold disk takes a minute


def try_package(
    contents: WheelContents, more: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Check]:
    """Try an installed package, or install a wheel with its requirements in an environment of its own first."""
    with tempfile.TemporaryDirectory(prefix="torchwheel-verify-") as temporary:
        log, folder = Path(temporary, "verify.log"), Path(temporary, "environment")
        python = _find_interpreter(contents.site) if contents.site else interpreter_in(folder)
        if python is None:
            raise refusal("cannot-be-tried/interpreter", origin=contents.path, folder=contents.site)
        if contents.site is None:
            _require_installable(contents)
            installed = _install(contents, folder, more, log, environment)
            yield installed
            if installed.problems:
                return
            contents = replace(contents, site=site_packages(folder))
        yield check_libraries(contents)
        yield from _run_steps(contents, python, log, environment)


def _find_interpreter(site: Path) -> str | None:
    """The interpreter of a folder of packages: this one's, or that of the environment that the folder lies in."""
    if site == site_packages(Path(sys.prefix)).resolve():
        return sys.executable
    inside = map(interpreter_in, (site.parents[2], site.parents[1]))
    return next((python for python in inside if exists(Path(python))), None)


def _require_installable(contents: WheelContents) -> None:
    own, tags = list(sys_tags()), contents.tags
    if set(map(str, own)).isdisjoint(tags):
        values = {"tags": ", ".join(tags), "python": this_python().minor_version, "platform": own[0].platform}
        raise refusal("cannot-be-tried", origin=contents.path, **values)


def _install(
    contents: WheelContents, folder: Path, more: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Check:
    uv = find_program("uv", environment.get("PATH", ""))
    installer = find_installer(environment) or (read_installer([uv], environment) if uv else None)
    if installer is None:
        raise refusal("cannot-be-tried/no-installer")
    began = time.monotonic()
    say(f"installing {contents.path.name} with its requirements in a temporary environment")
    try:
        # Without pip, because the installer works on the environment from outside.
        command = [base_interpreter(), "-m", "venv", "--without-pip", str(folder)]
        _run(command, folder.parent, installing_variables(environment), log)
        wheel = contents.path.absolute()
        plain = folder.parent / plain_file_name(wheel.name)
        # pip refuses the file name of a wheel variant.
        if plain.name != wheel.name:
            wheel = shutil.copyfile(wheel, plain)
        requires = [str(wheel), *more]
        with installer.install_command(requires, interpreter_in(folder), None, environment) as (command, own):
            # The settings of pip and uv may have relative paths.
            _run(command, Path.cwd(), own, log)
    except ProcessFailed as failure:
        full = full_disk(folder.parent, failure.log, "the wheel could not be installed: the disk is full")
        if full:
            raise TorchwheelError(full) from failure
        values = {"installer": installer, "name": installer.name, "last": _last_lines(log, 0)}
        return Check("install", "", (Problem.of("wheel-not-installed", origin=contents.path, **values),))
    count = len(list(site_packages(folder).glob("*.dist-info")))
    seconds = time.monotonic() - began
    said = f"{count_noun(count, 'package')} with {installer} in {format_duration(seconds)}"
    figures = {"packages": count, "installer": str(installer), "seconds": seconds}
    return Check("install", said, figures=figures)


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str], log: Path) -> None:
    run_streaming(command, folder=folder, environment=variables, log=log, show=lambda _line: b"")


def _last_lines(log: Path, start: int) -> str:
    """The last lines of a log that is thrown away: what it says, and not where it lies."""
    lines = last_lines(log, start).splitlines()
    return "\n".join(line.strip() for line in lines[1:]) or "it printed nothing"


def _run_steps(
    contents: WheelContents, python: str, log: Path, environment: Mapping[str, str]
) -> Iterator[Check]:
    gpus, why = _find_gpus(contents, environment)
    capabilities = [gpu.compute_capability.dotted for gpu in gpus]
    modules, libraries = _list_modules(contents)
    with_torch = contents.has_torch or _requires_torch(contents)
    if not with_torch and needs_torch_beside(contents):
        yield not_tried("modules", "its libraries need a torch, which it does not require; add --with torch")
        return
    wanted = {"torch": with_torch, "modules": modules, "libraries": libraries, "capabilities": capabilities}
    steps = _Steps(contents, log)
    try:
        run_streaming(
            # -I: neither the current folder nor PYTHONPATH may bring another copy of the package.
            [python, "-I", str(Path(__file__).with_name("probe.py")), steps.mark, json.dumps(wanted)],
            folder=log.parent,
            environment=installing_variables(environment),
            log=log,
            watch=steps.read,
            show=lambda _line: b"",
            limit=_STEPS_SECONDS,
        )
    except ProcessFailed as failure:
        steps.how = _ended_by(failure.code)
    yield from steps.checks(wanted, gpus, why)


class _Steps:
    """What a run of ``probe.py`` says."""

    def __init__(self, contents: WheelContents, log: Path) -> None:
        # Random, because the imported modules print to the same stream.
        self.mark, self.how = f"torchwheel-{secrets.token_hex(8)}", ""
        self._contents, self._log = contents, log
        self._begun: list[str] = []
        self._ended: dict[str, dict[str, Any]] = {}
        self._start = log.stat().st_size if exists(log) else 0

    def read(self, line: str) -> None:
        if line.startswith(self.mark):
            said = json.loads(line.removeprefix(self.mark))
            if "seconds" in said:
                self._ended[said["step"]] = said
            else:
                self._begun.append(said["step"])

    def checks(self, wanted: Mapping[str, Any], gpus: Sequence[NamedGpu], why: str) -> Iterator[Check]:
        if wanted["torch"]:
            yield from self._torch_checks()
        works = "error" not in self._ended.get("import torch", {"error": ""})
        if (wanted["modules"] or wanted["libraries"]) and (works or not wanted["torch"]):
            yield self._modules_check(wanted["modules"], wanted["libraries"])
        if wanted["torch"] and works:
            yield self._gpu_check(gpus, why)

    def _torch_checks(self) -> Iterator[Check]:
        if problem := self._problem("import torch"):
            yield Check("import", "", (problem,))
            return
        step = self._ended["import torch"]
        version, contents = step["result"]["version"], self._contents
        problems = []
        if contents.has_torch and version != contents.version:
            values = {"where": "torch.__version__", "found": version, "stated": contents.version}
            problems.append(Problem.of("names-differ", origin=contents.path, **values))
        said = f"torch {version} in {step['seconds']:.1f} s"
        yield Check("import", said, tuple(problems), {"version": version, "seconds": step["seconds"]})
        yield self._result_check("configuration", _describe_configuration)
        yield self._result_check("cpu", _describe_product)

    def _result_check(self, step: str, describe: Callable[[Mapping[str, Any]], str]) -> Check:
        if problem := self._problem(step):
            return Check(step, "", (problem,))
        result = self._ended[step]["result"]
        return Check(step, describe(result), figures=result)

    def _modules_check(self, modules: list[str], libraries: list[str]) -> Check:
        steps = [*(f"import {name}" for name in modules), *(f"load {path}" for path in libraries)]
        problems, names = tuple(filter(None, map(self._problem, steps))), [*modules, *libraries]
        return Check("modules", join_items(names), problems, {"modules": names})

    def _gpu_check(self, gpus: Sequence[NamedGpu], why: str) -> Check:
        if not gpus:
            return not_tried("gpu", why)
        check = self._result_check(
            "gpu",
            lambda found: "; ".join(f"{one['name']}: {_describe_product(one)}" for one in found["gpus"]),
        )
        if check.problems or check.figures["gpus"]:
            return check
        names = ", ".join(gpu.name for gpu in gpus)
        return Check("gpu", "", (Problem.of("gpu-not-usable", origin=self._contents.path, gpus=names),))

    def _problem(self, step: str) -> Problem | None:
        origin = self._contents.path
        spoken = {"cpu": "a product on the CPU", "gpu": "a product on the GPU"}.get(step, step)
        if step in self._ended:
            if error := self._ended[step].get("error"):
                code = step if step.startswith("import ") else "import torch"
                command = f"python -c '{code}'"
                return Problem.of("step-failed", origin=origin, step=spoken, error=error, command=command)
            return None
        if step in self._begun:
            last = _last_lines(self._log, self._start)
            return Problem.of("step-failed/ended", origin=origin, step=spoken, how=self.how, last=last)
        before = self._begun[-1] if self._begun else "the interpreter"
        return Problem.of("step-failed/not-reached", origin=origin, step=spoken, before=before)


def _ended_by(code: int) -> str:
    # Under its supervisor a signal shows as 128 and its number.
    try:
        return signal.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return f"status {code}"


def _describe_product(result: Mapping[str, Any]) -> str:
    size, seconds = result["size"], result["seconds"]
    return f"a matrix product is exact; {size} x {size} takes {1000 * seconds:.2g} ms"


def _describe_configuration(result: Mapping[str, Any]) -> str:
    architectures = " ".join(result["architectures"]) or "no device code"
    lines = [line for line in result["configuration"].splitlines() if line.strip()]
    return f"{count_noun(len(lines), 'line')} of torch.__config__; compiled for {architectures}"


def _requires_torch(contents: WheelContents) -> bool:
    """Whether a torch is there to be imported before the modules: a requirement, or one that was named besides."""
    site = contents.site
    required = "torch" in required_names(contents.metadata.requires_dist, contents.tags)
    return required or (site is not None and is_file(site / "torch" / "__init__.py"))


def _find_gpus(contents: WheelContents, environment: Mapping[str, str]) -> tuple[list[NamedGpu], str]:
    """The GPUs of this machine that the wheel has code for; where there are none, why."""
    if contents.architectures is None:
        return [], "the wheel has no device code"
    try:
        detected = detect_gpus(environment)
    except NoAnswer as failure:
        return [], str(failure)
    if not detected:
        return [], "this machine shows no NVIDIA GPU"
    if not contents.has_torch:
        return [], "only its author knows what its kernels are to calculate"
    found = [gpu for gpu in detected if judge_libraries(contents.libraries, gpu).how.runs]
    names = ", ".join(f"{gpu.name} ({gpu.compute_capability.dotted})" for gpu in detected)
    return found, f"it does not run on what this machine has: {names}"


def _list_modules(contents: WheelContents) -> tuple[list[str], list[str]]:
    """What is imported by name, and what has no module in it and is loaded by its path."""
    site = contents.site
    assert site is not None
    if contents.has_torch:
        return [], []
    packages = filter(None, (_PACKAGE.fullmatch(installed_path(path)) for path in contents.files))
    modules, libraries = sorted(match["name"] for match in packages), []
    for file in read_files(contents).values():
        folder, _, name = file.path.rpartition("/")
        match = MODULE.fullmatch(name)
        if match is None or not (match["tag"] or match["kind"] == "pyd"):
            continue
        if file.is_module:
            modules.append(".".join([*filter(None, folder.split("/")), match["name"]]))
        else:
            libraries.append(str(site / file.path))
    return list(dict.fromkeys(modules)), libraries
