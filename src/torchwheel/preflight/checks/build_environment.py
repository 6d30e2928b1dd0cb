"""Checks of the build environment: Python, CMake, ninja, imported packages and variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.host.compilers import SEARCH_PATHS
from torchwheel.host.machine import marker_environment
from torchwheel.preflight.checks.host_compiler import CUDA_FLAG_OPTIONS
from torchwheel.preflight.facts import Installed
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_machine,
    is_among,
    known_pytorch,
    read_rules,
    read_traps,
    require_known,
)
from torchwheel.pytorch.releases import published_pythons
from torchwheel.reporting.errors import find_nearest
from torchwheel.reporting.messages import read_messages
from torchwheel.reporting.terminal import config_option
from torchwheel.settings import Settings
from torchwheel.system.toml import shipped_toml
from torchwheel.tree.source_tree import Generation
from torchwheel.versions import at_least, major_minor, parse_numbers

_HEADERS = {
    "Linux": "sudo apt-get install python{minor}-dev, or sudo dnf install python{minor}-devel",
    "Windows": "install Python {minor} from python.org, with 'Download debugging symbols and libraries' left alone",
    "Darwin": "install Python {minor} from python.org",
}
_ARCHITECTURE_FLAG = re.compile(
    r"-{1,2}(?:gencode|arch|gpu-architecture|generate-code|gpu-code|code)\b[= ]?\S*"
)
_HOST_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS")
_OLD_ABI_FLAG = re.compile(r"-D\s*_GLIBCXX_USE_CXX11_ABI=0\b")
_CPU_FLAG = re.compile(r"(?<!\S)-m(?:arch|cpu)=\S+")
_REPLACING_FLAGS = {"CMAKE_CXX_FLAGS": "CXXFLAGS", "CMAKE_CUDA_FLAGS": "CUDAFLAGS"}
_MSVC_EXCEPTIONS = re.compile(r"[/-]EH")
_WINDOWS_DRIVE = re.compile(r"/mnt/[a-z](?:/|$)")


@checks_machine("python-not-supported")
def python_supported(context: Context) -> Answer:
    python, pytorch = context.machine.python.version, known_pytorch(context)
    values = {"pytorch": pytorch.version, "needed": pytorch.requires_python, "python": python}
    # Older releases of packaging exclude pre-releases by default, and Python 3.15.0b1 is one.
    if SpecifierSet(pytorch.requires_python).contains(python, prereleases=True):
        return Passed()
    tried = published_pythons(pytorch, context.machine.platform_tag)
    return Violation(values, tried[0] if tried else pytorch.requires_python)


@checks_machine("python-newer-than-pytorch")
def not_newer(context: Context) -> Answer:
    python, pytorch = context.machine.python.version, known_pytorch(context)
    tried = published_pythons(pytorch, context.machine.platform_tag)
    if not tried:
        return None
    breaks = pytorch.python_fails_from and at_least(python, pytorch.python_fails_from)
    if parse_numbers(python)[:2] <= parse_numbers(tried[-1]) or breaks:
        return Passed()
    newest = f"Python {tried[-1]}"
    values = {"pytorch": pytorch.version, "python": f"Python {major_minor(python)}", "newest": newest}
    return Violation(values, newest)


@checks_machine("python-breaks-pytorch")
def python_compiles(context: Context) -> Answer:
    python, pytorch = context.machine.python.version, known_pytorch(context)
    failing = pytorch.python_fails_from
    if failing is None or not at_least(python, failing):
        return Passed()
    tried = published_pythons(pytorch, context.machine.platform_tag)
    values = {"pytorch": pytorch.version, "python": f"Python {major_minor(python)}", "failing": failing}
    return Violation(values, f"Python {tried[-1]}" if tried else f"a Python before {failing}")


@checks_machine("no-python-headers")
def has_python_headers(context: Context) -> Answer:
    minor = context.machine.python.minor_version
    remedy = _HEADERS.get(context.machine.system, "install them").format(minor=minor)
    there = require_known(context.host.python_headers, "Python's headers")
    return Passed() if there else Violation({"python": minor}, remedy)


@checks_machine("build-packages-missing")
def build_packages(context: Context) -> Answer:
    if context.managed_environment:
        return None
    if not context.host.packages:
        return Unknown("the installed Python packages")
    missing = [text for text in context.plan.build_requires if _is_missing(Requirement(text), context)]
    nearest = " ".join(f'"{text}"' for text in missing)
    return Violation({"missing": ", ".join(missing)}, nearest) if missing else Passed()


def _is_missing(requirement: Requirement, context: Context) -> bool:
    name, marker = canonicalize_name(requirement.name), requirement.marker
    concerned = marker is None or marker.evaluate(marker_environment(context.machine))
    # Packages that only contain a program, which other rules check.
    if name in ("cmake", "ninja") or name not in context.host.packages or not concerned:
        return False
    version = context.host.packages[name]
    return not version or not requirement.specifier.contains(version, prereleases=True)


@checks_machine("no-ninja")
def ninja_found(context: Context) -> Answer:
    """Only ninja supports the job pools that limit memory-hungry kernels."""
    scikit = context.plan.tree.generation is Generation.SCIKIT_BUILD_CORE
    if context.managed_environment and (scikit or context.requires_package("ninja")):
        return None
    # PyPI's package precedes PATH in scikit-build-core.
    package = context.host.packages.get("ninja", "") if scikit else ""
    found = Installed(package) if package else context.host.tools.get("ninja")
    return Passed() if require_known(found, "the version of ninja").there else Violation()


@checks_machine("unknown-skip-check")
def skipped_checks_exist(context: Context) -> Answer:
    """A misspelt id skips no check, which would show hours later."""
    return skipped_checks(context.plan.settings)


def skipped_checks(settings: Settings) -> Answer:
    setting = settings.entries.get("skip-check")
    if not settings.skip_check:
        # Reading all ids would take longer than the rest of a plan.
        return Passed()
    ids = {*read_rules(), *(message.id for message in read_messages().values())}
    wrong = [id_ for id_ in settings.skip_check if id_ not in ids]
    if not wrong or setting is None:
        return Passed()
    instead = "take the id from the message, where it stands in [brackets]"
    if meant := find_nearest(wrong[0], ids):
        instead = f"write skip-check={meant}"
    return Violation({"ids": ", ".join(wrong)}, instead, setting.origin)


@checks_machine("variables-add-architectures")
def no_architectures(context: Context) -> Answer:
    code = require_known(context.plan.architectures)
    return _free_of(context, CUDA_FLAG_OPTIONS, _ARCHITECTURE_FLAG, config_option("arch", str(code)))


@checks_machine("unused-variable")
def read_by_somebody(context: Context) -> Answer:
    given, table = _variables_and_options(context), shipped_toml(Path(__file__).parents[1] / "unread.toml")
    rows = [row for row in table["unread"] if row["name"] in given]
    values = {
        "names": ", ".join(row["name"] for row in rows),
        "reasons": "; ".join(f"{row['name']}: {row['why']}" for row in rows),
    }
    instead = "; ".join(f"in place of {row['name']}: {row['instead']}" for row in rows)
    return Violation(values, instead) if rows else Passed()


@checks_machine("flags-without-ehsc")
def keeps_msvc_exceptions(context: Context) -> Answer:
    """CMAKE_CXX_FLAGS replaces CMake's default flags, CXXFLAGS adds to them: Modules/Platform/Windows-MSVC.cmake."""
    if context.machine.system != "Windows":
        return None
    given = ((option, context.options.get(option)) for option in _REPLACING_FLAGS)
    found = [option for option, one in given if one is not None and not _MSVC_EXCEPTIONS.search(one.text)]
    variables = ", ".join(f"-C env.{_REPLACING_FLAGS[option]}=" for option in found)
    return Violation({"options": ", ".join(found)}, variables) if found else Passed()


