"""What inputs cost that strangers made to cost much: processor time and memory of each of their readers.

python benchmarks/hostile.py [--bytes N] [NAME...]

Each command runs in a process of its own, once on the input and once on one of the same kind with next to nothing in
it; the figures are the differences. On a busy machine the processor's seconds grow as well, so they are divided by what
a fixed piece of work took just before, and shown for a machine on which that takes ``USUAL`` seconds.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import torchwheel.cli.main
from torchwheel.diagnosis.grammar import catalogue_forms, form_needles, read_forms

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from extension.torch_trees import CUDA_LIBRARIES, TorchTree

USUAL = 0.11
SITE = "site"
"""A folder that modules are looked for in."""
LONGEST = 30
"""Seconds of the processor after which a command is ended."""
TREE = Path(__file__).parents[1] / "examples" / "minitorch"

Case = Callable[[Path, int], list[str]]
CASES: dict[str, Case] = {}


def filled(text: str, size: int) -> str:
    """A text many times, its ``{n}`` counted."""
    pieces, written, number = [], 0, 0
    while True:
        piece = text.replace("{n}", str(number))
        written += len(piece.encode())
        if written > size:
            return "".join(pieces)
        pieces.append(piece)
        number += 1


def of_log(name: str, text: Callable[[], str | bytes]) -> None:
    def made(folder: Path, size: int) -> list[str]:
        line = text()
        data = line if isinstance(line, bytes) else line.encode()
        (folder / "log").write_bytes(data * max(1, size // len(data)))
        return ["diagnose", str(folder / "log")]

    CASES[f"log: {name}"] = made


def literals() -> list[str]:
    return [*form_needles(), *(form.needle for form in catalogue_forms())]


def examples() -> list[str]:
    return [form.example for form in read_forms()]


of_log("short lines", lambda: "a b\n")
of_log("returns", lambda: "\r")
of_log("error:", lambda: "error: \n")
of_log("nearly errors", lambda: "x: error y\n")
of_log("é: error: »x«", lambda: "é: error: »x«\n")
of_log("«error»", lambda: "« error »\n")
of_log("エラー", lambda: "エラー:\n")
of_log("ошибка", lambda: "a: ошибка: y\n")
of_log("fel", lambda: "fel: x\n")
of_log("-l", lambda: " -l\n")
of_log("not found", lambda: "sh: 1: not found\n")
of_log("returns of errors", lambda: "\rerror: x")
of_log("guillemets", lambda: "«" * 900 + " error\n")
of_log("word", lambda: "a" * 1960 + ": unbound variablx error\n")
of_log("digits", lambda: "sh: " + "1" * 1900 + " not found error\n")
of_log("escaped", lambda: "RuntimeError: b'" + "foo error: bar\\n" * 20 + "\n")
of_log("every literal", lambda: " ".join(literals())[:2000] + "\n")
of_log("each literal", lambda: "\n".join(literals()) + "\n")
of_log("each example", lambda: "\n".join(examples()) + "\n")
of_log("each example, accented", lambda: "\n".join("é " + one for one in examples()) + "\n")
of_log("each literal, accented", lambda: "\n".join("é: " + one for one in literals()) + "\n")
of_log("one line", lambda: "error: ")
of_log("one accented line", lambda: "é: error: ")
of_log("escapes", lambda: "\x1b[31merror: \x1b[0m\n")
of_log(
    "no context",
    lambda: "".join((form.needle + "\n") * 20 for form in catalogue_forms() if form.context),
)
of_log("utf-16", lambda: "é: error: »x«\n".encode("utf-16-le"))
of_log("success", lambda: "Successfully built a\nerror: x\nFailed to build b\n")
of_log("CMake Error", lambda: "CMake Error at a:1 (b):\n  c\n\n")
of_log("make", lambda: "make: *** [a] Error 1\n")


def of_setting_host(name: str, begin: str, item: str, end: str = "") -> None:
    def made(folder: Path, size: int) -> list[str]:
        (folder / "host.toml").write_text(begin + filled(item, size - len(begin)) + end, encoding="utf-8")
        return ["doctor", str(TREE), "--target", "cpu", "--host", str(folder / "host.toml")]

    CASES[f"host: {name}"] = made


MACHINE = 'platform="linux_x86_64"\n'
of_setting_host("keys", MACHINE, "k{n}=1\n")
of_setting_host("compilers", MACHINE, '[[compilers]]\npath="a{n}"\n')
of_setting_host("bad compilers", MACHINE, "[[compilers]]\na=1\n")
of_setting_host("toolkits", MACHINE, '[[toolkits]]\nroot="a{n}"\nversion="13.0"\n')
of_setting_host("bad toolkits", MACHINE, "[[toolkits]]\n")
of_setting_host("gpus", MACHINE, '[[gpus]]\nname="a"\ncompute-capability="1.0"\n')
of_setting_host("packages", MACHINE + "[packages]\n", 'a{n}="1"\n')
of_setting_host("environment", MACHINE + "[environment]\n", 'A{n}="1"\n')
of_setting_host("USE_", MACHINE + "[environment]\n", 'USE_{n}="1"\n')
of_setting_host("platform", 'platform="', "a", '"\n')
of_setting_host("version", MACHINE + '[[toolkits]]\nroot="a"\nversion="', "1.", '1"\n')


def of_tree(name: str, file: str, begin: str, item: str, end: str = "", *command: str) -> None:
    def made(folder: Path, size: int) -> list[str]:
        tree = folder / "tree"
        shutil.copytree(TREE, tree)
        (tree / file).parent.mkdir(exist_ok=True, parents=True)
        before = (tree / file).read_text() if (tree / file).exists() and begin.startswith("+") else ""
        (tree / file).write_text(
            before + begin.removeprefix("+") + filled(item, size) + end, encoding="utf-8"
        )
        return [*command, str(tree)] if command else ["plan", str(tree), "--target", "cpu"]

    CASES[f"tree: {name}"] = made


SDIST = ".torchwheel-sdist.json"
of_tree("sdist record", SDIST, '{"version":"1","settings":{', '"define.USE_{n}":"1",', '"a":"1"}}')
of_tree("nested sdist record", SDIST, "", "[", "")
of_tree("source facts", ".torchwheel-source.json", '{"commit":"', "a", '"}')
of_tree("nested source facts", ".torchwheel-source.json", "", "[", "")


def of_members(name: str, members: Callable[[int], dict[str, bytes]]) -> None:
    def made(folder: Path, size: int) -> list[str]:
        info = "torch-2.14.1.dist-info"
        path = folder / "torch-2.14.1-cp311-cp311-linux_x86_64.whl"
        honest = {
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n",
            f"{info}/RECORD": b"",
        }
        with ZipFile(path, "w", 8) as archive:
            named = {member.replace("INFO", info): data for member, data in members(size).items()}
            for member, data in {**honest, **named}.items():
                archive.writestr(member, data)
        assert path.stat().st_size < 1.2 * max(size, 10_000), path.stat().st_size
        return ["inspect", str(path)]

    CASES[f"wheel: {name}"] = made


def elf(sections: dict[str, bytes]) -> bytes:
    names, offsets = b"\0", []
    for section in [*sections, ".shstrtab"]:
        offsets.append(len(names))
        names += section.encode() + b"\0"
    blobs = [*sections.values(), names]
    at, table = 64, [bytes(64)]
    for number, blob in enumerate(blobs):
        table.append(
            struct.pack(
                "<IIQQQQIIQQ",
                offsets[number],
                3 if number == len(blobs) - 1 else 1,
                0,
                0,
                at,
                len(blob),
                0,
                0,
                0,
                0,
            )
        )
        at += len(blob)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        3,
        62,
        1,
        0,
        0,
        at,
        0,
        64,
        0,
        0,
        64,
        len(table),
        len(blobs),
    )
    return head + b"".join(blobs) + b"".join(table)


FAT = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
of_members("version.py", lambda size: {"torch/version.py": b"a=1\n" * (min(size, 65_000) // 4)})
of_members("fields", lambda size: {"INFO/METADATA": b"a:\n" * min(size, 19_000)})
of_members(
    "names", lambda size: {"INFO/METADATA": b"".join(b"a%d:b\n" % n for n in range(min(size, 19_000)))}
)
of_members("description", lambda size: {"INFO/METADATA": b"\n" * min(size, 1_000_000)})
of_members(
    "manifest",
    lambda size: {"INFO/torchwheel.json": b'{"schema":1,"a":[' + b"[]," * min(size, 1_300_000) + b"[]]}"},
)
of_members("members", lambda size: {f"torch/{n}": b"" for n in range(size // 130)})
of_members("libraries", lambda size: {f"torch/{n}.so": elf({".nv_fatbin": FAT}) for n in range(size // 400)})
of_members("empty fat binaries", lambda size: {"torch/a.so": elf({".nv_fatbin": FAT * min(size, 90_000)})})
of_members("zeros", lambda size: {"torch/a.so": elf({".nv_fatbin": bytes(min(60 * size, 60 << 20))})})


def of_cache(name: str, file: str, begin: str, item: str, end: str, *command: str) -> None:
    def made(folder: Path, size: int) -> list[str]:
        place = folder / "cache" / file
        place.parent.mkdir(parents=True)
        place.write_text(begin + filled(item, size - len(begin)) + end, encoding="utf-8")
        os.environ["TORCHWHEEL_CACHE_DIR"] = str(folder / "cache")
        return [word.replace("FOLDER", str(folder)) for word in command]

    CASES[name] = made


BUILD = (
    '{"shape":1,"build":{"name":"a","tree":"a","source":"a","folder":"/","log":"a","jobs":1},'
    '"state":"done","started":0,"updated":1,"running":[],"samples":[],"owner":[1,1,"a"],"steps":['
)
STEP = '{"output":"a{n}.o","source":null,"start":{n},"end":1{n}},'
LANE = '{"output":"a{n}.o","source":null,"start":1,"end":9{n}},'
LAST = '{"output":"a","source":null,"start":0,"end":1}]}'
of_cache("record: status", "builds/a/record.json", BUILD, STEP, LAST, "status")
of_cache("record: report", "builds/a/record.json", BUILD, STEP, LAST, "report", "-o", "FOLDER/page.html")
of_cache("record: lanes", "builds/a/record.json", BUILD, LANE, LAST, "report", "-o", "FOLDER/page.html")
of_cache("record: report --json", "builds/a/record.json", BUILD, STEP, LAST, "report", "--json")
of_cache("record: nested", "builds/a/record.json", "", "[", "", "status")
of_cache("last-build.txt", "last-build.txt", "", "a/", "", "status")


SHARED = ("{", '"a{n}":"b",', '"a":1}')
of_cache("cache: last build", "builds/a/used-for.txt", "", "a/", "", "cache", "list")
of_cache("cache: holder", "builds/a.lock.holder", *SHARED, "cache", "prune")
of_cache("cache: ready", "environments/a/torchwheel-ready.json", "", "[", "", "cache", "list")


def of_torch(name: str, file: str, begin: str, item: str, end: str = "") -> None:
    """What a build of extensions reads of an installed PyTorch."""

    def made(folder: Path, size: int) -> list[str]:
        (folder / "a.cu").touch()
        site = folder / SITE
        TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES).write(site / "torch")
        info = site / "torch-2.14.1+cu130.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1+cu130\n")
        (info / "RECORD").touch()
        text = begin + filled(item, size - len(begin)) + end
        (site / file.replace("INFO", info.name)).write_text(text, encoding="utf-8")
        build = (
            '[project]\nname="a"\nversion="1"\n[build-system]\nrequires=["torch"]\n'
            'build-backend="torchwheel.extension.backend"\n'
            '[[tool.torchwheel.extension]]\nname="a"\nsources=["a.cu"]\n'
        )
        (folder / "pyproject.toml").write_text(build, encoding="utf-8")
        return ["extension", "plan", str(folder)]

    CASES[f"torch: {name}"] = made


VERSION = "__version__ = '2.14.1+cu130'\ncuda = '13.0'\n"
CONFIG = "torch/share/cmake/Torch/TorchConfig.cmake"
of_torch("version.py", "torch/version.py", VERSION, "a{n}=1\n")
of_torch("version.py, one line", "torch/version.py", VERSION + "a=", "[")
of_torch("TorchConfig.cmake", CONFIG, "", "CXX_STANDARD {n} ")
of_torch("TorchConfig.cmake, blanks", CONFIG, "CXX_STANDARD", " ")
of_torch("TorchConfig.cmake, digits", CONFIG, "CXX_STANDARD ", "1")
of_torch("TorchConfig.cmake, ABI", CONFIG, "", "_GLIBCXX_USE_CXX11_ABI=")
of_torch("ATen.h", "torch/include/ATen/ATen.h", "", "#if __cplusplus < 2017{n} ")
of_torch("ATen.h, blanks", "torch/include/ATen/ATen.h", "__cplusplus", " ")
of_torch("libraries", "torch/lib/libc10.so", "\x7fELF\x02\x01\x01", "a")
of_torch(
    "METADATA",
    "INFO/METADATA",
    "Metadata-Version: 2.1\nName: torch\n",
    "A{n}: b\n",
    "Version: 2.14.1+cu130\n",
)
of_torch("direct_url.json", "INFO/direct_url.json", "", "[")
of_torch("direct_url.json, keys", "INFO/direct_url.json", *SHARED)
IMAGE = '{"kind":"sass","relocatable":false,"label":"sm120","count":{n}},'
of_torch(
    "torchwheel.json",
    "INFO/torchwheel.json",
    '{"machine_code":[{"library":"torch/lib/libtorch_cuda.so","images":[',
    IMAGE,
    IMAGE.replace("{n}", "1")[:-1] + "]}]}",
)


PROGRAMS = ("g++", "gcc", "c++", "cc", "nvcc", "nvidia-smi", "git", "cmake", "ninja", "ccache")


def of_program(name: str, item: str, programs: tuple[str, ...] = PROGRAMS) -> None:
    """What programs print that are asked for their versions; no wheel or tree brings these."""

    def made(folder: Path, size: int) -> list[str]:
        (folder / "bin").mkdir()
        (folder / "answer").write_text(filled(item, size), encoding="utf-8")
        for program in programs:
            (folder / "bin" / program).write_text(f"#!/bin/sh\nexec cat '{folder}/answer'\n")
            (folder / "bin" / program).chmod(0o755)
        tree = folder / "tree"
        shutil.copytree(TREE, tree)
        (tree / ".git").mkdir()
        os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        return ["doctor", str(tree), "--target", "rtx5070"]

    CASES[f"program: {name}"] = made


of_program("lines", "a b\n")
of_program("digits", "1")
of_program("points", "1.")
of_program("versions", "1.2 ")
of_program("gcc", "gcc version 12.{n}.0 (Debian)\n")
of_program("release", "Cuda compilation tools, release 13.{n}, V13.{n}.1\n")
of_program("architectures", "compute_{n}\n")
of_program("gpus", "NVIDIA GeForce RTX 5070, 12.0, {n}.1\n")
of_program("NULs", "a\0")
of_program("one word", "a")
of_program("tags", "v2.{n}.0\n", ("git",))
of_program("all skipped", "S a{n}\0", ("git",))


def calibration() -> float:
    """Seconds of the processor for a fixed piece of work, such as reading text is."""
    start = time.process_time()
    seen: dict[str, int] = {}
    for number in range(60_000):
        word = f"a{number % 997}: error {number}"
        if match := re.search(r"(\d+): (\w+)", word):
            seen[match[0]] = seen.get(match[0], 0) + len(word.split())
    return time.process_time() - start


def cost(made: Case, size: int) -> tuple[float, float, str, int]:
    """Seconds and megabytes of a process, what it came to, and the bytes of the input."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        (folder / "here").mkdir()
        before = dict(os.environ)
        os.environ["TORCHWHEEL_CACHE_DIR"] = str(folder / "own-cache")
        os.environ["TORCHWHEEL_CONFIG_DIR"] = str(folder / "own-config")
        said = folder / "said"
        words = made(folder, size)
        written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        child = os.fork()
        if child == 0:
            _child(words, folder, said)
        _, status, used = os.wait4(child, 0)
        os.environ.clear()
        os.environ.update(before)
        text = said.read_text(errors="replace")
        outcome = str(os.waitstatus_to_exitcode(status))
        if found := re.search(r"\[([a-z]+-[a-z-]+)\]$", text, re.MULTILINE):
            outcome += f" {found[1]}"
        if len(text) > 100_000:
            outcome += f", prints {len(text):,}"
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, outcome, written


def _child(words: list[str], folder: Path, said: Path) -> None:
    status = 99
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        os.chdir(folder)
        sys.path.insert(0, str(folder / SITE))
        output = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), "utf-8")
        status = torchwheel.cli.main.main(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 98
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def rows(names: list[str], size: int) -> Iterator[tuple[str, ...]]:
    for name, made in CASES.items():
        if names and not any(one in name for one in names):
            continue
        slow = calibration() / USUAL
        least, base, _, _ = cost(made, 300)
        seconds, memory, outcome, written = cost(made, size)
        yield name, f"{written:,}", f"{(seconds - least) / slow:.2f}", f"{memory - base:.0f}", outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("names", nargs="*", help="parts of the names of inputs; all without any")
    parsed = parser.parse_args()
    print("| input | bytes | seconds | MB | ends with |\n| --- | --- | --- | --- | --- |")
    for row in rows(parsed.names, parsed.bytes):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
