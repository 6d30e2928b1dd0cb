"""Read from a Python traceback whose code raised the exception, who called it, and which package was being built."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import NamedTuple

from torchwheel.diagnosis.grammar import LONGEST_CAPTURE
from torchwheel.diagnosis.packages import distribution
from torchwheel.system.toml import shipped_toml

_TABLE = Path(__file__).with_name("grammar") / "modules.toml"
TRACEBACK_LINES = 120
"""Lines above an exception in which its traceback, and what was being built, are looked for."""
_FRAME = re.compile(
    r'^\s*File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7})'
    r"|^(?:File )?(?P<file2>[^\s\"]{1,400}\.py)(?::(?P<line2>\d{1,7}),)? in "
)
"""A frame, as Python or IPython writes it."""
_ARROW = re.compile(r"^-+> (?P<line>\d{1,7}) (?P<source>.*)")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](?:[^/\\]{1,80}\.egg[/\\])?(?P<name>\w{1,80})")
_UNPACKED = re.compile(
    r"[/\\]pip-(?:install|build)-\w{1,20}[/\\](?P<name>[\w.-]{1,80}?)(?:_[0-9a-f]{32})?[/\\]"
)
_STANDARD = re.compile(
    r"^<frozen |(?:^|[/\\][Ll]ib[/\\](?:python[\d.]{1,6}[/\\])?)(?P<name>[A-Za-z_]\w{0,60})(?:\.py$|[/\\])"
)
_PYTHON = re.compile(r"[/\\](?:python|cpython-)3\.(?P<minor>\d{1,2})|[Pp]ython3(?P<minor2>\d{1,2})[/\\]")
_BUILDING = re.compile(
    r"^(?:#\d+ )?\s*(?:[\d.]+ )?(?:Collecting (?P<name>[\w.-]{1,80}?)(?:[ =<>~!\[@;]|$)"
    r"|(?:Using cached|Downloading) (?:\S{1,200}/)?(?P<name2>[\w.-]{1,80}?)-\d[\w.+]{0,40}(?:\.tar\.gz|\.zip)"
    r"|.{0,3}Failed to build [`'](?P<name3>[\w.-]{1,80}?)(?:[ =@]|[`'])|Building wheels? for (?:collected packages: )?"
    r"(?P<name4>[\w.-]{1,80}))"
)
_ISOLATED = re.compile(r"pip-build-env-|[/\\]builds-v0[/\\]|[/\\]build-env-")
_SETUP = re.compile(
    r'File "(?:[^"]{0,400}[/\\])?(?:setup\.py|setuptools[/\\]build_meta\.py|_in_process\.py|<pip-setuptools-caller>)"'
)
_VARIABLE = re.compile(r"\b(?:[A-Z][A-Z0-9]*_[A-Z0-9_]+|torch\.version\.\w+)\b")
_IMPORT = re.compile(r"^(?:from|import) (?P<name>\w{1,80})")
# Code that only passes a call on.
_PASS_ON = frozenset({"pip", "pep517", "pyproject_hooks", "importlib", "_distutils_hack"})
_WRAPPER = re.compile(r"return (?:await )?[\w.]{1,60}\(\*args, \*\*kw(?:arg)?s\)")
_DAMAGED = "source code string cannot contain null bytes"
_SENTENCES = {"runtimeerror", "valueerror", "assertionerror", "oserror", "exception", "environmenterror"}
_WORDS_OF_SENTENCE = 3
_LEAST_LETTERS = 4
_NAMES = frozenset({"python-module-missing", "python-part-missing", "python-name-missing"})
_OF_FILES = frozenset({"file-missing", "file-damaged", "command-missing", "permission-denied"})
_OF_TRACEBACKS = _NAMES | _OF_FILES | {"python-exception", "python-syntax", "call-unfit"}


class _Frame(NamedTuple):
    """A frame of a traceback; ``source`` is its line of code."""

    file: str
    line: str
    source: str

    @property
    def package(self) -> str:
        match = _INSTALLED.search(self.file)
        return match["name"] if match else ""

    @property
    def owner(self) -> str:
        return self.package or self.file

    @property
    def is_own(self) -> bool:
        """Whether it is neither of Python's library nor only passes a call on."""
        is_standard = not self.package and (self.file.startswith("<") or _is_standard(self.file))
        return not (is_standard or self.package in _PASS_ON or _WRAPPER.match(self.source))


def _is_standard(file: str) -> bool:
    """Whether a file that no installer brought is of Python's own library."""
    match = _STANDARD.search(file)
    return match is not None and match["name"] in sys.stdlib_module_names