@checks_machine("conda-beside-system-compiler")
def one_world(context: Context) -> Answer:
    prefix, compiler = context.host.environment.get("CONDA_PREFIX", ""), context.machine.find_compiler("cxx")
    if not prefix or compiler is None or compiler.path.startswith(prefix):
        return Passed()
    names = (*SEARCH_PATHS, "LD_LIBRARY_PATH")
    found = [name for name in names if prefix in context.host.environment.get(name, "")]
    values = {"variables": " and ".join(found), "compiler": compiler.path, "names": ", ".join(found)}
    return Violation(values, "conda install gxx") if found else Passed()


@checks_machine("windows-drive-in-wsl")
def on_a_linux_disk(context: Context) -> Answer:
    if "WSL_DISTRO_NAME" not in context.host.environment:
        return None
    places = [str(context.plan.tree.root), context.host.build_folder]
    found = [place for place in places if _WINDOWS_DRIVE.match(place)]
    return Violation({"folders": " and ".join(found)}) if found else Passed()


def _free_of(context: Context, names: tuple[str, ...], pattern: re.Pattern[str], nearest: str = "") -> Answer:
    """Check that no flag in these variables matches a pattern."""
    given = _variables_and_options(context)
    found = {name: match[0] for name in names if (match := pattern.search(given.get(name, "")))}
    shown = ", ".join(f"{name} has {flag.strip()}" for name, flag in found.items())
    return Violation({"variables": shown, "names": ", ".join(found)}, nearest) if found else Passed()


# The compiler would use features of this processor; the C++11 ABI is PyTorch's own choice, recorded in its headers.
checks_machine("variables-set-old-abi")(
    partial(_free_of, names=(*_HOST_FLAGS, *CUDA_FLAG_OPTIONS), pattern=_OLD_ABI_FLAG)
)
checks_machine("variables-bind-to-this-cpu")(partial(_free_of, names=_HOST_FLAGS, pattern=_CPU_FLAG))


def _variables_and_options(context: Context) -> Mapping[str, str]:
    return {**context.variables, **{name: option.value for name, option in context.options.items()}}


@checks_machine("program-fails")
def programs_work(context: Context) -> Answer:
    """Some releases of build tools are known to fail; a tool installed for the build is the newest."""
    for trap in read_traps("program"):
        name = trap["name"]
        installs = context.managed_environment and context.requires_package(name)
        if installs or context.machine.system != trap["system"]:
            continue
        found = require_known(context.host.tools.get(name), f"the version of {name}")
        if found.there and is_among(found.version, trap["versions"]):
            values = {"program": f"{name} {found.version}", "system": trap["system"], "reason": trap["why"]}
            return Violation(values, trap["instead"])
    return Passed()
