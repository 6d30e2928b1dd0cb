"""The blocks of README.md and docs/*.md that show what a command prints, made by running the command.

A block is indented by four columns, and each of its lines that begin with ``$`` is a command. It is run in a folder
that :func:`demo_folder` makes, as a fresh process, and what it prints stands below it. A comment before a block says
what else there is to it:

    <!-- output: first 4 lines -->       what follows is left out, as ``...``
    <!-- not run: REASON -->             it takes hardware, hours, or somebody else's server

A fenced block holds a file, in the language that its fence names, and never output.

A page with ``<!-- no block of this page is run: REASON -->`` is a record of something done by hand. What depends on the
machine (folders, Python, memory, names of build folders) is shown as on one that is the same for all blocks.

``python -m docs.blocks``, in ``tests``, writes the outputs into the pages; the test compares them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from fleet.sites import SiteRecipe
from places import REPOSITORY
from put import put
from toolkit.trees import small
from tree.small_trees import commit_all, git
from wheel_samples import Entry, Samples, WheelRecipe

PAGES = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "examples").glob("*/README.md")),
]

_INDENT = "    "
_PROMPT = f"{_INDENT}$ "
_COMMENT = re.compile(r"<!-- (?:(not run): (.+)|output: first (\d+) lines) -->")
_WHOLE_PAGE = re.compile(r"<!-- no block of this page is run: .+ -->")
_MAKE_TREE = REPOSITORY / "examples" / "minitorch" / "tools" / "make_generation.py"
_SHOWN_FOLDER = "/home/me"
# What a machine decides, and what is shown in its place.
_CANONICAL = (
    (re.compile(r"cp3\d+t?-cp3\d+t?"), "cp311-cp311"),
    (re.compile(r"Python 3\.\d+\.\d+\w*"), "Python 3.11.7"),
    (re.compile(r"-[0-9a-f]{12}\b"), "-1a2b3c4d5e6f"),
    (re.compile(r"commit [0-9a-f]{7}\b"), "commit 1a2b3c4"),
    (re.compile(r"^(?:cache  |  CCACHE_\w+ = ).*\n", re.M), ""),
    (
        re.compile(r"^jobs  .*(?:\n             .*)*", re.M),
        "jobs         16 (16 cores; each compiler waits until its part of 21.2 GiB of memory is free)",
    ),
    # Of a tree of PyTorch's size on that machine: the trees of these blocks are small.
    (
        re.compile(r"^time( +).*(?:\n             .*)*\n(rebuild.*)\n(disk +)up to [\d.]+ GiB", re.M),
        r"time\g<1>45 min to 3 h 45 min: 16 jobs, 26.2 MB of C and C++ and 2.8 MB of"
        "\n"
        "             CUDA for 1 architecture; a guess from PyTorch 2.6.0, measured\n"
        "             without CUDA in the profile minimal, and this build has more\n"
        "             components\n"
        r"\g<2>"
        "\n"
        r"\g<3>up to 10.5 GiB",
    ),
)


_FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block with commands.

    Attributes:
        page: the file that it stands in.
        start: index of its first line in the page's lines.
        lines: its lines, without indentation.
        not_run: why it is not run; empty if it is.
        first: how many lines of the output are shown; all if None.
    """

    page: Path
    start: int
    lines: tuple[str, ...]
    not_run: str
    first: int | None

    @property
    def name(self) -> str:
        """Where it stands, for people."""
        return f"{self.page.name}:{self.start + 1}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that hold commands, in order."""
    text = page.read_text(encoding="utf-8")
    recorded = _WHOLE_PAGE.search(text)
    lines = text.splitlines()
    index, comment, fenced = 0, "", False
    while index < len(lines):
        line = lines[index]
        if line.startswith("```"):
            fenced = not fenced
        if _COMMENT.fullmatch(line):
            comment = line
        elif line.strip() and not fenced:
            if line.startswith(_INDENT):
                end = index
                while end < len(lines) and (lines[end].startswith(_INDENT) or not lines[end].strip()):
                    end += 1
                while not lines[end - 1].strip():
                    end -= 1
                if any(one.startswith(_PROMPT) for one in lines[index:end]):
                    yield _block(page, index, lines[index:end], comment, recorded)
                index = end - 1
            comment = ""
        index += 1


def fenced(page: Path) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return ((match[1], match[2]) for match in _FENCE.finditer(page.read_text(encoding="utf-8")))


