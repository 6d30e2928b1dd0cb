"""The real PyTorch 2.6.0 sources under a front of 2.14's generation: planned, configured and partly compiled."""

from __future__ import annotations

import json
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

# One library in place of the whole wheel. The tree installs everything as one component; c10 alone needs one of its
# own to be put into a wheel.
C10_COMPONENT = """
cmake_language(DEFER CALL install TARGETS c10 COMPONENT c10 LIBRARY DESTINATION lib)
"""
C10_ALONE = """[tool.scikit-build]
build.targets = ["c10"]
install.components = ["c10"]
cmake.define.CMAKE_PROJECT_Torch_INCLUDE = { env = "C10_COMPONENT" }
"""
VERSION_FILE = """
[[tool.scikit-build.generate]]
path = "torch/version.py"
template = "__version__ = '${version}'\\ncuda = None\\n"
location = "install"
"""


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

    output = SYSTEM.enter([torchwheel, "configure"], folder=inside, environment=ENVIRONMENT)
    assert f"proved       all {len(ASKED)} options" in output
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


def test_one_library_is_built_and_packed_by_pip(tree: Path) -> None:
    pyproject = tree / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace("[tool.scikit-build]\n", C10_ALONE, 1)
    text = text.replace('wheel.packages = ["torch", "torchgen", "functorch"]', "wheel.packages = []", 1)
    pyproject.write_text(text + VERSION_FILE, encoding="utf-8")
    component = FOLDER / "c10_component.cmake"
    component.write_text(C10_COMPONENT, encoding="utf-8")
    folder = project(FOLDER / "c10", SYSTEM.inside(tree))

    pip = ["/opt/torchwheel/bin/python", "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation"]
    # The one component that is installed has none of the Python modules that a wheel of PyTorch must have.
    options = ["-C", "skip-check=build-packages-missing,wheel-empty"]
    environment = {**ENVIRONMENT, "C10_COMPONENT": SYSTEM.inside(component)}
    SYSTEM.enter([*pip, "-v", *options, "-w", "dist"], folder=SYSTEM.inside(folder), environment=environment)

    wheels = list((folder / "dist").iterdir())
    assert [wheel.name for wheel in wheels] == [f"torch-{VERSION}-cp313-cp313-linux_x86_64.whl"]
    with zipfile.ZipFile(wheels[0]) as archive:
        info = f"torch-{VERSION}.dist-info"
        assert sorted(archive.namelist()) == sorted(
            [
                "torch/lib/libc10.so",
                "torch/version.py",
                f"{info}/METADATA",
                f"{info}/RECORD",
                f"{info}/WHEEL",
                f"{info}/entry_points.txt",
                f"{info}/licenses/LICENSE",
                f"{info}/torchwheel.json",
            ]
        )
        manifest = json.loads(archive.read(f"{info}/torchwheel.json"))
    assert manifest["plan"]["options"]["requested"] == {**ASKED, **LAUNCHERS}
    assert_taken({**ASKED, **LAUNCHERS}, manifest["plan"]["options"]["effective"])
