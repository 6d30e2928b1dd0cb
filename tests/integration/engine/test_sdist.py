from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from backend.builds import make_tree
from torchwheel.engine.sdist import INNER_FOLDER, _pointing_inside, build_sdist
from torchwheel.survey import BuildRequest, survey
from torchwheel.system.toml import parse_toml


@pytest.mark.parametrize("general", ["", "[tool.torchwheel]\nsource = '../pytorch'\n"])
def test_source_points_inside_under_every_condition(general: str, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    when = "[[tool.torchwheel.when]]\nmarker = \"sys_platform == '{}'\"\nsource = '../elsewhere'\njobs = 3\n"
    file.write_text(general + when.format("linux") + when.format("win32"), encoding="utf-8")
    table = parse_toml(_pointing_inside(file).decode(), "test")["tool"]["torchwheel"]
    assert table["source"] == INNER_FOLDER
    assert [sorted(block) for block in table["when"]] == [["jobs", "marker"]] * 2


@pytest.mark.parametrize("target", [{}, {"target": "cpu"}])
def test_it_remembers_the_name_that_it_was_given(target: dict[str, str], tmp_path: Path) -> None:
    """A front end refuses a wheel that is called otherwise than its sdist."""
    tree = make_tree("setup.py", tmp_path / "tree")
    variables = {"PATH": "", "TORCHWHEEL_CACHE_DIR": str(tmp_path)}
    named = variables | {"TORCH_PACKAGE_NAME": "torch-nightly", "USE_OPENMP": "0"}
    sdist = build_sdist(BuildRequest(tree, target | {"package-version": "2.14.1"}, named), tmp_path / "out")
    shutil.unpack_archive(tmp_path / "out" / sdist, tmp_path, filter="data")
    unpacked = tmp_path / sdist.removesuffix(".tar.gz")
    inputs = survey(BuildRequest(unpacked, {"target": "cpu"}, variables))
    assert (inputs.tree.name, unpacked.name.partition("-")[0]) == ("torch-nightly", "torch_nightly")
    assert ("USE_OPENMP" in inputs.settings.defines) is bool(target)
