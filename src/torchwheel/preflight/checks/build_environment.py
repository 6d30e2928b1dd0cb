"""Checks of the build environment: Python, CMake, ninja, imported packages and variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.host.compilers import SEARCH_PATHS, command_words
from torchwheel.host.machine import marker_environment
from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.checks.host_compiler import CUDA_FLAG_OPTIONS
from torchwheel.preflight.facts import Installed
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_combination,
    checks_machine,
    known_pytorch,
    require_known,
)
from torchwheel.preflight.rule_base import read_rules
from torchwheel.pytorch.published import published_pythons
from torchwheel.pytorch.releases import CMAKE_OPT_OUT, cmake_below
from torchwheel.reporting.errors import find_nearest
from torchwheel.reporting.messages import read_messages
from torchwheel.reporting.terminal import config_option
from torchwheel.settings import Settings
from torchwheel.system.toml import read_toml
from torchwheel.tree.source_tree import Generation
from torchwheel.versions import at_least, major_minor, parse_numbers

_PROGRAMS = frozenset({"cmake", "ninja"})
"""Packages that only contain a program, which other rules check."""

_LINKER_SCRIPT = re.compile(r"^(?:-Wl,(?:.{0,1000},)?)?(?:-T|--script)")

_HEADERS = {
    "Linux": "sudo apt-get install python{minor}-dev, or sudo dnf install python{minor}-devel",
    "Windows": "install Python {minor} from python.org, with 'Download debugging symbols and libraries' left alone",
    "Darwin": "install Python {minor} from python.org",
}


_ARCHITECTURE_FLAG = re.compile(
    r"-{1,2}(?:gencode|arch|gpu-architecture|generate-code|gpu-code|code)\b[= ]?\S*"
)
_HOST_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS")
_IN_COMMANDS = ("CC", "CXX", *_HOST_FLAGS, "LDFLAGS", "CUDAFLAGS", "CMAKE_CUDA_FLAGS")
_CPU_FLAG = re.compile(r"(?<!\S)-m(?:arch|cpu)=\S+")
_OLD_ABI_FLAG = re.compile(r"-D\s*_GLIBCXX_USE_CXX11_ABI=0\b")
# Flags of make, and of the host compiler, which need -Xcompiler: nvcc 13.0 refuses each of these.
_NO_NVCC_FLAG = re.compile(
    r"-(?:j\d*|-?jobs(?:=\S*)?|pipe|pthread|rdynamic|g\d|W(?:all|extra|no-(?!deprecated-)\S+)"
    r"|m(?:(?:arch|cpu|tune)=|no-|avx)\S*|f(?:PIC|openmp|fast-math|(?:lto|visibility|unroll-|no-)\S*))"
)
_REPLACING_FLAGS = {"CMAKE_CXX_FLAGS": "CXXFLAGS", "CMAKE_CUDA_FLAGS": "CUDAFLAGS"}
_MSVC_EXCEPTIONS = re.compile(r"[/-]EH")
_HOST_COMPILER_FLAG = ("-Xcompiler", "--compiler-options")
_WINDOWS_DRIVE = re.compile(r"/mnt/[a-z](?:/|$)")


@checks_combination("python-not-supported")
def python_supported(combination: Combination) -> Answer:
    """The release's own metadata has the range of Pythons."""
    python, pytorch = combination.python, known_pytorch(combination)
    values = {"pytorch": pytorch.version, "needed": pytorch.requires_python, "python": python}
    # Older releases of packaging exclude pre-releases by default, and Python 3.15.0b1 is one.
    if SpecifierSet(pytorch.requires_python).contains(python, prereleases=True):
        return Passed(values)
    tried = published_pythons(pytorch, combination.platform_tag)
    return Violation(values, tried[0] if tried else pytorch.requires_python)


@checks_combination("python-newer-than-pytorch")
def not_newer(combination: Combination) -> Answer:
    """A Python newer than the release has a C API unknown to its sources."""
    python, pytorch = combination.python, known_pytorch(combination)
    tried = published_pythons(pytorch, combination.platform_tag)
    if not tried:
        return None
    breaks = pytorch.python_fails_from is not None and at_least(python, pytorch.python_fails_from)
    if parse_numbers(python)[:2] <= parse_numbers(tried[-1]) or breaks:
        return Passed()
    newest = f"Python {tried[-1]}"
    values = {"pytorch": pytorch.version, "python": f"Python {major_minor(python)}", "newest": newest}
    return Violation(values, newest)


