"""The compile steps of one extension, read from the ninja file that PyTorch's own cpp_extension writes for it.

Source: torch/utils/cpp_extension.py, from 2.6.0 (_write_ninja_file, _run_ninja_build) to 2.15.0
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from torchwheel.extension.compile.units import unity_groups, unity_text
from torchwheel.extension.device_code import ARCHITECTURE_OPTIONS, shared_front_end
from torchwheel.extension.extension_plan import (
    COMPILING,
    ExtensionPlan,
    Language,
    PlannedExtension,
    Step,
    StepKind,
    language_of,
)
from torchwheel.extension.sources import separate_architectures
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import command_words, program_words
from torchwheel.host.ninja import find_ninja, read_commands
from torchwheel.reproducible import nvcc_naming
from torchwheel.system.files import write_if_changed
from torchwheel.system.toml import shipped_toml

_OWN_FLAGS = Path(__file__).with_name("compile_flags.toml")
_OBJECTS, _UNITY = "objects", "unity"
# Since 2.14 torch adds ccache, which torchwheel does itself; nvcc's path it does not quote.
_WRAPPER, _NVCC = "_wrap_compiler", "PYTORCH_NVCC"
_QUOTED = re.compile(r"'[^']*'|\\.")
_SHELL_SYNTAX = re.compile(r"[`$;&|<>*?~()]")
_DEBUG = "-g"
_NVCC_THREADS = 4
_PYTHON_HEADERS = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"))
_ENVIRONMENT_HEADERS = str(Path(sys.exec_prefix, "include"))


@cache
def own_flags(compiler: str) -> dict[str, dict[str, list[str]]]:
    """The flags that torchwheel adds to PyTorch's own for ``gnu`` or ``nvcc``."""
    table: dict[str, dict[str, list[str]]] = shipped_toml(_OWN_FLAGS)[compiler]
    return table


