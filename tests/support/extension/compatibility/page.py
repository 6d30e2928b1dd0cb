"""docs/compatibility.md, made of projects.toml."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from extension.compatibility.forms import setup_py_forms
from extension.compatibility.projects import NotBuilt, Project, measured, not_built, projects
from extension.compatibility.recorded_builds import Sdist, sdists

_HEAD = """\
# Projects that build with only the import changed

Sdists from PyPI of public projects that use `torch.utils.cpp_extension`, built for a GeForce RTX 5070 (sm_120) on a
machine without a GPU: the import in setup.py is changed, then

    TORCHWHEEL_TARGET=rtx5070 pip wheel . --no-build-isolation --no-deps

`tests/integration/extension/compatibility` does that again: it downloads each sdist, checks its hash, changes the
lines below, builds the wheel, proves the machine code of every module, loads all modules and uses them on the CPU as
far as they can be. It takes PyTorch with CUDA, a C++ compiler and {hours}:

    TEST_TORCHWHEEL_COMPATIBILITY=all make extensions PYTEST_ARGS=tests/integration/extension/compatibility

`TEST_TORCHWHEEL_COMPATIBILITY=torchsort,chamferdist` tries some. This page is made from its projects.toml:
`PYTHONPATH=tests/support python -m extension.compatibility.page > docs/compatibility.md`.

## Built

Measured on {date} with PyTorch {torch}, {toolkit} and
Python {python}, on {machine}. So the seconds that passed say
little; the processors' own are those of the compilers and of everything else that `pip wheel` starts.

"""
_BUILT = (
    "Project",
    "What is changed",
    "Variables of its own",
    "Modules and their device code",
    "Seconds",
    "Processors' seconds",
)
_COMMANDS_HEAD = """
## The same commands

What PyTorch's own BuildExtension runs to build an unchanged sdist, beside what torchwheel runs where only the import is
changed: `tests/integration/extension/compatibility/test_commands_real.py` records both with compilers that make empty
objects, for the variable `TORCH_CUDA_ARCH_LIST=12.0` and PyTorch 2.14.1 (CUDA 13.0), on 2026-11-27. It compares macros,
folders of headers in their order, standard, optimization, architectures, libraries, the objects of each module in their
order, and all other words. What differs is what [Extensions](extensions.md#differences) says, and nothing else:
PyTorch's own file makes them.

The first thirty sdists are those above; {built} of them make the same objects. {forms} generated setup.py files are
compared in the same way: every owner of flags in every place, and every class of extension with every command.

"""
_OBJECTS_HEAD = """
## The same objects

Compiled for real by PyTorch's own BuildExtension and by torchwheel, only the import changed, for 9.0 and 12.0, on
2026-11-28 with PyTorch 2.14.1, CUDA 13.0.88 and GCC 12.2. Machine code for GPU and host, PTX and symbols are equal.
`test_objects_of_a_public_sdist` in the same file does that again.

"""
_OBJECTS = ("Sdist", "Objects", "Sections of machine code")
_COMMANDS = ("Sdist", "Modules", "Objects", "What comes of it")
_AFTER_NAMES = """
## Not built

These were tried too. What stops them is in the sdist, and stops PyTorch's own BuildExtension as well.

"""
_SPECIAL = re.compile(r"([\\|\[\]<*_`])")


def page() -> str:
    """The whole page."""
    facts = measured()
    minutes = sum(project.seconds for project in projects().values()) // 60 + 1
    head = _HEAD.format(
        hours=f"about {minutes} minutes",
        date=facts.date,
        torch=facts.torch,
        toolkit=facts.toolkit,
        python=facts.python,
        machine=facts.machine,
    )
    built = _markdown(_BUILT, (_built(project) for project in projects().values()))
    others = _markdown(("Project", "Why"), (_not_built(project) for project in not_built()))
    first = list(sdists().values())[:30]
    commands = _COMMANDS_HEAD.format(built=sum(one.modules > 0 for one in first), forms=len(setup_py_forms()))
    objects = _markdown(_OBJECTS, (_compared(one) for one in sdists().values() if one.kernels is not None))
    recorded = _markdown(_COMMANDS, map(_recorded, sdists().values()))
    return "".join(
        [head, *built, *_notes(), commands, *recorded, _OBJECTS_HEAD, *objects, _AFTER_NAMES, *others]
    )


def _markdown(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (columns, ("---",) * len(columns), *rows):
        yield f"| {' | '.join(row)} |\n"


def _built(project: Project) -> tuple[str, ...]:
    edits = [
        f"`{edit.before.strip()}` → `{edit.after.strip()}`"
        + (f" ({edit.times} times)" if edit.times > 1 else "")
        for edit in project.edits
    ]
    modules = [f"`{name}`: {', '.join(labels) or 'none'}" for name, labels in project.modules.items()]
    return (
        f"[{_plain(project.name)} {project.version}]({project.home})",
        "<br>".join(edits),
        "<br>".join(f"`{name}={value}`" for name, value in project.environment.items()) or "none",
        "<br>".join(modules),
        str(project.seconds),
        "not measured" if project.cpu_seconds is None else str(project.cpu_seconds),
    )


def _notes() -> Iterator[str]:
    for project in projects().values():
        if project.note:
            yield f"\n{_plain(project.name)}: {project.note}\n"
    for project in projects().values():
        if project.paired is not None:
            ours, theirs = project.paired
            yield (
                f"\n{_plain(project.name)}, without a compiler cache: {ours} s of processor time. Right after it the\n"
                f"unchanged sdist with PyTorch's own BuildExtension, the same toolkit and architecture: {theirs} s.\n"
            )


def _compared(sdist: Sdist) -> tuple[str, ...]:
    return (f"{_plain(sdist.name)} {sdist.version}", str(sdist.objects), str(sdist.kernels))


def _recorded(sdist: Sdist) -> tuple[str, ...]:
    outcome = f"neither builds: {sdist.stops}" if sdist.stops else sdist.none or "the same commands"
    if sdist.stops and "torchwheel builds it" in sdist.stops:
        outcome = f"neither builds for that variable: {sdist.stops}"
    if sdist.gpu:
        outcome += ", with a PyTorch that says that there is a GPU"
    counts = (str(sdist.modules), str(sdist.objects)) if sdist.modules else ("", "")
    return (f"{_plain(sdist.name)} {sdist.version}", *counts, outcome)


def _not_built(project: NotBuilt) -> tuple[str, ...]:
    return (f"[{_plain(project.name)} {project.version}]({project.home})", project.reason)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


if __name__ == "__main__":
    sys.stdout.write(page())