def explain_exception(
    id: str, captures: Mapping[str, str], lines_above: Callable[[], Sequence[str]]
) -> tuple[str, Mapping[str, str]]:
    """Return the class of an exception, ``id`` for its line alone, and its captures with those of the traceback."""
    if id not in _OF_TRACEBACKS:
        return id, captures
    above = lines_above()
    frames = tuple(_frames(above))
    own = [frame for frame in frames if frame.is_own]
    module, message = captures.get("module", "").partition(".")[0], captures.get("message", "")
    if module and own and own[0].source.startswith(("raise ", "return getattr(")):
        # A module that looks up, or says itself, what it does not have.
        own = [*dropwhile(lambda frame: frame.package == module.lower(), own)]
    last = own[0] if own else _Frame("", "", "")
    read = {name: text[:LONGEST_CAPTURE] for name, text in _read(frames, own, above) if text}
    known = {**read, **captures}
    kind = captures.get("kind", "").rpartition(".")[2].lower()
    known |= _marks(id, kind, captures, last.source)
    known |= _module(module, last.file, captures) if module else {}
    if message == _DAMAGED and (match := _IMPORT.match(last.source)):
        return "installation-damaged", known | _module(match["name"], last.file, captures)
    if id in _NAMES and module and module == last.package:
        return "installation-damaged", known
    table = shipped_toml(_TABLE)
    gone = f"{module}.{captures.get('name', '').lstrip('.')}".rstrip(".")
    if id in _NAMES and not {module, gone}.isdisjoint(table["removed"]):
        bundled = {"bundled": "yes"} if known["distribution"] == "setuptools" else {}
        return "python-library-unfit", {**known, "gone": gone, "removed": "yes", **bundled}
    if id in _NAMES and module in {*sys.stdlib_module_names, *table["optional"]} and "shadow" not in known:
        optional = {"optional": "yes"} if gone in table["optional"] else {}
        return "python-library-unfit", {**known, "gone": gone, **optional}
    folder = re.split(r"[/\\]", last.file)[-2:][0]
    if id == "python-module-missing" and _is_part_of(module, folder):
        return "extension-module-missing", {**known, "name": module, "module": folder}
    if id != "python-exception":
        return id, known
    if kind == "assertionerror" and re.search(r"\b(?:cuda|xpu)\.is_available\(", last.source):
        return "gpu-not-seen", {**known, "message": last.source}
    if match := _variable(kind, message, last.source):
        return "value-unset", {**known, "variable": match[0]}
    return "setup-failed" if "setup" in read else id, known


def _marks(id: str, kind: str, captures: Mapping[str, str], source: str) -> dict[str, str]:
    """Return what the conditions of fixes ask of an exception that a line of ``source`` raised."""
    is_sentence = captures.get("message", "").count(" ") >= _WORDS_OF_SENTENCE
    marks = {
        kind: kind != "",
        "says": (kind in _SENTENCES or source.startswith("raise ")) and is_sentence,
        "relative": re.match(r"[^/\\:]+(?:[/\\]|$)", captures.get("name", "")) is not None,
        "is_name": id == "python-name-missing",
        "submodule": f"{captures.get('module')}.{captures.get('name')}." in source,
    }
    return {mark: "yes" for mark, holds in marks.items() if holds}


def _is_part_of(module: str, folder: str) -> bool:
    """Whether a module is named as the compiled part of a package: `_quicktex`, `MinkowskiEngineBackend`."""
    rest = module.strip("_").removeprefix(folder)
    is_marked = module.startswith("_") or rest[:1].isupper()
    return is_marked and len(folder) >= _LEAST_LETTERS and rest != module.strip("_")


def _variable(kind: str, message: str, source: str) -> re.Match[str] | None:
    """Find the variable whose value is missing: None where text is wanted, or not in the environment."""
    if kind == "keyerror":
        return _VARIABLE.fullmatch(message.strip("'")) if "environ" in source else None
    is_asserted = kind == "assertionerror" and not message and "env" in source
    return _VARIABLE.search(source) if is_asserted or "NoneType" in message else None


def _module(module: str, file: str, captures: Mapping[str, str]) -> dict[str, str]:
    """Return how a module is installed, and the user's own file that stands in front of it."""
    file = captures.get("file") or file
    is_named_so = Path(file.replace("\\", "/")).stem == module
    shadow = {} if not is_named_so or _INSTALLED.search(file) or _is_standard(file) else {"shadow": file}
    return {"module": captures.get("module", module), "distribution": distribution(module), **shadow}


def _frames(above: Sequence[str]) -> Iterator[_Frame]:
    """Yield the frames of the traceback, the last one first; build_meta executes setup.py as `<string>`."""
    line, source, is_setup = "", "", any("exec(code, locals())" in text for text in above)
    for below, text in pairwise(("", *above)):
        if match := _ARROW.match(text):
            line, source = match.groups()
        elif match := _FRAME.match(text):
            file = "setup.py" if is_setup and match["file"] == "<string>" else match["file"] or match["file2"]
            source = source or ("" if _FRAME.match(below) else below.strip())
            yield _Frame(file, match["line"] or match["line2"] or line, source)
            line, source = "", ""
        elif "Traceback (most recent" in text:
            return


def _read(frames: Iterable[_Frame], own: Sequence[_Frame], above: Sequence[str]) -> Iterator[tuple[str, str]]:
    files = [f'File "{frame.file}"' for frame in frames]
    if own:
        yield "at", f"{own[0].file}:{own[0].line}"
        yield "source", own[0].source
        yield "raised_in", distribution(own[0].package)
        yield "where", distribution(own[0].owner)
        caller = next((frame for frame in own if frame.owner != own[0].owner), own[0])
        yield "caller", distribution(caller.owner) if caller is not own[0] else ""
        yield "user_code", "" if caller.package else caller.file
    python = next(filter(None, map(_PYTHON.search, files)), None)
    yield "python", f"3.{python['minor'] or python['minor2']}" if python else ""
    yield "isolated", "yes" if any(map(_ISOLATED.search, files)) else ""
    if any(map(_SETUP.search, files)):
        yield "setup", "yes"
        named = next(filter(None, (*map(_UNPACKED.search, files), *map(_BUILDING.match, above))), None)
        yield "building", next(filter(None, named.groups()), "") if named else ""
