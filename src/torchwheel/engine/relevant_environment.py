"""A build's inputs besides its plan and sources: environment variables, and the folders that CMake searches."""

from __future__ import annotations

import json
import os
import re
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from torchwheel.engine.packing import staged_sources
from torchwheel.host.compiler_cache import CACHE_VARIABLES
from torchwheel.host.this import is_of_isolated
from torchwheel.plan.build_plan import Plan, hash_facts
from torchwheel.plan.environment import JOB_VARIABLES, VERSION_VARIABLES
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.files import atomic_write, read_beginning, read_state
from torchwheel.system.paths import find_below, is_dir
from torchwheel.system.toml import shipped_toml
from torchwheel.tree.source_files import source_files

_PREFIX_VARIABLES = (
    "CMAKE_PREFIX_PATH",
    "CONDA_PREFIX",
    "HOMEBREW_PREFIX",
    "ProgramFiles",
    "ProgramFiles(x86)",
)
_SCRIPT = re.compile(r"(?:[^./][^/]*/)*(?:[^./][^/]*\.(?:cmake|cmake\.in|py|sh)|CMakeLists\.txt)")
_NAME = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_MAX_SCRIPT = 1 << 22

_LIST = re.compile(r"[;:]" if os.name != "nt" else ";")


def environment_digest(plan: Plan, environment: Mapping[str, str]) -> str:
    """Return a digest of the environment variables that a plan's build may depend on, without its version.

    A tree's CMake files and its setup.py may compute names of variables, so no list is complete: every variable counts
    except those of ``irrelevant_variables.toml``.
    """
    # Variables of PyTorch's build are resolved in the plan, and reach the build only from there.
    reads = pytorch_variables().can_change_build
    named = _names_in_tree(plan)
    kept = (name for name in environment if not (reads(name) or is_irrelevant(name, named)))
    found = {name: environment[name] for name in kept}
    found |= {variable.name: variable.value for variable in plan.variables}
    # A tree's setup.py can import modules from PYTHONPATH.
    found |= dict(_importable_modules(environment))
    # PATH has the frontend's own folders, which are new at each run; searched_digest() covers the others.
    left_out = {*JOB_VARIABLES, *VERSION_VARIABLES, *CACHE_VARIABLES, "PATH"}
    return hash_facts({name: value for name, value in found.items() if name not in left_out})


def _importable_modules(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the folders of PYTHONPATH except the frontend's, with a digest of the names and modules in them."""
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    own = [folder for folder in folders if folder and not is_of_isolated(folder)]
    for number, folder in enumerate(own):
        modules = [_module_mark(path) for path in find_below(Path(folder), "*") if path.name != "__pycache__"]
        yield f"PYTHONPATH {number} {folder}", hash_facts(sorted(modules))


def _module_mark(path: Path) -> str:
    if path.suffix == ".py":
        with suppress(OSError):
            status = path.stat()
            return f"{path.name} {status.st_size} {status.st_mtime_ns}"
    return path.name


def is_irrelevant(name: str, named: Collection[str] = ()) -> bool:
    """Whether no build can depend on an environment variable; the project's :func:`names_in_scripts` are ``named``."""
    if _irrelevant(False).fullmatch(name):
        return True
    return name not in named and _irrelevant(True).fullmatch(name) is not None


@cache
def _irrelevant(unless_named: bool) -> re.Pattern[str]:
    groups = shipped_toml(Path(__file__).with_name("irrelevant_variables.toml"))["group"]
    chosen = [one for one in groups if one.get("unless-named", False) is unless_named]
    names = (re.escape(name).replace(r"\*", ".*") for one in chosen for name in one["names"])
    return re.compile("|".join(names))


def names_in_scripts(folder: Path, files: Iterable[str]) -> frozenset[str]:
    """The names of variables in a project's CMake files and scripts, not in hidden folders, that count only there."""
    scripts = (file for file in files if _SCRIPT.fullmatch(file))
    texts = (read_beginning(folder / file, _MAX_SCRIPT, "surrogateescape") for file in scripts)
    found = {name for text in texts for name in _NAME.findall(text)}
    return frozenset(name for name in found if _irrelevant(True).fullmatch(name))


def _names_in_tree(plan: Plan) -> Collection[str]:
    """:func:`names_in_scripts` of a plan's tree; searched again only if its staged sources have changed."""
    if not plan.folders.staged:
        return names_in_scripts(plan.tree.root, source_files(plan.tree.root).files)
    # In a build's folder: the variables that scripts of its sources name.
    record, sources = plan.folders.root / "named.json", staged_sources(plan)
    state = read_state(record)
    if state.get("sources") != sources or not isinstance(state.get("names"), list):
        names = names_in_scripts(plan.folders.source, read_state(plan.folders.stage_state))
        state = {"sources": sources, "names": sorted(names)}
        if is_dir(plan.folders.root):
            atomic_write(record, json.dumps(state))
    return frozenset(state["names"])


def searched_digest(plan: Plan, environment: Mapping[str, str]) -> str:
    """A digest of the times of the folders in which CMake searches; adding or removing a file changes one."""
    times: dict[str, int] = {}
    for folder in _searched_folders(plan, environment):
        with suppress(OSError):
            times[folder] = os.stat(folder).st_mtime_ns  # noqa: PTH116 - a hundred folders before each build
    return hash_facts(times)


def _searched_folders(plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    """The folders that CMake searches, as far as known without running it; some may not exist."""
    # The frontend's own environment has a new path at each run.
    path = environment.get("PATH", "").split(os.pathsep)
    programs = [folder for folder in path if folder and not is_of_isolated(folder)]
    yield from programs
    named = [part for name in _PREFIX_VARIABLES for part in _LIST.split(environment.get(name, ""))]
    planned = [one.value for one in (*plan.defines, *plan.variables) if one.name == "CMAKE_PREFIX_PATH"]
    named += [part for value in planned for part in _LIST.split(value)]
    above = (os.path.dirname(folder) for folder in programs)  # noqa: PTH120
    # CMake's default prefixes. Source: CMAKE_SYSTEM_PREFIX_PATH, cmake-variables(7).
    prefixes = {"/usr", "/usr/local", "/opt/homebrew", "/opt/local", *named, *above}
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    libraries = ("lib", "lib64", "share", *((f"lib/{multiarch}",) if multiarch else ()))
    for prefix in sorted(filter(os.path.isabs, prefixes)):
        yield from (f"{prefix}/{name}" for name in ("bin", "include", *libraries))
        # Folders whose entries name packages. Source: cmake-commands(7), find_package; pkg-config(1).
        yield from (f"{prefix}/{library}/{kind}" for library in libraries for kind in ("cmake", "pkgconfig"))