@checks_combination("python-breaks-pytorch")
def python_compiles(combination: Combination) -> Answer:
    """Some sources are known not to compile with the C API of a Python."""
    python, pytorch = combination.python, known_pytorch(combination)
    failing = pytorch.python_fails_from
    if failing is None or not at_least(python, failing):
        return Passed()
    tried = published_pythons(pytorch, combination.platform_tag)
    values = {"pytorch": pytorch.version, "python": f"Python {major_minor(python)}", "failing": failing}
    return Violation(values, f"Python {tried[-1]}" if tried else f"a Python before {failing}")


@checks_machine("no-python-headers")
def has_python_headers(context: Context) -> Answer:
    """CMake's FindPython stops without Python.h."""
    minor = context.host.host.python.minor_version
    if require_known(context.host.python_headers, "Python's headers"):
        return Passed({"python": minor})
    remedy = _HEADERS.get(context.host.host.system, "install them")
    return Violation({"python": minor}, remedy.format(minor=minor))


@checks_machine("build-packages-missing")
def build_packages(context: Context) -> Answer:
    """In an environment that torchwheel does not manage, everything must be installed already."""
    if context.managed_environment:
        return None
    if not context.host.packages:
        return Unknown("the installed Python packages")
    missing = [text for text in context.plan.build_requires if _is_missing(Requirement(text), context)]
    if not missing:
        return Passed()
    return Violation({"missing": ", ".join(missing)}, " ".join(f'"{text}"' for text in missing))


def _is_missing(requirement: Requirement, context: Context) -> bool:
    marker = requirement.marker
    concerned = marker is None or marker.evaluate(marker_environment(context.host.host))
    version = context.host.packages.get(canonicalize_name(requirement.name))
    if requirement.name.lower() in _PROGRAMS or not concerned or version is None:
        return False
    return not version or not requirement.specifier.contains(version, prereleases=True)


def _is_there(context: Context, tool: str) -> Answer:
    """A tool comes from PATH, from the tree's requirements, or from scikit-build-core."""
    found = _used_tool(context, tool)
    if not isinstance(found, Installed):
        return found
    if not found.there and _is_installed_by_build(context, tool):
        return None
    return Passed({"version": found.version}) if found.there else Violation()


def _check_response(context: Context, tool: str) -> Answer:
    """scikit-build-core queries CMake before it uses it, setup.py runs it; CMake queries ninja before it uses it."""
    reason = context.host.unanswered.get(tool)
    if reason is None:
        return Passed()
    return (
        None
        if _is_installed_by_build(context, tool) or _pypi_version(context, tool)
        else Violation({"reason": reason})
    )


# Only ninja supports the job pools that limit memory-hungry kernels.
for _tool in ("cmake", "ninja"):
    checks_machine(f"no-{_tool}")(partial(_is_there, tool=_tool))
    checks_machine(f"{_tool}-does-not-answer")(partial(_check_response, tool=_tool))


@checks_machine("cmake-too-old")
def cmake_new_enough(context: Context) -> Answer:
    """The tree's first line requires a CMake; scikit-build-core installs a newer one itself."""
    found, needed = _used_tool(context, "cmake"), context.plan.tree.minimum_cmake
    if not isinstance(found, Installed):
        return found
    if needed is None:
        needed = known_pytorch(context.combination).cmake_minimum
    if not found.there:
        return None
    if at_least(found.version, needed):
        return Passed({"version": found.version})
    if _is_installed_by_build(context, "cmake"):
        return None
    return Violation({"version": found.version, "needed": f"{needed} or later"}, needed)


@checks_machine("cmake-too-new")
def cmake_not_too_new(context: Context) -> Answer:
    """CMake 4 refuses projects that require a very old CMake."""
    found = _used_tool(context, "cmake")
    if found is None:
        return _cmake_to_install(context)
    if not isinstance(found, Installed):
        return found
    tree, below = context.plan.tree, _cmake_below(context)
    if not found.there:
        return None
    if below is None or not at_least(found.version, below):
        return Passed()
    return Violation({"version": found.version, "pytorch": tree.version_text}, f"<{below}")


def _cmake_below(context: Context) -> str | None:
    """The first CMake that is too new for the tree; None for none, or if a variable permits it."""
    tree = context.plan.tree
    if CMAKE_OPT_OUT in context.plan.settings.variables:
        return None
    if tree.old_projects is None:
        known_pytorch(context.combination)
    return cmake_below(tree.version_text, tree.old_projects)


def _cmake_to_install(context: Context) -> Answer:
    """Whether the requirements exclude a CMake that is too new; the environment gets the newest that they admit."""
    below = _cmake_below(context)
    wanted = [
        requirement.specifier
        for requirement in map(Requirement, context.plan.build_requires)
        if requirement.name.lower() == "cmake"
    ]
    if below is None or any(not one.contains(below, prereleases=True) for one in wanted):
        return Passed()
    shown = ", ".join(f"cmake{one}" for one in wanted)
    version = f"of the build requirements ({shown})"
    return Violation({"version": version, "pytorch": context.plan.tree.version_text}, f"<{below}")


