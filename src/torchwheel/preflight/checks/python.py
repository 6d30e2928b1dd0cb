"""Python: one that PyTorch takes, with its headers and with what the tree's build imports."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.host.markers import marker_environment
from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Scene
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_combination, checks_machine
from torchwheel.pytorch.published import published_pythons
from torchwheel.versions import major_minor, numbers

_PROGRAMS = frozenset({"cmake", "ninja"})
"""Packages that only bring a program; whether that is there, rules of their own say."""

_HEADERS = {
    "Linux": "sudo apt-get install python{minor}-dev, or sudo dnf install python{minor}-devel",
    "Windows": "install Python {minor} from python.org, with 'Download debugging symbols and libraries' left alone",
    "Darwin": "install Python {minor} from python.org",
}


@checks_combination("python-not-supported")
def supported(combination: Combination) -> Answer:
    """The range that the release's own metadata gives."""
    pytorch, python = combination.pytorch, combination.python
    if pytorch is None or python is None:
        return None

    values = {"pytorch": pytorch.version, "needed": pytorch.requires_python, "python": python}
    if SpecifierSet(pytorch.requires_python).contains(python, prereleases=True):
        return Fine(values)
    known = published_pythons(pytorch, combination.platform_tag)
    return Broken(values, known[0] if known else pytorch.requires_python)


@checks_combination("python-newer-than-pytorch")
def not_newer(combination: Combination) -> Answer:
    """A Python that came after the release has a C API that its sources never saw."""
    pytorch, python = combination.pytorch, combination.python
    known = published_pythons(pytorch, combination.platform_tag) if pytorch else ()
    if pytorch is None or python is None or not known:
        return None
    if numbers(python)[:2] <= numbers(known[-1]):
        return Fine()
    minor = major_minor(python)
    values = {"pytorch": pytorch.version, "python": f"Python {minor}", "newest": f"Python {known[-1]}"}
    return Broken(values, f"Python {known[-1]}")


@checks_machine("no-python-headers")
def headers(scene: Scene) -> Answer:
    """CMake's FindPython stops without Python.h."""
    if scene.host.python_headers is None:
        return None
    minor = scene.host.host.python.minor_version
    if scene.host.python_headers:
        return Fine({"python": minor})
    return Broken({"python": minor}, _HEADERS.get(scene.host.host.system, "install them").format(minor=minor))


@checks_machine("build-packages-missing")
def build_packages(scene: Scene) -> Answer:
    """In an environment that somebody else keeps, everything must be there already."""
    if scene.managed_environment or not scene.host.packages:
        return None
    missing = [text for text in scene.plan.build_requires if _is_missing(text, scene)]
    if not missing:
        return Fine()
    return Broken({"missing": ", ".join(missing)}, " ".join(f"'{text}'" for text in missing))


def _is_missing(text: str, scene: Scene) -> bool:
    requirement = Requirement(text)
    if requirement.name.lower() in _PROGRAMS:
        return False
    if requirement.marker is not None and not requirement.marker.evaluate(
        marker_environment(scene.host.host)
    ):
        return False
    version = scene.host.packages.get(canonicalize_name(requirement.name))
    if version is None:
        return False
    return not version or not requirement.specifier.contains(version, prereleases=True)
