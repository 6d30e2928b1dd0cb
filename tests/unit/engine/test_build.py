"""What is in place before anything is built: the CUDA toolkit of a plan, and the folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from backend.builds import make_tree
from refusals import error_of
from toolkit.site_packages import ALL, site_packages
from torchwheel.engine.build import preflight_request
from torchwheel.engine.cache import list_entries
from torchwheel.engine.staging import LAST_BUILD, locked_folders
from torchwheel.host import this
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.reporting.errors import Problem
from torchwheel.survey import BuildRequest, survey
from torchwheel.toolkit.assemble import is_assembled
from torchwheel.toolkit.pypi import requirements_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the packages of Linux")
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def requested(tmp_path: Path) -> BuildRequest:
    # The packages' programs are stand-ins.
    config = {"target": "rtx5070", "cuda-from": "pypi", "cuda": "13.0", "package-version": "2.14.1"}
    config["skip-check"] = "nvcc-does-not-work"
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    return BuildRequest(make_tree("scikit-build-core", tmp_path / "tree"), config, variables)


def kept_packages(cache: Path, distributions: frozenset[str] = ALL) -> Path:
    """As if they had been installed in an earlier build."""
    folder = this.environment_folder(cache, requirements_for("13.0"), TAG)
    packages = site_packages(this.site_packages(folder), distributions)
    mark = {"folder": str(folder), "requires": [], "packages": []}
    (folder / "torchwheel-ready.json").write_text(json.dumps(mark), encoding="utf-8")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    interpreter = Path(this.interpreter_in(folder))
    interpreter.parent.mkdir()
    interpreter.touch()
    return packages


def test_the_toolkit_is_put_together_before_the_build(tmp_path: Path) -> None:
    packages = kept_packages(tmp_path / "cache")
    plan, _ = preflight_request(requested(tmp_path))
    assert plan.toolkit is not None
    assert plan.toolkit_packages == packages
    assert Path(plan.toolkit.root).parent == tmp_path / "cache" / "toolkits"
    assert is_assembled(Path(plan.toolkit.root))
    toolkit = next(entry for entry in list_entries(tmp_path / "cache") if entry.kind == "toolkit")
    assert (toolkit.path, toolkit.source) == (Path(plan.toolkit.root), plan.tree.root)


def test_toolkit_packages_are_installed_without_a_second_survey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveyed = []

    def counted(request: BuildRequest) -> Inputs:
        surveyed.append(request)
        return survey(request)

    monkeypatch.setattr("torchwheel.engine.build.survey", counted)
    monkeypatch.setattr(
        "torchwheel.engine.build.install_toolkit_packages", lambda cache, *_arguments: kept_packages(cache)
    )
    request = requested(tmp_path)
    plan, _ = preflight_request(request)
    assert surveyed == [request]
    assert plan == make_plan(survey(request))
    assert plan.toolkit_packages is not None


def test_packages_that_are_not_all_there_stop_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_packages(tmp_path / "cache", ALL - {"nvidia-nvvm"})
    assert str(error_of(preflight_request, requested(tmp_path))) == (
        Problem.of("toolkit-packages-missing", package=requirements_for("13.0")[0]).render()
    )
    assert capsys.readouterr().out == "torchwheel: installing CUDA 13.0 from PyPI\n"


def cpu_plan(tmp_path: Path, config: dict[str, str], **variables: str) -> Plan:
    tree = tmp_path / "tree"
    if not tree.exists():
        make_tree("scikit-build-core", tree)
    variables |= {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "no cache yet"), "PATH": "/usr/bin:/bin"}
    return make_plan(
        survey(BuildRequest(tree, {"target": "cpu", "package-version": "2.14.1"} | config, variables))
    )


def test_a_first_build_in_a_folder_of_its_own_needs_no_cache_folder(tmp_path: Path) -> None:
    plan = cpu_plan(tmp_path, {"build-dir": str(tmp_path / "elsewhere")})
    cache = tmp_path / "no cache yet"
    with locked_folders(plan, {}):
        assert (plan.folders.source / "CMakeLists.txt").is_file()
    assert (cache / LAST_BUILD).read_text(encoding="utf-8") == str(plan.folders.log)


def test_the_log_of_the_build_before_is_kept(tmp_path: Path) -> None:
    folders = (plan := cpu_plan(tmp_path, {})).folders
    with locked_folders(plan, {}):
        folders.log.write_bytes(b"the first\n")
    with locked_folders(plan, {}):
        assert folders.log.read_bytes() == b""
    assert (folders.root / "previous.log").read_bytes() == b"the first\n"