def _used_tool(context: Context, tool: str) -> Installed | Unknown | None:
    """The machine's own tool if the build will use it; None if the build installs another."""
    if context.managed_environment and context.requires_package(tool):
        return None
    if package := _pypi_version(context, tool):
        return Installed(package)
    return context.host.tools.get(tool, Unknown(f"the version of {tool}"))


def _pypi_version(context: Context, tool: str) -> str:
    """The version of a tool's PyPI package if it precedes ``PATH``, as in scikit-build-core; else empty."""
    scikit = context.plan.tree.generation is Generation.SCIKIT_BUILD_CORE
    return context.host.packages.get(tool, "") if scikit and not context.managed_environment else ""


def _is_installed_by_build(context: Context, tool: str) -> bool:
    """Whether the build installs a tool: the tree requires it, or scikit-build-core fetches a missing one."""
    scikit = context.plan.tree.generation is Generation.SCIKIT_BUILD_CORE
    return context.managed_environment and (scikit or context.requires_package(tool))


@checks_machine("unknown-skip-check")
def skipped_checks_exist(context: Context) -> Answer:
    """A misspelt id skips no check, which would show hours later."""
    return skipped_checks(context.plan.settings)


def skipped_checks(settings: Settings) -> Answer:
    """Check that ``skip-check`` names existing checks."""
    setting = settings.get("skip-check")
    if not settings.skip_check:
        # Reading all ids would take longer than the rest of a plan.
        return Passed()
    ids = {*read_rules(), *(message.id for message in read_messages().values())}
    wrong = [id_ for id_ in settings.skip_check if id_ not in ids]
    if not wrong or setting is None:
        return Passed()
    meant = find_nearest(wrong[0], ids)
    instead = (
        f"write skip-check={meant}"
        if meant
        else "take the id from the message, where it stands in [brackets]"
    )
    return Violation({"ids": ", ".join(wrong)}, instead, setting.origin)


@checks_machine("variables-add-architectures")
def no_architectures(context: Context) -> Answer:
    """Variables and options can add flags to every call of nvcc."""
    code = require_known(context.combination.architectures)
    return _free_of(context, CUDA_FLAG_OPTIONS, _ARCHITECTURE_FLAG, config_option("arch", str(code)))


@checks_machine("unused-variable")
def read_by_somebody(context: Context) -> Answer:
    """Instructions for building PyTorch repeat names that have no effect."""
    given = _variables_and_options(context)
    rows = [
        row for row in read_toml(Path(__file__).parents[1] / "unread.toml")["unread"] if row["name"] in given
    ]
    values = {
        "names": ", ".join(row["name"] for row in rows),
        "reasons": "; ".join(f"{row['name']}: {row['why']}" for row in rows),
    }
    instead = "; ".join(f"in place of {row['name']}: {row['instead']}" for row in rows)
    return Violation(values, instead) if rows else Passed()


@checks_machine("no-such-nvcc-flag")
def nvcc_flags(context: Context) -> Answer:
    """nvcc refuses flags of make or of the host compiler."""
    if context.plan.architectures is None:
        return None
    given = _variables_and_options(context)
    system = context.host.host.system
    flags = {name: next(_unknown_to_nvcc(given.get(name, ""), system), "") for name in CUDA_FLAG_OPTIONS}
    return _report_flags({name: flag for name, flag in flags.items() if flag})


def _unknown_to_nvcc(text: str, system: str) -> Iterator[str]:
    if "forward-unknown" in text:
        return
    before = ""
    for flag in command_words(text, system):
        if before not in _HOST_COMPILER_FLAG and _NO_NVCC_FLAG.fullmatch(flag):
            yield flag
        before = flag


@checks_machine("unpaired-quote")
def quotes_in_pairs(context: Context) -> Answer:
    """CMake writes these into commands unchanged."""
    given = _variables_and_options(context)
    found = [name for name in _IN_COMMANDS if _has_open_quote(given.get(name, ""), windows=context.windows)]
    return Violation({"names": " and ".join(found)}) if found else Passed()


def _has_open_quote(text: str, *, windows: bool) -> bool:
    if windows:
        return text.count('"') % 2 == 1
    try:
        # For shlex, a backslash at the end is an error, too, but it is no open quote.
        shlex.split(text.rstrip("\\"))
    except ValueError:
        return True
    return False


