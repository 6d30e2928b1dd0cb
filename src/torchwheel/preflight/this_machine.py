"""Collect the facts about this machine: read files, and query programs all at once."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.compilers import ask_version
from torchwheel.host.installer import has_another_index
from torchwheel.host.machine import Compiler, CompilerKind, Host
from torchwheel.host.programs import (
    SECONDS_TO_ANSWER,
    VERSION,
    NoAnswer,
    ask_program,
    find_in_answer,
    find_program,
)
from torchwheel.host.this import cache_folder, import_folders, this_host
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.facts import (
    CUDA_COMPILERS,
    CUDA_HOST_COMPILERS,
    NOT_INSTALLED,
    HostFacts,
    Installed,
    cuda_programs,
    read_toolkit_facts,
)
from torchwheel.reporting.masking import is_secret_name, mask_value
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, find_below, is_dir, is_file
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.discover import discover_toolkits, nvcc_version
from torchwheel.versions import installed_versions

Question = Callable[[], Any]

_TOOLS = ("cmake", "ninja", "git")
# The packages that releases of PyTorch import during a build: their pyproject.toml and requirements-build.txt.
IMPORTED_PACKAGES = (
    "cmake", "ninja", "numpy", "packaging", "pyyaml", "requests", "scikit-build-core", "setuptools", "six",
    "typing-extensions", "wheel",
)  # fmt: skip
_DRIVER, _GPUS, _ONLINE = "driver", "gpus", "network"
_ENOUGH = 1 << 16
_OTHER_COMPILER = re.compile(r"(?P<name>g\+\+|clang\+\+)-(?P<version>\d+)")
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_PUBLIC_HOST = "github.com"
# Without a network a resolver may try for half a minute.
_SECONDS_TO_RESOLVE = 3.0


def read_facts(environment: Mapping[str, str], plan: Plan | None = None) -> HostFacts:
    """Describe this machine for a planned build, or with all of its toolkits."""
    host = plan.host if plan else this_host(environment)
    toolkits = _chosen_toolkit(plan) if plan else tuple(discover_toolkits(environment))
    others = other_compilers(environment)
    questions = _list_questions(environment, (*host.compilers, *others), toolkits, plan)
    answers, unanswered = ask_together(questions)

    def with_versions(compilers: Iterable[Compiler]) -> tuple[Compiler, ...]:
        return tuple(replace(c, version=answers.get(c.path, c.version)) for c in compilers)

    folder = plan.folders.root.parent if plan else cache_folder(environment) / "builds"
    folders = sorted(map(str, {folder, cache_folder(environment)}))
    obstacles = {path: find_obstacle(Path(path)) for path in folders}
    required = [canonicalize_name(Requirement(text).name) for text in plan.build_requires] if plan else []
    return HostFacts(
        host=replace(host, compilers=with_versions(host.compilers)),
        toolkits=tuple(map(read_toolkit_facts, toolkits)),
        other_compilers=with_versions(others),
        driver=answers.get(_DRIVER),
        gpus=answers.get(_GPUS),
        libraries=find_libraries(
            _with_settings(environment, plan),
            toolkits,
            host,
            import_folders(plan.folders.environment) if plan else (),
        ),
        tools={name: answers[name] for name in _TOOLS if name in answers},
        python_headers=is_file(Path(sysconfig.get_path("include")) / "Python.h"),
        packages=installed_packages(sorted({*IMPORTED_PACKAGES, *required})),
        build_folder=str(folder),
        free_disk_bytes=_free_disk(folder),
        environment=reported_environment(environment),
        online=answers.get(_ONLINE),
        own_index=has_another_index(environment),
        obstacles={path: why for path, why in obstacles.items() if why},
        unanswered=unanswered,
    )


def _chosen_toolkit(plan: Plan) -> tuple[Toolkit, ...]:
    """The plan's toolkit if it exists. The nvcc decides, because a removed toolkit may leave its folder."""
    toolkit = plan.toolkit
    return (toolkit,) if toolkit and os.path.lexists(toolkit.nvcc or toolkit.root) else ()


def _list_questions(
    environment: Mapping[str, str],
    compilers: Iterable[Compiler],
    toolkits: Iterable[Toolkit],
    plan: Plan | None,
) -> dict[str, Question]:
    questions: dict[str, Question] = {
        _GPUS: partial(detect_gpus, environment, SECONDS_TO_ANSWER),
        _DRIVER: partial(ask_driver, environment),
        **{name: partial(_ask_tool, name, environment) for name in _TOOLS},
    }
    if plan is not None:
        named = cuda_programs(plan, (*CUDA_COMPILERS, *CUDA_HOST_COMPILERS))
        # For any kind of compiler, only that it exists and responds in time.
        questions |= {one: partial(ask_program, [one, "--version"]) for _, one in named}
    questions |= {c.path: partial(ask_version, c) for c in compilers if c.found}
    questions |= {one.nvcc: partial(nvcc_version, one.nvcc) for one in toolkits if one.nvcc}
    if plan and plan.toolkit and plan.toolkit.origin == "PyPI":
        questions[_ONLINE] = partial(_is_online, environment)
    return questions