@dataclass
class TorchSteps:
    """Stands in for torch's functions that write and run a ninja file, while it builds one extension.

    Attributes:
        folder: the folder where its commands run.
        place: the folder of its outputs in that, with a slash; empty for itself.
        flags: those of its commands for C++, without file names.
        unity: a file that includes sources -> the sources.
        texts: such a file -> its text.
    """

    plan: ExtensionPlan
    planned: PlannedExtension
    folder: Path
    run: Callable[[Sequence[Step]], None]
    place: str = ""
    unity: dict[str, tuple[str, ...]] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    _sources: dict[str, str] = field(default_factory=dict)
    """Object -> source."""
    _plain: dict[str, str] = field(default_factory=dict)
    """An object's name in the ninja file -> object."""

    def join_sources(self, sources: Sequence[str]) -> list[str]:
        """Join sources to files that include them; returns the files to compile."""
        kinds: dict[str, object] = {
            one: (language, separate_architectures(self.planned.extension, one))
            for one in sources
            if (language := language_of(one)) is not None
        }
        files = [one for one in sources if one not in kinds]
        folder = f"{self.place}{_UNITY}"
        for group in unity_groups(kinds):
            if len(group) == 1:
                files += group
                continue
            suffix = ".cu" if language_of(group[0]) is Language.CUDA else ".cpp"
            file = self.folder / folder / f"unity-{len(self.unity)}{suffix}"
            self.texts[file] = unity_text(map(self.plan.layout.spell, group), folder)
            self.unity[str(file)] = group
        return [*files, *self.unity]

    def write_files(self) -> None:
        for file, text in self.texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_if_changed(file, text)

    @contextmanager
    def replacing(self, names: dict[str, Any]) -> Iterator[None]:
        own: dict[str, Any] = {
            "_write_ninja_file": self._writer(names["_write_ninja_file"]),
            "_run_ninja_build": self._run_ninja,
            _WRAPPER: self._compiler_words,
        }
        with set_variables(self._variables()), replaced(names, own):
            yield

    def _variables(self) -> dict[str, str]:
        toolkit = self.plan.inputs.toolkit
        found = {}
        if toolkit is not None and toolkit.nvcc is not None and _NVCC not in os.environ:
            found[_NVCC] = shlex.quote(toolkit.nvcc) if os.name == "posix" else f'"{toolkit.nvcc}"'
        if self.planned.usual is not None:
            found["TORCH_CUDA_ARCH_LIST"] = str(self.planned.usual)
        host = self.plan.inputs.cuda_host or self.plan.inputs.cxx
        if host is not None and not self.planned.extension.by_setup_py:
            found["CC"] = host.path
        elif cc := os.environ.get("CC"):
            # Setuptools splits it, and has by now; torch gives it to nvcc as one word.
            words = self._compiler_words(cc)
            found["CC"] = words[0] if len(words) == 1 else cc
        return found

    def _compiler_words(self, compiler: str | list[str]) -> list[str]:
        """The words of a compiler; torch takes a text for one word, and puts ccache in front of it."""
        if not isinstance(compiler, str):
            return compiler
        return program_words(compiler, os.environ.get("PATH"), self.plan.project.host.system)

    def _writer(self, write: Callable[..., None]) -> Callable[..., None]:
        # Torch passes all by name, and a project's function in its place may name none of them.
        def write_ninja_file(**values: Any) -> None:
            objects = values["objects"]
            # Torch names objects by a source's stem, and does not quote them for its device link.
            folder = f"{self.place}{_OBJECTS}"
            names = [f"{folder}/{self._object_name(source)}.o" for source in values["sources"]]
            plain = {f"{number}.o": name for number, name in enumerate(names)}
            self._sources = dict(zip(names, values["sources"], strict=True))
            values["objects"] = written = list(plain)
            values["cflags"] = self._without_debug(values["cflags"])
            if values.get("cuda_cflags"):
                values["cuda_cflags"] = [*values["cuda_cflags"], *self._build_type("nvcc")]
            # The first also say that a file is compiled.
            first = [word for word in self._split(" ".join(values["cflags"])) if word not in ("-c", "/c")]
            self.flags = (*first, *self._split(" ".join(values["post_cflags"] or ())), *self._maps)
            write(**values)
            self._plain = plain | {name: f"{folder}/{name}" for name in written[len(names) :]}
            # The caller links these.
            objects[:] = [str(self.folder / self._plain[name]) for name in written]

        return write_ninja_file

    def _build_type(self, compiler: str) -> tuple[str, ...]:
        return tuple(own_flags(compiler)["build-type"][self.plan.project.settings.build_type])

    def _without_debug(self, flags: Sequence[str] | None) -> list[str]:
        """Leave out the ``-g`` of Python's own flags, and add the build type's."""
        own = self._build_type("gnu")
        words = list(flags or ())
        if _DEBUG not in own:
            for _ in range(str(sysconfig.get_config_var("CFLAGS")).split().count(_DEBUG)):
                if _DEBUG in words:
                    words.remove(_DEBUG)
        return [*words, *own]

    def _run_ninja(self, build_directory: str, *_: Any, **__: Any) -> None:
        ninja = find_ninja(self.plan.project.environment)
        assert ninja is not None
        entries = read_commands(ninja, Path(build_directory))
        self.run([self._step(entry["output"], entry["command"]) for entry in entries])

    def _step(self, name: str, command: str) -> Step:
        output = self._plain[name]
        source = self._sources.get(output, "")
        words = self._words(command)
        if not source:
            linked = tuple(self._plain.get(word, word) for word in words)
            wanted = self.planned.architectures
            others = tuple(word for word in linked if not word.startswith(ARCHITECTURE_OPTIONS))
            # PyTorch names none where any flag has the text `arch`, such as a folder.
            if wanted is not None and (wanted != self.planned.usual or others == linked):
                linked = (*others, *wanted.for_nvcc())
            objects, spelled = tuple(self._sources), self.spelled(linked)
            return Step(StepKind.DEVICE_LINK, objects, output, spelled, architectures=wanted)
        kind = COMPILING[language_of(source) or Language.CXX]
        own = {
            f"{option}{name}{end}": f"{option}{output}{end}" for option in ("", "/Fo") for end in ("", ".d")
        }
        named: tuple[str, ...] = tuple(own.get(word, word) for word in words)
        architectures = None
        if kind is StepKind.COMPILE_CUDA:
            # All sources that a unity file includes have the same.
            relative = os.path.relpath(self.unity.get(source, (source,))[0], self.plan.project.folder)
            architectures = separate_architectures(self.planned.extension, relative) or self.planned.usual
            named = self._cuda_words(named, source, architectures)
        elif self._maps and kind is StepKind.COMPILE_CXX:
            named += tuple(self._maps)
        inputs = (str(Path(source).absolute()), *self.planned.extension.depends)
        return Step(
            kind=kind,
            inputs=tuple(map(self._spell, inputs)),
            output=output,
            command=self.spelled(named),
            depfile=f"{output}.d" if f"{output}.d" in named else None,
            architectures=architectures,
            sources=self._sources_of(source),
        )

    def _words(self, command: str) -> tuple[str, ...]:
        if not self.plan.host_is_windows and _SHELL_SYNTAX.search(_QUOTED.sub("", command)):
            # Only a shell understands it.
            return ("sh", "-c", command)
        return self._split(command)

    def _split(self, command: str) -> tuple[str, ...]:
        return tuple(command_words(command, "Windows") if self.plan.host_is_windows else shlex.split(command))

    def _object_name(self, source: str) -> str:
        """Name a source's object by its path: folders may contain files of one name."""
        base = self.folder / self.place if source in self.unity else self.plan.project.folder
        relative = os.path.relpath(source, base)
        # Objects of sources outside of the project stay inside the folder.
        parts = [part.replace("..", "up").replace(":", "") for part in Path(relative).as_posix().split("/")]
        return "/".join(filter(None, parts))

    def _cuda_words(
        self, words: tuple[str, ...], source: str, architectures: ArchitectureList | None
    ) -> tuple[str, ...]:
        """Add torchwheel's own options, and replace the architectures where the extension says so."""
        extension = self.planned.extension
        images = [word for word in words if word.startswith(ARCHITECTURE_OPTIONS)]
        if architectures and (architectures != self.planned.usual or extension.front_end == "shared"):
            shared = extension.front_end == "shared" and not self.planned.options
            own = shared_front_end(architectures) if shared else architectures.for_nvcc()
            words = (*(word for word in words if word not in images), *own)
            images = list(own)
        if not self.plan.host_is_windows:
            # Without system headers: a new environment has the same ones with newer files.
            words = tuple("-MMD" if word == "-MD" else word for word in words)
        replaceable = own_flags("nvcc")["compile"].items()
        added = [flag for flag, others in replaceable if not _has_start(words, tuple(others))]
        # With few files to use the cores; `jobs` does not matter, so that other jobs recompile nothing.
        files = sum(len(one.sources) for one in self.plan.inputs.extensions)
        count = min(_NVCC_THREADS // max(1, files), len(images))
        if count > 1 and "-t" not in words and not _has_start(words, ("--threads", "-t=")):
            added.append(f"--threads={count}")
        added += [f"-Xcompiler={one}" for one in self._maps]
        toolkit = self.plan.inputs.toolkit
        naming = nvcc_naming(toolkit.version) if toolkit and self._maps else None
        if naming is not None:
            added += naming.options_for(f"/{extension.name}/{self._object_name(source)}")
        return (*words, *added)

    @property
    def _maps(self) -> list[str]:
        """The options by which a reproducible module does not depend on the project's place."""
        if not self.plan.project.reproducible or self.plan.host_is_windows:
            return []
        return [f"-ffile-prefix-map={link}=/{PurePosixPath(link).name}" for link in self.plan.layout.links]

    def _spell(self, path: str) -> str:
        inside = os.path.relpath(path, self.folder) if Path(path).is_absolute() else ""
        return inside if inside and not inside.startswith("..") else self.plan.layout.spell(path)

    def spelled(self, words: Sequence[str]) -> tuple[str, ...]:
        """Spell the paths in a command by the links in the extension's folder."""
        torch, toolkit = self.plan.inputs.torch, self.plan.inputs.toolkit
        # Their headers are the same in a new environment with newer files.
        system = [str(torch.root), *_PYTHON_HEADERS, _ENVIRONMENT_HEADERS]
        system += [toolkit.root] if toolkit else []
        return tuple(_spelled_words(words, self._spell, system))

    def _sources_of(self, source: str) -> tuple[str, ...]:
        folder, own = self.plan.project.folder, self.unity.get(source, (source,))
        files = {one: os.path.relpath(one, folder) for one in own}
        return tuple(one if way.startswith("..") else Path(way).as_posix() for one, way in files.items())


@contextmanager
def set_variables(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def replaced(names: dict[str, Any], own: Mapping[str, Any]) -> Iterator[None]:
    """Replace values among the names of a module, as far as it has them."""
    before = {name: names[name] for name in own if name in names}
    names.update({name: own[name] for name in before})
    try:
        yield
    finally:
        names.update(before)


def _spelled_words(words: Sequence[str], spell: Callable[[str], str], system: Sequence[str]) -> Iterator[str]:
    """Spell the paths in a command through links.

    Args:
        system: folders of headers that are named as system folders, if no other folder follows them: these are searched
            last. Then their headers give no warnings, and are not recorded.
    """
    folders = [word[2:] for word in words if word.startswith("-I")]
    at_end = len(folders)
    # CPATH's folders would be searched before system folders.
    while at_end and not os.environ.get("CPATH") and _is_below(folders[at_end - 1], system):
        at_end -= 1
    seen = 0
    for word in words:
        if word == f"-I{_ENVIRONMENT_HEADERS}" and not _has_files(_ENVIRONMENT_HEADERS):
            # A new environment has another one, and would be another command.
            continue
        if word.startswith("-I") and len(word) > 2:
            folder, seen = spell(word[2:]), seen + 1
            # GCC's own #include_next needs its order: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=70129
            is_system = seen > at_end and folder != "/usr/include"
            yield from ("-isystem", folder) if is_system else (f"-I{folder}",)
        elif word.startswith("-L") and len(word) > 2:
            yield f"-L{spell(word[2:])}"
        else:
            yield spell(word) if Path(word).is_absolute() else word


def _is_below(folder: str, roots: Sequence[str]) -> bool:
    return any(folder == root or folder.startswith(root + os.sep) for root in roots)


@cache
def _has_files(folder: str) -> bool:
    return any(files for _, _, files in os.walk(folder))


def _has_start(words: Sequence[str], starts: tuple[str, ...]) -> bool:
    return any(word.startswith(starts) for word in words)
