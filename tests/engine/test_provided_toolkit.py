"""The CUDA toolkit of a plan, in place before anything is built with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from backend.builds import make_tree
from toolkit.site_packages import ALL, site_packages
from torchwheel.engine import venv
from torchwheel.engine.carrying_out import examined_plan
from torchwheel.errors import TorchwheelError
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.pypi import is_assembled, requirements_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the packages of Linux")
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def asked(tmp_path: Path) -> BuildRequest:
    config = {"target": "rtx5070", "cuda-from": "pypi", "cuda": "13.0", "version": "2.14.1"}
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    return BuildRequest(make_tree("scikit-build-core", tmp_path / "tree"), config, variables)


def kept_packages(cache: Path, distributions: frozenset[str] = ALL) -> Path:
    """As if they had been installed in an earlier build."""
    folder = venv.environment_folder(cache, requirements_for("13.0"), TAG)
    packages = site_packages(venv.site_packages(folder), distributions)
    ready = json.dumps(list(requirements_for("13.0")))
    (folder / "torchwheel-ready.json").write_text(ready, encoding="utf-8")
    return packages


def test_the_toolkit_is_put_together_before_the_build(tmp_path: Path) -> None:
    packages = kept_packages(tmp_path / "cache")
    plan = examined_plan(asked(tmp_path))
    assert plan.toolkit is not None
    assert plan.toolkit_packages == packages
    assert Path(plan.toolkit.root).parent == tmp_path / "cache" / "toolkits"
    assert is_assembled(Path(plan.toolkit.root))


def test_packages_that_are_not_all_there_stop_the_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_packages(tmp_path / "cache", ALL - {"nvidia-nvvm"})
    with pytest.raises(TorchwheelError) as caught:
        examined_plan(asked(tmp_path))
    (requirement,) = requirements_for("13.0")
    assert str(caught.value) == (
        f"{requirement} is installed, but some of NVIDIA's packages are missing  [toolkit-packages-missing]\n"
        "    fix: delete torchwheel's folder of environments and build again, or name an installed toolkit with "
        "-C cuda-path="
    )
    assert capsys.readouterr().out == f"torchwheel: installing CUDA 13.0 from PyPI: {requirement}\n"
