"""The real PyTorch 2.6.0, built in full for the CPU under a front of 2.14's generation: hours (``make real-front``).

The wheel is installed, tested, compared with setup.py's and built again. What a run that was stopped has compiled is
kept, and the next goes on from there; of setup.py's wheel ccache has the objects.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import skbuild_front
from debian_root import SYSTEM, TREE
from test_real_tree import PROJECT, VERSION
from test_whole_wheel import (
    HOW,
    TRAINS,
    VARIABLES,
    fresh_environment,
    make_quick_compilers,
    run_the_trees_tests,
)

from debian_system import reason_to_skip

pytestmark = [pytest.mark.real_tree, pytest.mark.timeout(0)]

FOLDER = SYSTEM.root / "src" / "a whole front"
ENVIRONMENT = {
    "TORCHWHEEL_CACHE_DIR": "/src/a whole front/cache",
    "CCACHE_DIR": "/src/ccache",
    "CCACHE_MAXSIZE": "20G",
    # Preprocessing every file for the cache would cost a tenth of the time.
    "CCACHE_DEPEND": "1",
    "PATH": "/opt/whole-front/bin:/usr/bin:/bin",
}
NAME = f"torch-{VERSION}-cp313-cp313-linux_x86_64.whl"
QUICK_DEFINES = "CXX_AVX2_FOUND = false\nCXX_AVX512_FOUND = false\n"
QUICK_COMPILERS = 'CC = "/opt/quick/gcc"\nCXX = "/opt/quick/g++"\n'

# What the two generations pack differently.
ONLY_OF_SETUP_PY = {
    # setup.py packs all of packaged/autograd; the official wheel of 2.14.1 has none of these either.
    "torchgen/packaged/autograd/BUILD.bazel",
    "torchgen/packaged/autograd/README.md",
    "torchgen/packaged/autograd/build.bzl",
}
ONLY_OF_THE_FRONT = {
    # Beside the headers that CMake installs and that setup.py's list of patterns leaves out: files of the packages
    # that it has no pattern for. The official wheel of 2.14.1 has them all.
    "torch/_C/_dynamo/__init__.pyi",
    "torch/_C/_dynamo/compiled_autograd.pyi",
    "torch/_C/_dynamo/eval_frame.pyi",
    "torch/_C/_dynamo/guards.pyi",
    "torch/_C_flatbuffer/__init__.pyi",
    "torch/_inductor/script.ld",
    "torch/_vendor/packaging/LICENSE",
    "torch/_vendor/packaging/LICENSE.APACHE",
    "torch/_vendor/packaging/LICENSE.BSD",
}


@pytest.fixture(scope="module")
def tree() -> str:
    if not HOW:
        pytest.skip("compiles for hours; TEST_TORCHWHEEL_WHOLE_WHEEL is not set")
    if reason := reason_to_skip():
        pytest.skip(reason)
    skbuild_front.make()
    make_quick_compilers()
    SYSTEM.install_torchwheel("/opt/whole-front", "--system-site-packages")
    return skbuild_front.FRONT_TREE


def built(name: str, source: str) -> Path:
    """The wheel of a project around a tree, by pip."""
    text = PROJECT.format(source=source)
    before, table, after = text.partition("[tool.torchwheel.define]\n")
    defines, compilers = (QUICK_DEFINES, QUICK_COMPILERS) if HOW == "quick" else ("", "")
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{before}{table}{defines}{after}{VARIABLES}{compilers}"
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    pip = ["pip", "wheel", ".", "-v", "--no-deps", "--no-build-isolation", "-w", "dist"]
    assert SYSTEM.show(pip, folder=SYSTEM.inside(folder), environment=ENVIRONMENT) == 0
    return folder / "dist" / NAME


@pytest.fixture(scope="module")
def wheel(tree: str) -> Path:
    return built("front", tree)


@pytest.fixture(scope="module")
def fresh(wheel: Path) -> str:
    """The interpreter of a new environment with the wheel and what it asks for."""
    return fresh_environment(wheel, "/opt/fresh-front")


def test_it_is_imported_and_trains(fresh: str) -> None:
    # 2.6.0's functorch._C says that it does not work with Python 3.12 and later; torch does not import it there.
    shows = "import torch, torch._C, functorch\nprint(torch.__version__, torch.cuda.is_available())\n"
    printed = SYSTEM.enter([fresh, "-c", shows + TRAINS], folder="/tmp")
    assert printed.splitlines() == [f"{VERSION} False", "learned True"]


def test_it_passes_the_trees_own_tests(fresh: str) -> None:
    run_the_trees_tests(fresh)


def test_built_again_it_compiles_what_has_changed(tree: str, wheel: Path) -> None:
    def compiled(*options: str) -> int:
        command = ["torchwheel", "build", "--json", "-o", "again", *options]
        done = SYSTEM.attempt(command, folder=SYSTEM.inside(wheel.parents[1]), environment=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        print(f"{' '.join(options) or 'again'}: {document['seconds']:.1f} s, {document['compiled']} compiled")
        number: int = document["compiled"]
        return number

    assert compiled() == 0
    assert compiled("-C", "jobs=1") == 0
    with (SYSTEM.outside(tree) / "aten/src/ATen/native/Sorting.cpp").open("a", encoding="utf-8") as stream:
        stream.write("// another last line\n")
    assert compiled() == 1


def test_it_has_the_files_of_setup_py(wheel: Path) -> None:
    ours, theirs = (contents(one) for one in (wheel, built("setup py", TREE)))
    assert theirs - ours == ONLY_OF_SETUP_PY
    more = ours - theirs
    assert {name for name in more if not name.startswith("torch/include/")} == ONLY_OF_THE_FRONT
    print(f"{len(ours)} files, {len(more - ONLY_OF_THE_FRONT)} headers more than setup.py packs")


def contents(wheel: Path) -> set[str]:
    """The files of a wheel but for its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