def reported_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change a build, sorted, without those with a secret's name."""
    shown = shipped_toml(Path(__file__).with_name("reported_variables.toml"))["shown"]["names"]
    changes_build = pytorch_variables().can_change_build
    return {
        name: mask_value(name, value)
        for name, value in sorted(environment.items())
        if value
        and not is_secret_name(name)
        and (changes_build(name) or any(fnmatchcase(name.upper(), pattern) for pattern in shown))
    }


# The search paths of PyTorch's cmake/Modules/FindCUDNN.cmake and FindNCCL.cmake, and the headers' version macros:
# https://github.com/pytorch/pytorch/tree/v2.6.0/cmake
_LIBRARIES = {
    "cudnn": ("cudnn_version.h", ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
    "nccl": ("nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")),
    "cutlass": ("cutlass/version.h", ("CUTLASS_MAJOR", "CUTLASS_MINOR", "CUTLASS_PATCH")),
    "nvshmem": (
        "non_abi/nvshmem_version.h",
        tuple(f"NVSHMEM_VENDOR_{part}_VERSION" for part in ("MAJOR", "MINOR", "PATCH")),
    ),
}


def _with_settings(environment: Mapping[str, str], plan: Plan | None) -> Mapping[str, str]:
    """The environment of the build, in which a CMake option has the name of its variable."""
    own = {**plan.settings.variables, **plan.settings.defines} if plan else {}
    return {**environment, **{name: setting.text for name, setting in own.items()}}


def find_libraries(
    environment: Mapping[str, str], toolkits: tuple[Toolkit, ...], host: Host, packages: Iterable[Path] = ()
) -> dict[str, Installed]:
    """Find cuDNN, NCCL, CUTLASS and NVSHMEM by their headers, each installed or not.

    One with only versioned libraries, such as in PyPI's packages, cannot be linked and counts as not installed, except
    NVSHMEM's package, whose versioned names PyTorch's CMake searches for.
    """
    found = {}
    for name, (header, macros) in _LIBRARIES.items():
        folders: Iterable[Path] = _library_folders(name.upper(), environment, toolkits, host)
        if name == "cutlass":
            # CMake does not search for it, only compilers do: https://gcc.gnu.org/onlinedocs/cpp/Environment-Variables.html
            named = os.pathsep.join(environment.get(one, "") for one in ("CPATH", "CPLUS_INCLUDE_PATH"))
            folders = [
                *map(Path, filter(None, named.split(os.pathsep))),
                *_library_folders(name, {}, toolkits, host),
            ]
        versions = (_read_header_version(folder / header, macros) for folder in folders)
        found[name] = next((version for version in versions if version), NOT_INSTALLED)
        unversioned = _missing_link(name, Path(found[name].path))
        if unversioned and f"{name.upper()}_LIBRARY" not in environment:
            found[name] = Installed("", str(unversioned))
    if "NVSHMEM_HOME" not in environment:
        found["nvshmem"] = next(_nvshmem_packages(packages), found["nvshmem"])
    return found


def _nvshmem_packages(folders: Iterable[Path]) -> Iterator[Installed]:
    """PyPI's packages, which tools/setup_helpers/cmake.py asks Python for."""
    for folder in folders:
        for info in find_below(folder, "nvidia_nvshmem_cu*-*.dist-info"):
            version = info.name.removesuffix(".dist-info").partition("-")[2]
            yield Installed(version, str(folder / "nvidia" / "nvshmem"))


def _missing_link(name: str, header: Path) -> Path | None:
    """The missing ``libcudnn.so`` if the libraries beside a header have only names such as ``libcudnn.so.9``."""
    unversioned = header.parents[1] / "lib" / f"lib{name}.so" if header.is_absolute() else None
    if unversioned is None or exists(unversioned):
        return None
    return unversioned if find_below(unversioned.parent, f"{unversioned.name}.*") else None


def _library_folders(
    name: str, environment: Mapping[str, str], toolkits: Iterable[Toolkit], host: Host
) -> Iterator[Path]:
    if include := environment.get(f"{name}_INCLUDE_DIR"):
        yield Path(include)
    variables = (f"{name}_ROOT", f"{name}_ROOT_DIR", "NVSHMEM_HOME")
    roots = [environment.get(variable) for variable in variables]
    # As a CMake option it is a CMake list.
    prefixes = re.split(f"[;{os.pathsep}]", environment.get("CMAKE_PREFIX_PATH", ""))
    yield from (Path(root) / "include" for root in (*roots, *prefixes) if root)
    yield from (Path(folder) for toolkit in toolkits for folder in toolkit.include_dirs)
    if host.system == "Linux":
        for place in ("/usr/include", f"/usr/include/{host.machine}-linux-gnu", "/usr/local/include"):
            yield Path(place)


