"""The packages that people compile for their GPU (``packages/*.toml``): how each is installed, what its build reads,
which release fits which torch and GPU, and what solves its failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from torchwheel.reporting.terminal import shell_word
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least, major_minor

_FOLDER = Path(__file__).with_name("packages")
_INSTALLED = re.compile(
    r"(?:site|dist)-packages[/\\](?!(?:torch|nvidia|triton)[/\\])(?P<name>[A-Za-z]\w{0,80})[/\\.]"
)
TORCH = "torch"
CALLED = (TORCH, "triton")
"""What nearly all of them call, and so is rarely at fault itself."""
_NAME = re.compile(r"(?<= )NAME(?=`)")
_NAMED = re.compile(r"(?:(?<=-U )|(?<=uninstall )|(?<=uninstall -y )|(?<=--no-binary ))NAME\b")
_COMPILES = re.compile(r"`(?=[^`]*--no-binary :all:[^`]* NAME`)")
_LIST = re.compile(r"TORCH_CUDA_ARCH_LIST=(?P<quote>\"?)(?P<list>\d[\d.;af]*)(?P=quote)(?![\w.])")
_OF_CAPTURES = ("building", "distribution", "module", "library", "raised_in", "caller")


@dataclass(frozen=True)
class Package:
    """A package with code for GPUs: a row of a table, whose keys ``general.toml`` describes."""

    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def source(self) -> str:
        """What pip compiles it from."""
        return str(self.row.get("repository", self.name))

    def describe(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return what its fixes say of it, for the torch and the GPU of the log."""
        found = {"culprit": self.name}
        found.update({key: str(self.row[key]) for key in ("own_torch", "wheels", "force") if key in self.row})
        if (least := self.row.get("least")) and not at_least(known.get("capability", least), least):
            found.update(too_low="yes", least=least)
        torch, build = known.get("torch_release", ""), known.get("torch_build", "")
        minor, here, pairs = major_minor(torch), known.get("release", ""), self.row.get("pairs", {})
        index = self.row.get("index", "") if build else ""
        release = pairs.get(torch) or pairs.get(minor)
        if release:
            found["fitting"] = release
        if release and here and major_minor(here) != major_minor(release):
            found["mismatched"] = here
        if release or (torch and index and not pairs):
            named = f"{self.name}=={release}" if release else self.name
            where = index.format(torch=f"{minor}.0", minor=minor, build=build)
            found["wheel"] = f"pip install --no-deps --no-cache-dir {named} {where}".rstrip()
        return found

    def fixes_of(self, id: str, said: str, releases: Mapping[str, str]) -> Iterator[str]:
        """Yield what is known to solve a failure of this package.

        Args:
            id: its kind; empty for what is known by the failure's very words, of any kind.
            said: its line and its captures.
            releases: of torch, CUDA, Python and the packages that the log names.
        """
        known = {**releases, "release": releases.get(canonicalize_name(self.name), "")}
        general = _general()["fix"] if self.name not in CALLED else ()
        for fix in (*self.row.get("fix", ()), *general):
            is_meant = id in fix.get("of", ("",)) and re.search(fix.get("says", ""), said)
            if is_meant and _hold(fix.get("when", {}), known):
                yield fix["text"]

    def adapt(self, fix: str, log: str = "") -> str:
        """Return a fix with this package's name, source and variables, in the release that the log's commands name."""
        force = self.row.get("force", "")
        fix = _COMPILES.sub(f"`{force} " if force and force not in fix else "`", fix)
        pinned = re.search(rf"(?<![\w.-]){re.escape(self.name)}==\d[\w.+]{{0,40}}", log)
        source = pinned[0] if pinned and self.source == self.name else self.source
        fix = _NAME.sub(shell_word(source), _NAMED.sub(self.name, fix))
        return _LIST.sub(lambda found: self._list(found["list"]), fix) if "archs" in self.row else fix

    def _list(self, listed: str) -> str:
        """Write a list of architectures as this package takes it."""
        archs, dotted = str(self.row["archs"]), [one for one in listed.split(";") if one]
        numbers = [one.replace(".", "") for one in dotted]
        if kinds := self.row.get("kinds"):
            majors = {one.rstrip("af")[:-1] for one in numbers}
            numbers = [str(kind) for kind in kinds if str(kind)[:-1] in majors]
        quote = '"' if len(numbers) > 1 and '"' not in archs else ""
        between = self.row.get("between", ";")
        lists = {"dotted": between.join(dotted), "number": between.join(numbers)}
        return archs.format(**{name: f"{quote}{text}{quote}" for name, text in lists.items()})


def package_at_fault(captures: Mapping[str, str], lines: Iterable[str]) -> Package | None:
    """Return the package that a failure is of.

    Args:
        lines: that of the failure first, then those above it, the nearest first; in the latter only packages of the
            table are found, and that of the traceback's last frame.
    """
    first, *above = lines
    if match := _INSTALLED.search(first):
        return find_package(match["name"]) or Package({"name": match["name"]})
    named = (captures.get(key, "").partition(".")[0] for key in _OF_CAPTURES)
    if known := next((one for one in map(find_package, named) if one and one.name not in CALLED), None):
        return known
    named_alone, in_path = _mentioned()
    matches = (named_alone.search(first), *map(in_path.search, above))
    frame = _INSTALLED.search(next((line for line in above if line.lstrip().startswith('File "')), ""))
    unknown = Package({"name": frame["name"]}) if frame else None
    return next((find_package(match["name"]) for match in matches if match), unknown)


def find_package(name: str) -> Package | None:
    return _packages().get(canonicalize_name(name))


def install_source(module: str) -> str:
    """Return what pip compiles a module from: the name of its distribution, or its repository."""
    known = find_package(module)
    return known.source if known else distribution(module)


def distribution(module: str) -> str:
    """Return the name under which pip installs a module."""
    known = find_package(module)
    return known.name if known else str(_general()["distribution"].get(module, module))


def _general() -> Mapping[str, Any]:
    return shipped_toml(_FOLDER / "general.toml")


def _hold(bounds: Mapping[str, str], releases: Mapping[str, str]) -> bool:
    """Whether releases are within bounds; one that is not known is not."""
    numbers = ((re.match(r"[\d.]*\d", releases.get(name, "")), bound) for name, bound in bounds.items())
    return all(number and SpecifierSet(bound).contains(number[0]) for number, bound in numbers)


@cache
def _packages() -> Mapping[str, Package]:
    """The packages by the names of their modules and distributions."""
    tables = (shipped_toml(path) for path in sorted(_FOLDER.glob("*.toml")))
    return {
        canonicalize_name(name): Package(row)
        for table in tables
        for row in table.get("package", ())
        for name in (row["name"], *row.get("modules", ()))
    }


@cache
def _mentioned() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Expressions for the name of a package, and for it in a path, an import or what an installer builds."""
    names = sorted(_packages().keys() - {*CALLED}, key=len, reverse=True)
    every = "|".join(re.escape(name).replace(r"\-", "[-_]") for name in names)
    name = rf"(?P<name>(?i:{every}))(?![\w-])"
    of = r"[/\\]|\b(?:from|import|install|Collecting|Building|Building wheels? for(?: collected packages:)?) ['\"]?"
    return re.compile(rf"(?<![\w-]){name}"), re.compile(rf"(?:{of}){name}")
