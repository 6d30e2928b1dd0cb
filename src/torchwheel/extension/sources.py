"""The source files of extensions: their languages, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePath

from torchwheel.errors import Problem
from torchwheel.extension.model import Extension, Language

LANGUAGES = {
    ".c": Language.C,
    ".cc": Language.CXX,
    ".cpp": Language.CXX,
    ".cxx": Language.CXX,
    ".c++": Language.CXX,
    ".cu": Language.CUDA,
}

_REFUSED = {
    ".pyx": "cythonize it first (cython --cplus), and name the .cpp file that comes out",
    ".hip": "name the CUDA source that it was made from; HIP sources are not compiled",
    ".sycl": "leave it out; SYCL sources are not compiled",
    ".mm": "leave it out; Objective-C++ sources are not compiled",
}


def language_of(source: str) -> Language | None:
    """The language of a source file by its suffix; None for no language that is compiled here."""
    path = PurePath(source)
    return Language.CXX if path.suffix == ".C" else LANGUAGES.get(path.suffix.lower())


def has_cuda_sources(extension: Extension) -> bool:
    """Whether any of its sources is CUDA."""
    return any(language_of(source) is Language.CUDA for source in extension.sources)


def uses_cuda(extension: Extension) -> bool:
    """Whether CUDA's headers and libraries belong to it."""
    return has_cuda_sources(extension) if extension.cuda is None else extension.cuda


def source_problems(extension: Extension, project: Path, missing: Collection[str]) -> Iterator[Problem]:
    """What is wrong with an extension's list of sources.

    Args:
        extension: the extension.
        project: the folder that they are relative to.
        missing: those that do not exist.
    """
    if not extension.sources:
        yield Problem(
            id="no-sources",
            what=f"extension {extension.name} has no sources",
            remedy='name them: sources = ["csrc/*.cpp", "csrc/*.cu"]',
            origin=extension.origin,
        )
    for source in extension.sources:
        if language_of(source) is None:
            suffix = PurePath(source).suffix
            yield Problem(
                id="unknown-source-language",
                what=f"{source} of extension {extension.name} is no source file: nothing compiles {suffix or 'it'}",
                why=f"compiled are {', '.join(LANGUAGES)}",
                remedy=_REFUSED.get(suffix, "leave it out of the sources; headers are found by themselves"),
                origin=extension.origin,
            )
        elif source in missing:
            yield Problem(
                id="source-missing",
                what=f"the source {source} of extension {extension.name} does not exist",
                why=f"looked for {project / source}",
                remedy=_nearest(source, project),
                origin=extension.origin,
            )


def _nearest(source: str, project: Path) -> str:
    wanted = PurePath(source)
    folder = project / wanted.parent
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    close = get_close_matches(wanted.name, there, n=1, cutoff=0.7)
    if close:
        return f"did you mean {(wanted.parent / close[0]).as_posix()}?"
    return "check the path, which is relative to the project's folder, and that an sdist holds the file"