def _read_header_version(header: Path, macros: Iterable[str]) -> Installed | None:
    text = read_beginning(header, _ENOUGH)
    found = [re.search(rf"#define\s+{macro}\s+[^\d\n]*(\d[\d.]*)", text) for macro in macros]
    numbers = [match[1] for match in found if match]
    return Installed(".".join(numbers), str(header)) if len(numbers) == len(found) else None


def ask_together(
    questions: Mapping[str, Question], seconds: float = SECONDS_TO_ANSWER + 1
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask all questions at once; return the answers, and why the others failed or took longer."""
    answers: dict[str, Any] = {}
    reasons: dict[str, str] = {}

    def ask(name: str, question: Question) -> None:
        try:
            answers[name] = question()
        except Exception as error:
            # A question that fails leaves the fact unknown.
            reasons[name] = str(error) or type(error).__name__

    # A question that does not end runs on, and does not keep the process alive.
    threads = [Thread(target=ask, args=item, daemon=True) for item in questions.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    # A copy, because a late thread may still write into the original.
    found = dict(answers)
    late = f"it took longer than {seconds:g} seconds"
    return found, {name: reasons.get(name, late) for name in questions if name not in found}


def _ask_tool(name: str, environment: Mapping[str, str]) -> Installed:
    path = find_program(name, environment.get("PATH", ""))
    if path is None:
        return NOT_INSTALLED
    return Installed(find_in_answer(VERSION, ask_program([path, "--version"]))[0], path)


def ask_driver(environment: Mapping[str, str]) -> str:
    """Return the version of NVIDIA's driver from the kernel's file on Linux, else from nvidia-smi; empty for none."""
    text = read_beginning(_DRIVER_FILE).partition("\n")[0]
    program = find_program("nvidia-smi", environment.get("PATH", ""))
    if not VERSION.search(text) and program:
        text = ask_program([program, "--query-gpu=driver_version", "--format=csv,noheader"]).stdout
    match = VERSION.search(text)
    return match[0] if match else ""


def _is_online(environment: Mapping[str, str]) -> bool | None:
    """Whether a public host name can be resolved; None behind a proxy, which resolves names itself."""
    if any(environment.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")):
        return None
    answers, unanswered = ask_together({"host": _can_resolve}, _SECONDS_TO_RESOLVE)
    if unanswered:
        raise NoAnswer(f"{_PUBLIC_HOST} was not resolved within {_SECONDS_TO_RESOLVE:g} seconds")
    return bool(answers["host"])


def _can_resolve() -> bool:
    with suppress(OSError):
        return bool(socket.getaddrinfo(_PUBLIC_HOST, 443))
    return False


def other_compilers(environment: Mapping[str, str]) -> tuple[Compiler, ...]:
    """Versioned C++ compilers on ``PATH``, such as g++-13, newest first."""
    found: dict[str, Compiler] = {}
    for folder in filter(None, environment.get("PATH", "").split(os.pathsep)):
        for path in find_below(Path(folder), "*"):
            match = _OTHER_COMPILER.fullmatch(path.name)
            # A shell would start the first one on PATH.
            if match and path.name not in found:
                kind: CompilerKind = "gcc" if match["name"] == "g++" else "clang"
                found[path.name] = Compiler("cxx", kind, str(path), match["version"], path.name)
    return tuple(sorted(found.values(), key=lambda c: (c.kind, -int(c.version))))


def installed_packages(names: Iterable[str]) -> dict[str, str]:
    installed = installed_versions()
    return {name: installed.get(canonicalize_name(name), "") for name in names}


def _free_disk(folder: Path) -> int | None:
    """Return the free bytes in an existing or future folder; None if unknown."""
    existing = next((place for place in (folder, *folder.parents) if is_dir(place)), None)
    with suppress(OSError):
        usage = shutil.disk_usage(existing) if existing else None
        return usage.free if usage and usage.total else None
    return None


def find_obstacle(folder: Path) -> str:
    """Describe why a folder, which need not exist, cannot be written to; empty if it can."""
    existing = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), None)
    if existing is None:
        # A missing drive of Windows.
        return f"there is no {folder.anchor}"
    if not is_dir(existing):
        return f"{existing} is not a folder"
    # Both, because creating a file also requires the right to search its folder.
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"you have no write permission in {existing}"
    return ""
