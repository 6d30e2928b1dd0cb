"""torchwheel's BuildExtension beside torch.utils.cpp_extension's with ninja: the same sources, in turn, in one run.

Each build is a process of its own, ``setup.py build_ext``, with the same number of jobs. The interpreters must have
PyTorch, setuptools, ninja and torchwheel.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from projects import write_cpp_project, write_cuda_project, write_mixed_project

OURS, THEIRS = "torchwheel", "torch.utils.cpp_extension"
_SECONDS_OF_SLACK = 0.3


@dataclass(frozen=True, order=True)
class Cost:
    """What a build took: seconds that passed, and the processors' seconds of all that it started.

    The latter say more where other programs run on the same processors.
    """

    passed: float
    processors: float


@dataclass(frozen=True)
class Result:
    """One comparison.

    Attributes:
        what: what was built.
        ours: torchwheel's cost.
        theirs: that of torch.utils.cpp_extension.
        bar: the greatest ratio that is good enough; None where another rule counts.
        limit: the greatest number of seconds, where that is the rule.
        by_processors: whether the bar is for the processors' seconds.
    """

    what: str
    ours: Cost
    theirs: Cost
    bar: float | None
    limit: float | None = None
    by_processors: bool = False

    @property
    def ratio(self) -> float:
        return self.ours.passed / self.theirs.passed

    @property
    def processors(self) -> float:
        return self.ours.processors / self.theirs.processors

    @property
    def holds(self) -> bool:
        if self.limit is not None:
            return self.ours.passed <= self.limit
        return self.bar is None or (self.processors if self.by_processors else self.ratio) <= self.bar

    def row(self) -> str:
        bar = f"{self.bar:.2f}" if self.limit is None else f"{self.limit:.2f} s"
        bar = f"({bar})" if self.by_processors else bar
        cells = [
            self.what,
            *(f"{cost.passed:.2f} ({cost.processors:.2f})" for cost in (self.ours, self.theirs)),
            f"{self.ratio:.3f} ({self.processors:.3f})",
            bar,
            "holds" if self.holds else "MISSED",
        ]
        return f"| {' | '.join(cells)} |"


@dataclass
class Bench:
    """Builds projects of one kind with one interpreter.

    Attributes:
        python: the interpreter.
        write: writes the project's files.
        root: a folder for everything.
        environment: what both builds get on top of the environment.
    """

    python: str
    write: Callable[[Path, str, str], None]
    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def project(self, name: str, module: str, further: str = "") -> Path:
        folder = self.root / name
        self.write(folder, module, further)
        return folder

    def build(self, project: Path, *, cache: str | None = None) -> Cost:
        """What one build takes; ``cache`` names ccache's folder, None switches it off."""
        environment = {**os.environ, "MAX_JOBS": "2", **self.environment}
        environment["TORCHWHEEL_CACHE_DIR"] = str(self.root / "torchwheel")
        environment |= {"CCACHE_DISABLE": "1"} if cache is None else {"CCACHE_DIR": str(self.root / cache)}
        start, before = time.perf_counter(), _processor_seconds()
        done = subprocess.run(
            [self.python, "setup.py", "build_ext", "--inplace"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        cost = Cost(time.perf_counter() - start, _processor_seconds() - before)
        if done.returncode != 0:
            raise SystemExit(f"{project} does not build:\n{done.stdout}\n{done.stderr}")
        return cost


def _processor_seconds() -> float:
    """Of all processes that have been waited for, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare_cpp(bench: Bench) -> Iterator[Result]:
    """Four C++ sources: cold, with unity, unchanged, one changed, and with a warm cache from another folder."""
    changed = "csrc/logcosh.cpp"
    theirs, ours = bench.project("theirs", THEIRS), bench.project("ours", OURS)
    unity = bench.project("unity", OURS, ", unity=True")
    cold_theirs, cold_ours = bench.build(theirs), bench.build(ours)
    yield Result("four C++ sources, cold", cold_ours, cold_theirs, 0.72)
    yield Result("the same, unity", bench.build(unity), cold_theirs, 0.40)
    yield Result("nothing changed", *_build_unchanged(bench, ours, theirs), 0.30)
    alone = _compile_and_link_alone(bench)
    yield Result(
        "one source changed",
        _touched(bench, ours, changed),
        _touched(bench, theirs, changed),
        None,
        alone + _SECONDS_OF_SLACK,
    )
    bench.build(bench.project("cache-ours", OURS), cache="ccache-ours")
    bench.build(bench.project("cache-theirs", THEIRS), cache="ccache-theirs")
    moved_ours = bench.build(bench.project("moved-ours", OURS), cache="ccache-ours")
    moved_theirs = bench.build(bench.project("moved-theirs", THEIRS), cache="ccache-theirs")
    yield Result("warm ccache, from a new folder", moved_ours, moved_theirs, 0.10)


def _build_unchanged(bench: Bench, ours: Path, theirs: Path) -> tuple[Cost, Cost]:
    """The medians of five builds each, in turn, where nothing changed."""
    pairs = [(bench.build(ours), bench.build(theirs)) for _ in range(5)]
    own, other = (sorted(costs)[2] for costs in zip(*pairs, strict=True))
    return own, other


def _touched(bench: Bench, project: Path, source: str) -> Cost:
    with (project / source).open("a", encoding="utf-8") as file:
        file.write("// changed\n")
    return bench.build(project)


def _compile_and_link_alone(bench: Bench) -> float:
    """The seconds of ninja itself for one changed source and the link: what no wrapper could save."""
    (folder,) = (
        path for path in (bench.root / "torchwheel" / "extensions").iterdir() if path.name.startswith("ours-")
    )
    with (bench.root / "ours" / "csrc" / "logcosh.cpp").open("a", encoding="utf-8") as file:
        file.write("// changed for ninja alone\n")
    ninja = shutil.which("ninja", path=f"{Path(bench.python).parent}{os.pathsep}{os.environ['PATH']}")
    start = time.perf_counter()
    subprocess.run(
        [str(ninja), "-C", str(folder)],
        check=True,
        capture_output=True,
        env={**os.environ, "CCACHE_DISABLE": "1"},
    )
    return time.perf_counter() - start


def compare_cuda(bench: Bench) -> Iterator[Result]:
    """Two C++ and two CUDA sources for two architectures: cold, unchanged, with a source changed, and shared."""
    theirs, ours = bench.project("theirs-cuda", THEIRS), bench.project("ours-cuda", OURS)
    shared = bench.project("shared-cuda", OURS, ', front_end="shared"')
    cold_theirs, cold_ours = bench.build(theirs), bench.build(ours)
    # Both compile every source for every architecture: it may take no longer, with a tenth for the noise.
    what = "two C++, two CUDA sources, sm_90 and sm_120, cold"
    yield Result(what, cold_ours, cold_theirs, 1.10, by_processors=True)
    yield Result("nothing changed", *_build_unchanged(bench, ours, theirs), 0.30)
    for kind, source in {".cpp": "csrc/gaussian.cpp", ".cu": "csrc/gaussian_kernel.cu"}.items():
        costs = _touched(bench, ours, source), _touched(bench, theirs, source)
        yield Result(f"one {kind} changed", *costs, 1.10, by_processors=True)
    yield Result('the same, front_end="shared"', bench.build(shared), cold_theirs, 0.85, by_processors=True)


def compare_mixed(bench: Bench) -> Iterator[Result]:
    """Four C++ sources and a CUDA source: cold, unchanged, and with one of each kind changed."""
    theirs, ours = bench.project("theirs-mixed", THEIRS), bench.project("ours-mixed", OURS)
    cold_theirs, cold_ours = bench.build(theirs), bench.build(ours)
    yield Result("four C++ sources, one .cu, cold", cold_ours, cold_theirs, 0.85, by_processors=True)
    unchanged = _build_unchanged(bench, ours, theirs)
    yield Result("nothing changed", *unchanged, 0.30, by_processors=True)
    for what, source in {
        "one .cpp with PyTorch's headers": "csrc/logcosh.cpp",
        "one .cpp without them": "csrc/middle.cpp",
        "the .cu, without them": "csrc/scale.cu",
    }.items():
        costs = _touched(bench, ours, source), _touched(bench, theirs, source)
        yield Result(f"{what}, changed", *costs, 0.60, by_processors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="an interpreter with PyTorch, for the C++ sources")
    parser.add_argument(
        "--cuda-python", help="an interpreter with a CUDA build of PyTorch, for the CUDA sources"
    )
    parser.add_argument(
        "--cuda-home", help="the CUDA toolkit for both, such as one in torchwheel's cache folder"
    )
    options = parser.parse_args()
    cells = (
        "what",
        "torchwheel, s (processors)",
        "cpp_extension, s (processors)",
        "ratio (processors)",
        "bar",
        "",
    )
    print(f"| {' | '.join(cells)} |\n{'| --- ' * len(cells)}|", flush=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="torchwheel-benchmark-") as folder:
        results: list[Iterator[Result]] = []
        if options.python:
            results.append(compare_cpp(Bench(options.python, write_cpp_project, Path(folder, "cpp"))))
        if options.cuda_python:
            cuda = Bench(options.cuda_python, write_cuda_project, Path(folder, "cuda"))
            cuda.environment |= {"TORCH_CUDA_ARCH_LIST": "9.0;12.0", "CUDA_HOME": options.cuda_home or ""}
            results.append(compare_cuda(cuda))
            mixed = replace(cuda, write=write_mixed_project, root=Path(folder, "mixed"))
            results.append(compare_mixed(mixed))
        for result in (result for part in results for result in part):
            print(result.row(), flush=True)
            good = good and result.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