@checks_combination("flags-without-ehsc")
def keeps_msvc_exceptions(combination: Combination) -> Answer:
    """CMAKE_CXX_FLAGS replaces CMake's default flags; CXXFLAGS adds to them.

    Source: Windows-MSVC.cmake and Windows-NVIDIA-CUDA.cmake in Modules/Platform of CMake.
    """
    if combination.system != "Windows":
        return None
    given = ((option, combination.options.get(option)) for option in _REPLACING_FLAGS)
    found = [option for option, one in given if one is not None and not _MSVC_EXCEPTIONS.search(one.text)]
    variables = ", ".join(f"-C env.{_REPLACING_FLAGS[option]}=" for option in found)
    return Violation({"options": ", ".join(found)}, variables) if found else Passed()


@checks_machine("two-linker-scripts")
def one_linker_script(context: Context) -> Answer:
    """On Arm with CUDA, PyTorch generates a linker script that groups its hot functions."""
    name = "USE_PRIORITIZED_TEXT_FOR_LD"
    variable = context.variables.get(name, "").strip().lower() not in ("", "0", "off", "no", "false", "n")
    if not (context.combination.is_on(name) or variable):
        return None
    flags = context.variables.get("LDFLAGS", "")
    scripts = [word for word in command_words(flags, context.host.host.system) if _LINKER_SCRIPT.match(word)]
    return Violation({"flags": flags}, scripts[0]) if scripts else Passed()


@checks_machine("conda-beside-system-compiler")
def one_world(context: Context) -> Answer:
    """conda's headers and libraries conflict with a compiler that is not conda's."""
    prefix, compiler = context.environment.get("CONDA_PREFIX", ""), context.host.host.find_compiler("cxx")
    if not prefix or compiler is None or compiler.path.startswith(prefix):
        return Passed()
    found = [
        name for name in (*SEARCH_PATHS, "LD_LIBRARY_PATH") if prefix in context.environment.get(name, "")
    ]
    if not found:
        return Passed()
    values = {"variables": " and ".join(found), "compiler": compiler.path}
    return Violation({**values, "names": ", ".join(found)}, "conda install gxx")


@checks_machine("windows-drive-in-wsl")
def on_a_linux_disk(context: Context) -> Answer:
    """Windows's folders below /mnt are network folders in WSL."""
    if "WSL_DISTRO_NAME" not in context.environment:
        return None
    places = [str(context.plan.tree.root), context.host.build_folder]
    found = [place for place in places if _WINDOWS_DRIVE.match(place)]
    return Violation({"folders": " and ".join(found)}) if found else Passed()


@checks_machine("locale-without-utf8")
def uses_utf8(context: Context) -> Answer:
    """Python's UTF-8 mode is on in the locales C and POSIX, unless it is switched off; others name their encoding.

    With LC_ALL=POSIX a whole build below a folder with non-ASCII letters succeeded.
    """
    if context.windows or (mode := context.variables.get("PYTHONUTF8", "")) == "1":
        return None if context.windows else Passed()
    name = next((n for n in ("LC_ALL", "LC_CTYPE", "LANG") if context.variables.get(n)), "")
    locale = context.variables.get(name, "")
    plain = locale.split(".")[0] in ("", "C", "POSIX")
    encoding = locale.partition("@")[0].partition(".")[2] or ("ASCII" if plain else "")
    if not encoding or encoding.lower().replace("-", "") == "utf8" or (plain and mode != "0"):
        return Passed()
    shown = ", ".join(f"{n}={text}" for n, text in ((name, locale), ("PYTHONUTF8", mode)) if text)
    return Violation({"variables": shown, "encoding": encoding})


def _free_of(context: Context, names: tuple[str, ...], pattern: re.Pattern[str], nearest: str = "") -> Answer:
    """Check that no flag in these variables matches a pattern."""
    given = _variables_and_options(context)
    found = {name: pattern.search(given.get(name, "")) for name in names}
    return _report_flags({name: match[0].strip() for name, match in found.items() if match}, nearest)


# The compiler would use features of this processor; the C++11 ABI is PyTorch's own choice, recorded in its headers.
checks_machine("variables-bind-to-this-cpu")(partial(_free_of, names=_HOST_FLAGS, pattern=_CPU_FLAG))
checks_machine("variables-set-old-abi")(
    partial(_free_of, names=(*_HOST_FLAGS, *CUDA_FLAG_OPTIONS), pattern=_OLD_ABI_FLAG)
)


def _variables_and_options(context: Context) -> Mapping[str, str]:
    return {
        **context.variables,
        **{name: option.value for name, option in context.combination.options.items()},
    }


def _report_flags(found: Mapping[str, str], nearest: str = "") -> Answer:
    """Report variables with the unwanted flag in each; passed if there are none."""
    shown = ", ".join(f"{name} has {flag}" for name, flag in found.items())
    return Violation({"variables": shown, "names": ", ".join(found)}, nearest) if found else Passed()
