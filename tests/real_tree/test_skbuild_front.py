"""The real PyTorch 2.6.0 sources under a front of 2.14's generation: planned, configured and partly compiled."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import skbuild_front
from debian_root import SYSTEM
from test_real_tree import (
    ASKED,
    ENVIRONMENT,
    LAUNCHERS,
    OUTSIDE,
    VERSION,
    assert_taken,
    cached,
    plan,
    project,
    snapshot,
)

pytestmark = [pytest.mark.real_tree, pytest.mark.timeout(1500)]

FOLDER = OUTSIDE.parent / "a front test"

# One library in place of all. The tree installs everything as one component; c10 alone needs one of its own to be put
# into a wheel.
C10_COMPONENT = """
cmake_language(DEFER CALL install TARGETS c10 COMPONENT c10 LIBRARY DESTINATION lib)
"""
C10_ALONE = """[tool.scikit-build]
build.targets = ["c10", "gen_torch_version"]
install.components = ["c10"]
cmake.define.CMAKE_PROJECT_Torch_INCLUDE = { env = "C10_COMPONENT" }
"""
COMPONENT = FOLDER / "c10_component.cmake"
C10_ENVIRONMENT = {**ENVIRONMENT, "C10_COMPONENT": SYSTEM.inside(COMPONENT)}


@pytest.fixture(scope="module")
def tree(torchwheel: str) -> Path:
    del torchwheel
    return skbuild_front.make(SYSTEM.inside(FOLDER / "pytorch of 2.14"))


def test_planned_checked_and_configured(torchwheel: str, tree: Path) -> None:
    folder = project(FOLDER / "configured", SYSTEM.inside(tree))
    before = snapshot(tree)

    planned = plan(torchwheel, folder)
    assert planned["tree"]["generation"] == "scikit-build-core"
    assert planned["wheel"] == f"torch-{VERSION}-cp313-cp313-linux_x86_64.whl"
    assert {define["name"]: define["value"] for define in planned["defines"]} == {**ASKED, **LAUNCHERS}

    inside = SYSTEM.inside(folder)
    checked = SYSTEM.attempt([torchwheel, "doctor", "--json"], folder=inside, environment=ENVIRONMENT)
    findings = json.loads(checked.stdout)["findings"]
    assert [one["id"] for one in findings if one["severity"] == "error"] in ([], ["build-packages-missing"])

    output = SYSTEM.enter([torchwheel, "build", "--configure-only"], folder=inside, environment=ENVIRONMENT)
    assert f"proved       all {len({**ASKED, **LAUNCHERS})} options" in output
    build = SYSTEM.outside(planned["folders"]["build"])
    cache = cached(build / "CMakeCache.txt")
    assert_taken(ASKED, cache)
    assert Path(cache["CMAKE_INSTALL_PREFIX"]).name == "torch"
    rules = (build / "build.ninja").read_text(encoding="utf-8")
    for module in (
        "torch/_C.cpython-313-x86_64-linux-gnu.so",
        "functorch/_C.cpython-313-x86_64-linux-gnu.so",
    ):
        assert f"build {module}: C" in rules
    assert snapshot(tree) == before


@pytest.fixture(scope="module")
def c10(tree: Path) -> Path:
    """A project that builds c10 alone, and packs it with all of the tree's packages."""
    pyproject = tree / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace("[tool.scikit-build]\n", C10_ALONE, 1)
    pyproject.write_text(text, encoding="utf-8")
    COMPONENT.write_text(C10_COMPONENT, encoding="utf-8")
    # The system is kept between runs, and a wheel of an earlier one is not replaced.
    shutil.rmtree(FOLDER / "c10", ignore_errors=True)
    return project(FOLDER / "c10", SYSTEM.inside(tree))


def test_one_library_is_built_and_packed_by_pip(c10: Path) -> None:
    pip = ["/opt/torchwheel/bin/python", "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation"]
    SYSTEM.enter([*pip, "-v", "-w", "dist"], folder=SYSTEM.inside(c10), environment=C10_ENVIRONMENT)

    wheels = list((c10 / "dist").iterdir())
    assert [wheel.name for wheel in wheels] == [f"torch-{VERSION}-cp313-cp313-linux_x86_64.whl"]
    with zipfile.ZipFile(wheels[0]) as archive:
        info = f"torch-{VERSION}.dist-info"
        names = set(archive.namelist())
        metadata = archive.read(f"{info}/METADATA").decode()
        manifest = json.loads(archive.read(f"{info}/torchwheel.json"))
    assert {
        "torch/__init__.py",
        "torch/_export/db/examples/__init__.py",
        "torch/lib/libc10.so",
        "torch/utils/benchmark/utils/valgrind_wrapper/valgrind.h",
        "torch/utils/model_dump/code.js",
        "torch/version.py",
        "torchgen/packaged/ATen/native/native_functions.yaml",
        "torchgen/packaged/autograd/templates/Functions.h",
        "functorch/dim/__init__.py",
        f"{info}/entry_points.txt",
        f"{info}/licenses/LICENSE",
    } <= names
    assert not {
        name for name in names if "/csrc/" in name or name.endswith((".md", ".pyi.in", "CMakeLists.txt"))
    }
    assert "Requires-Dist: sympy==1.13.1" in metadata
    assert manifest["plan"]["options"]["requested"] == {**ASKED, **LAUNCHERS}
    assert_taken({**ASKED, **LAUNCHERS}, manifest["plan"]["options"]["effective"])


def test_built_again_it_compiles_what_has_changed(torchwheel: str, tree: Path, c10: Path) -> None:
    def compiled(*options: str) -> int:
        command = [torchwheel, "build", "--json", "-o", "again", *options]
        done = SYSTEM.attempt(command, folder=SYSTEM.inside(c10), environment=C10_ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        print(options, document["compiled"], document["seconds"])
        number: int = document["compiled"]
        return number

    assert compiled() == 0
    assert compiled("-C", "jobs=1") == 0
    with (tree / "c10/util/Logging.cpp").open("a", encoding="utf-8") as stream:
        stream.write("// another last line\n")
    assert compiled() == 1