def command_lines(page: Path) -> Iterator[str]:
    """The lines of a page that call torchwheel, with their output or without."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(_INDENT) and line.strip().removeprefix("$ ").startswith("torchwheel "):
            yield line.strip().removeprefix("$ ").partition(" | ")[0]


def _block(page: Path, start: int, lines: list[str], comment: str, recorded: re.Match[str] | None) -> Block:
    match = _COMMENT.fullmatch(comment)
    not_run = "a record" if recorded else match[2] if match and match[1] else ""
    first = int(match[3]) if match and match[3] else None
    return Block(page, start, tuple(line[len(_INDENT) :] for line in lines), not_run, first)


@contextmanager
def demo_folder() -> Iterator[Path]:
    """A home folder with a tree of PyTorch's shape on its release tag, two CUDA toolkits, a wheel and a fleet's wheels.

    Its path is as long as the one that the pages show, because lines are wrapped, and needs no quotation marks.
    """
    tried = (Path("/tmp", "".join(letters)) for letters in product(ascii_lowercase, repeat=3))
    folder = next(one for one in tried if _is_made(one))
    assert len(str(folder)) == len(_SHOWN_FOLDER)
    try:
        yield _filled(folder.resolve())
    finally:
        shutil.rmtree(folder)


def _is_made(folder: Path) -> bool:
    """Make a folder, unless something is there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _filled(folder: Path) -> Path:
    subprocess.run([sys.executable, _MAKE_TREE, "scikit-build-core", folder / "pytorch"], check=True)
    commit_all(folder / "pytorch")
    git(folder / "pytorch", "tag", "v2.14.1")
    _complete(small(folder / "cuda-13.0", 13000), "13.0")
    _complete(small(folder / "cuda-12.4", 12040), "12.4")
    library = Samples().library(Entry(kind=2, number=120, payload=b"\x7fELF" + bytes(900_000)))
    # What `make demo` runs; for the CPU, so that it is the same on each machine.
    cache = {"TORCHWHEEL_CACHE_DIR": str(folder / ".cache" / "demo")}
    demo = [sys.executable, REPOSITORY / "examples" / "demo.py", folder / "demo", "cpu"]
    subprocess.run(demo, check=True, capture_output=True, env=os.environ | cache, timeout=900)
    (folder / "dist").mkdir()
    WheelRecipe(files={"torch/lib/libtorch_cuda.so": library}).write(folder / "dist")
    tag = "cp{0}{1}-cp{0}{1}-linux_x86_64".format(*sys.version_info)
    for label, code in (
        ("cu130.sm90", ["sm90"]),
        ("cu130.sm120", ["sm120"]),
        ("cu130.sm100f", ["sm100f"]),
        ("cpu", []),
    ):
        SiteRecipe(f"2.14.1+{label}", tag, code=code).write(folder / "wheels")
    return folder


def _complete(toolkit: Path, release: str) -> None:
    """Add to a toolkit all that a build asks of one; its nvcc only tells its release and takes every host compiler."""
    headers = (
        "cuda_runtime",
        "cuda_runtime_api",
        "cublas_v2",
        "cufft",
        "curand",
        "cusolverDn",
        "cusparse",
        "nvrtc",
        "cupti",
    )
    for name in (*(f"include/{header}.h" for header in headers), "lib64/libcudart.so"):
        put(toolkit / name)
    put(toolkit / "include/crt/host_config.h", "#if __GNUC__ > 99\n#endif\n")
    put(toolkit / "bin/nvcc", f"#!/bin/sh\necho release {release}, V{release}.131\n").chmod(0o755)


def shown(block: Block, folder: Path) -> tuple[str, ...]:
    """The lines that a block should have, by running its commands in the demo folder."""
    lines: list[str] = []
    for command in (line for line in block.lines if line.startswith("$ ")):
        output = canonical(_run(command.removeprefix("$ "), folder), folder).splitlines()
        if block.first is not None and len(output) > block.first:
            output = [*output[: block.first], "..."]
        lines += [command, *output]
    return tuple(lines)


def _run(command: str, folder: Path) -> str:
    """What a command prints, to a terminal of 100 columns without colours."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    uv = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + kept["PATH"])
    programs = (
        f'torchwheel() {{ "{sys.executable}" -m torchwheel.cli.main "$@"; }}; uv() {{ "{uv}" "$@"; }}; '
    )
    done = subprocess.run(
        ["sh", "-c", programs + command],
        cwd=folder,
        env={
            **kept,
            "COLUMNS": "100",
            "CUDA_HOME": str(folder / "cuda-13.0"),
            "HOME": str(folder),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON": sys.executable,
            "TORCHWHEEL_CACHE_DIR": str(folder / ".cache" / "torchwheel"),
            "TORCHWHEEL_CONFIG_DIR": str(folder / ".config" / "torchwheel"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.stdout


def canonical(text: str, folder: Path) -> str:
    """A text with what a machine decides replaced."""
    text = text.replace(str(folder), _SHOWN_FOLDER)
    for pattern, replacement in _CANONICAL:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main() -> None:
    """Write the outputs into the pages."""
    with demo_folder() as folder:
        for page in PAGES:
            lines = page.read_text(encoding="utf-8").splitlines()
            # They are run in order, because one makes what the next one shows.
            outputs = [(block, shown(block, folder)) for block in blocks(page) if not block.not_run]
            for block, output in reversed(outputs):
                new = [f"{_INDENT}{line}".rstrip() for line in output]
                lines[block.start : block.start + len(block.lines)] = new
            page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
