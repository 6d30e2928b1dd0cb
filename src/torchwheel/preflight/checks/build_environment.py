"""Python, CMake, ninja and the packages that the tree's build imports."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.host.model import marker_environment
from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Context
from torchwheel.preflight.facts import Installed
from torchwheel.preflight.registry import Answer, Passed, Violation, checks_combination, checks_machine
from torchwheel.pytorch.published import published_pythons
from torchwheel.tree.model import Generation
from torchwheel.versions import at_least, major_minor, numbers

_PROGRAMS = frozenset({"cmake", "ninja"})
"""Packages that only bring a program; whether that is there, rules of their own say."""

_HEADERS = {
    "Linux": "sudo apt-get install python{minor}-dev, or sudo dnf install python{minor}-devel",
    "Windows": "install Python {minor} from python.org, with 'Download debugging symbols and libraries' left alone",
    "Darwin": "install Python {minor} from python.org",
}

_CMAKE_4_SINCE = "2.7"
"""2.6 does not configure with CMake 4: https://github.com/pytorch/pytorch/issues/150328"""
_OPT_OUT = "CMAKE_POLICY_VERSION_MINIMUM"


@checks_combination("python-not-supported")
def supported(combination: Combination) -> Answer:
    """The range that the release's own metadata gives."""
    pytorch, python = combination.pytorch, combination.python
    if pytorch is None or python is None:
        return None
    values = {"pytorch": pytorch.version, "needed": pytorch.requires_python, "python": python}
    if SpecifierSet(pytorch.requires_python).contains(python, prereleases=True):
        return Passed(values)
    known = published_pythons(pytorch, combination.platform_tag)
    return Violation(values, known[0] if known else pytorch.requires_python)


@checks_combination("python-newer-than-pytorch")
def not_newer(combination: Combination) -> Answer:
    """A Python that came after the release has a C API that its sources never saw."""
    pytorch, python = combination.pytorch, combination.python
    known = published_pythons(pytorch, combination.platform_tag) if pytorch else ()
    if pytorch is None or python is None or not known:
        return None
    if numbers(python)[:2] <= numbers(known[-1]):
        return Passed()
    newest = f"Python {known[-1]}"
    values = {"pytorch": pytorch.version, "python": f"Python {major_minor(python)}", "newest": newest}
    return Violation(values, newest)


@checks_machine("no-python-headers")
def headers(context: Context) -> Answer:
    """CMake's FindPython stops without Python.h."""
    if context.host.python_headers is None:
        return None
    minor = context.host.host.python.minor_version
    if context.host.python_headers:
        return Passed({"python": minor})
    remedy = _HEADERS.get(context.host.host.system, "install them")
    return Violation({"python": minor}, remedy.format(minor=minor))


@checks_machine("build-packages-missing")
def build_packages(context: Context) -> Answer:
    """In an environment that torchwheel does not keep, everything must be there already."""
    if context.managed_environment or not context.host.packages:
        return None
    missing = [text for text in context.plan.build_requires if _is_missing(Requirement(text), context)]
    if not missing:
        return Passed()
    return Violation({"missing": ", ".join(missing)}, " ".join(f"'{text}'" for text in missing))


def _is_missing(requirement: Requirement, context: Context) -> bool:
    marker = requirement.marker
    concerned = marker is None or marker.evaluate(marker_environment(context.host.host))
    version = context.host.packages.get(canonicalize_name(requirement.name))
    if requirement.name.lower() in _PROGRAMS or not concerned or version is None:
        return False
    return not version or not requirement.specifier.contains(version, prereleases=True)


@checks_machine("no-cmake")
def cmake(context: Context) -> Answer:
    """From PATH, from the tree's requirements, or from scikit-build-core."""
    return _is_there(context, "cmake")


@checks_machine("no-ninja")
def ninja(context: Context) -> Answer:
    """Only ninja knows the job pools that keep heavy kernels apart."""
    return _is_there(context, "ninja")


@checks_machine("cmake-too-old")
def cmake_new_enough(context: Context) -> Answer:
    """What the tree's first line asks for; scikit-build-core installs a newer one by itself."""
    found, pytorch = _used(context, "cmake"), context.combination.pytorch
    needed = context.plan.tree.minimum_cmake or (pytorch.cmake_minimum if pytorch else None)
    if found is None or not found.there or needed is None:
        return None
    if at_least(found.version, needed):
        return Passed({"version": found.version})
    if _brings(context, "cmake"):
        return None
    return Violation({"version": found.version, "needed": f"{needed} or later"}, needed)


@checks_machine("cmake-too-new")
def cmake_not_too_new(context: Context) -> Answer:
    """CMake 4 refuses what asks for a CMake that is very old."""
    found, pytorch = _used(context, "cmake"), context.combination.pytorch
    if found is None or not found.there or pytorch is None:
        return None
    old = not at_least(pytorch.version, _CMAKE_4_SINCE)
    if not old or not at_least(found.version, "4") or _OPT_OUT in context.plan.settings.variables:
        return Passed()
    values = {"version": found.version, "pytorch": pytorch.version, "since": _CMAKE_4_SINCE}
    return Violation(values, "<4")


def _is_there(context: Context, tool: str) -> Answer:
    found = _used(context, tool)
    if found is None or (not found.there and _brings(context, tool)):
        return None
    return Passed({"version": found.version}) if found.there else Violation()


def _used(context: Context, tool: str) -> Installed | None:
    """The machine's own tool if the build will use it; None if it is not known, or another one is installed."""
    if context.managed_environment and _is_required(context, tool):
        return None
    return context.host.tools.get(tool)


def _brings(context: Context, tool: str) -> bool:
    """Whether the build installs a tool: the tree requires it, or scikit-build-core fetches what is missing."""
    scikit = context.plan.tree.generation is Generation.SCIKIT_BUILD_CORE
    return context.managed_environment and (scikit or _is_required(context, tool))


def _is_required(context: Context, tool: str) -> bool:
    return tool in {Requirement(text).name.lower() for text in context.plan.build_requires}
