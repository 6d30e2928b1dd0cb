"""The shortest way to a wheel: an official one, one that was built before, or a build."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from index.web import serving
from places import MINITORCH
from refusals import error_of, ids_of
from torchwheel.engine import ready_wheels
from torchwheel.engine.cache import store_wheel
from torchwheel.engine.wheel_sources import Way, carry_out, choose_way
from torchwheel.index.catalogue import SiteFile, SiteWheel, catalogue_text, path_of
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.survey import BuildRequest, survey
from tree.small_trees import commit_all, git
from wheel_samples import CUBIN, Samples, WheelRecipe


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """minitorch at the commit of a release, never to be written to."""
    folder = tmp_path_factory.mktemp("released") / "tree"
    shutil.copytree(MINITORCH, folder)
    commit_all(folder)
    git(folder, "tag", "v2.14.1")
    return folder


@pytest.fixture
def tree(released: Path, tmp_path: Path) -> Path:
    return shutil.copytree(released, tmp_path / "tree")


def request(tree: Path, target: str = "rtx5070", **settings: str) -> BuildRequest:
    environment = {"PATH": os.environ["PATH"], "TORCHWHEEL_CACHE_DIR": str(tree.parent / "cache")}
    return BuildRequest(tree, {"target": target, **settings}, environment)


def built(asked: BuildRequest | Plan, folder: Path, **changes: Any) -> Path:
    """A wheel of the name that the plan has, with a manifest as a build of that plan writes it."""
    plan = asked if isinstance(asked, Plan) else make_plan(survey(asked))
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "target": [],
        "profile": [],
        "fingerprint": plan.fingerprint,
        "source": {"commit": plan.tree.commit},
        "options": {"requested": {define.name: define.value for define in plan.defines}},
        **changes,
    }
    told = {name: value for name, value in facts.items() if value is not None}
    about = {"name": "torch", "version": str(plan.version), "tags": []}
    known = {"schema": 1, "torchwheel": "1.0", "plan": told, "wheel": about, "machine_code": []}
    manifest = json.dumps(known)
    samples = Samples()
    library = samples.library(samples.Entry(CUBIN, 120))
    files = {
        "torch/lib/libtorch_cuda.so": library,
        f"torch-{plan.version}.dist-info/torchwheel.json": manifest.encode(),
    }
    tag = plan.wheel_name.removesuffix(".whl").partition(f"{plan.version}-")[2]
    wheel = WheelRecipe(str(plan.version), tag, files=files).write(folder)
    assert wheel.name == plan.wheel_name
    return wheel


def test_an_official_build_that_serves_is_taken(tree: Path) -> None:
    choice = choose_way(request(tree), ())
    assert choice.way is Way.PUBLISHED
    assert choice.official is not None
    assert choice.official.command == "pip install torch==2.14.1"
    assert choice.plan.wheel_name in choice.reasons[0]
    assert "cu130" in choice.reasons[-1]
    old = choose_way(request(tree, "gtx1080"), ())
    assert old.official is not None
    assert old.official.command.endswith("--index-url https://download.pytorch.org/whl/cu126")
    cpu = choose_way(request(tree, "cpu"), ()).official
    assert cpu is not None
    assert cpu.command.endswith("--index-url https://download.pytorch.org/whl/cpu")
    assert ids_of(choose_way, request(tree, "gh200"), ()) == ["gpu-not-on-platform"]


def test_the_last_official_build_for_a_gpu_before_turing_is_named(tree: Path) -> None:
    (tree / "version.txt").write_text("2.15.0a0\n", encoding="utf-8")
    reasons = choose_way(request(tree, "gtx1080", **{"package-version": "2.15.0"}), ()).reasons
    assert "PyTorch 2.14.1 (cu126)" in reasons[1]


@pytest.mark.parametrize(
    ("settings", "lacks"),
    [
        ({"profile": "debug"}, "the profile debug"),
        ({"build-type": "Debug"}, "the build type Debug"),
        ({"env.CXXFLAGS": "-march=native"}, "CXXFLAGS"),
        ({"arch": "12.0+PTX"}, "PTX"),
        ({"cuda": "12.8"}, "CUDA 12.8"),
        ({"local-version": "mine"}, "the label mine"),
        ({"wheel.exclude": "torch/test/**"}, "wheel.exclude"),
        ({"skbuild.cmake.args": "-C/a.cmake"}, "cmake.args"),
        ({"disable": "nccl"}, "USE_NCCL"),
    ],
)
def test_what_was_requested_and_is_in_no_official_build_is_built(
    released: Path, settings: dict[str, str], lacks: str
) -> None:
    choice = choose_way(request(released, **settings), ())
    assert (choice.way, lacks in choice.reasons[1].partition("lacks ")[2]) == (Way.BUILD, True)


def test_what_was_edited_in_the_source_of_a_release_is_built(tree: Path) -> None:
    with (tree / "torch" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write("EDITED = True\n")
    for settings in ({}, {"build.verbose": "true"}):
        choice = choose_way(request(tree, **settings), ())
        assert (choice.way, "your changes of the source" in choice.reasons[1]) == (Way.BUILD, True)


def test_the_official_build_with_the_requested_cuda_comes_first(tree: Path) -> None:
    choice = choose_way(request(tree, cuda="13.2"), ())
    assert choice.official is not None
    assert choice.official.label == "cu132"


def official_wheel(folder: Path, cuda: str | None, *code: int, commit: str = "") -> Path:
    """A wheel of PyTorch's name with this CUDA and this device code, in a folder for pip's find-links."""
    samples = Samples()
    library = samples.library(*(samples.Entry(CUBIN, number) for number in code))
    version = f"__version__ = '2.14.1'\ncuda = {cuda!r}\ngit_version = {commit!r}\n"
    files = {"torch/lib/libtorch_cuda.so": library, "torch/version.py": version.encode()}
    recipe = WheelRecipe("2.14.1", "py3-none-any", cuda=cuda, files=files)
    folder.mkdir(parents=True, exist_ok=True)
    return recipe.write(folder)


def with_pip_looking_only_into(folder: Path, asked: BuildRequest) -> BuildRequest:
    """As on a machine whose pip has settings of its own."""
    variables = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder.as_uri()}
    return replace(asked, environment={**asked.environment, **variables})


def test_the_official_wheel_is_fetched_and_looked_into(tree: Path, tmp_path: Path) -> None:
    commit = make_plan(survey(request(tree))).tree.commit
    assert commit is not None
    wheel = official_wheel(tmp_path / "links with space", "13.0", 75, 120, commit=commit)
    asked = with_pip_looking_only_into(wheel.parent, request(tree))
    fetched = carry_out(choose_way(asked, ()), asked, tmp_path / "dist")
    assert fetched.read_bytes() == wheel.read_bytes()
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [wheel.name]


def test_the_official_wheel_of_another_commit_is_refused(tree: Path, tmp_path: Path) -> None:
    """A fork that gives its own commit the release's tag."""
    wheel = official_wheel(tmp_path / "links", "13.0", 75, 120, commit="1" * 40)
    asked = with_pip_looking_only_into(wheel.parent, request(tree))
    (problem,) = error_of(carry_out, choose_way(asked, ()), asked, tmp_path / "dist").problems
    assert (problem.id, "111111111111" in problem.what) == ("wheel-not-official", True)
    assert list((tmp_path / "dist").iterdir()) == []


def test_a_wheel_of_ours_is_not_replaced_by_the_official_one(tree: Path, tmp_path: Path) -> None:
    wheel, dist = official_wheel(tmp_path / "links", "13.0", 75, 120), tmp_path / "dist"
    own = built(request(tree, disable="nccl"), dist)
    own = own.rename(dist / wheel.name)
    before = own.read_bytes()
    asked = with_pip_looking_only_into(wheel.parent, request(tree))
    assert ids_of(carry_out, choose_way(asked, ()), asked, dist) == ["output-of-another-build"]
    assert own.read_bytes() == before


@pytest.mark.parametrize(
    ("cuda", "code", "what"),
    [
        (None, (), "CPU"),
        ("12.6", (75, 120), "CUDA 12.6"),
        ("13.0", (75, 90), "does not run on GeForce RTX 5070"),
    ],
)
def test_another_wheel_that_pip_finds_is_refused(
    tree: Path, tmp_path: Path, cuda: str | None, code: tuple[int, ...], what: str
) -> None:
    """As on a machine whose pip is told of a folder with CPU wheels, which it then prefers."""
    wheel = official_wheel(tmp_path / "links", cuda, *code)
    asked = with_pip_looking_only_into(wheel.parent, request(tree))
    (problem,) = error_of(carry_out, choose_way(asked, ()), asked, tmp_path / "dist").problems
    assert (problem.id, what in problem.what) == ("wheel-not-official", True)
    assert list((tmp_path / "dist").iterdir()) == []


def test_a_wheel_that_was_built_before_is_taken(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    wheel = built(asked, tmp_path / "wheels")
    choice = choose_way(asked, (tmp_path / "dist", tmp_path / "wheels"))
    assert choice.way is Way.BUILT_BEFORE
    assert carry_out(choice, asked, tmp_path / "dist").read_bytes() == wheel.read_bytes()
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [wheel.name]


def test_the_wheel_store_is_asked_first(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    cache = Path(asked.environment["TORCHWHEEL_CACHE_DIR"])
    cache.mkdir()
    stored = store_wheel(cache, "key", built(asked, tmp_path / "built"), cache / "builds" / "x", tree)
    built(asked, tmp_path / "wheels")
    choice = choose_way(asked, (tmp_path / "wheels",))
    assert (choice.way, choice.wheel) == (Way.BUILT_BEFORE, stored)


@pytest.mark.parametrize(("out", "left"), [("dist", 0), ("wheels", 1)])
def test_a_wheel_whose_files_were_changed_since_is_not_handed_over(
    tree: Path, tmp_path: Path, out: str, left: int
) -> None:
    asked = request(tree, disable="nccl")
    wheel = built(asked, tmp_path / "wheels")
    with ZipFile(wheel, "a") as archive:
        archive.writestr("torch/more.py", "")
    choice = choose_way(asked, (tmp_path / "wheels",))
    (problem,) = error_of(carry_out, choice, asked, tmp_path / out).problems
    assert (problem.id, problem.origin, "torch/more.py" in problem.what) == (
        "wheel-not-copied",
        str(wheel),
        True,
    )
    assert len(list((tmp_path / out).iterdir())) == left


def test_a_wheel_of_another_build_is_not_replaced_by_one_that_was_built_before(
    tree: Path, tmp_path: Path
) -> None:
    asked, dist = request(tree, disable="nccl"), tmp_path / "dist"
    built(asked, tmp_path / "wheels")
    there = built(asked, dist, layers=[{"key": "wheel.exclude", "value": "torch/test/**"}])
    before = there.read_bytes()
    choice = choose_way(asked, (tmp_path / "wheels",))
    assert ids_of(carry_out, choice, asked, dist) == ["output-of-another-build"]
    assert there.read_bytes() == before
    there.unlink()
    assert carry_out(choice, asked, dist) == there


def test_a_site_is_asked_for_the_wheel(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    wheel = built(asked, tmp_path / "wheels")
    site = tmp_path / "site"
    place = site / path_of(wheel.name)
    place.parent.mkdir(parents=True)
    wheel = wheel.rename(place)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    file = SiteFile(path_of(wheel.name), wheel.stat().st_size, 0, digest, digest)
    (site / "wheels.json").write_text(catalogue_text([SiteWheel(file, None, "13.0", ("sm120",), None)]))
    assert choose_way(asked, (site,)).wheel == wheel
    with serving(site) as (address, handler):
        choice = choose_way(asked, (address,))
        assert choice.way is Way.BUILT_BEFORE
        assert carry_out(choice, asked, tmp_path / "dist").read_bytes() == wheel.read_bytes()
        handler.broken, handler.way = ".whl", "short"
        assert choose_way(asked, (address,)).way is Way.BUILD


def test_a_place_that_is_no_site_is_told(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as (address, _):
        assert choose_way(request(tree, disable="nccl"), (address,)).way is Way.BUILD
    assert f"no wheel came from {address}" in capsys.readouterr().out


def test_what_a_killed_download_left_is_removed(tree: Path, tmp_path: Path) -> None:
    code = "import os\nfrom pathlib import Path\nfrom torchwheel.system.files import folder_beside\n"
    code += f"with folder_beside(Path({str(tmp_path / 'torchwheel-get')!r})):\n    os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(list(tmp_path.glob(".torchwheel-get.*"))) == 1
    plan = make_plan(survey(request(tree)))
    with pytest.raises(TorchwheelError):
        ready_wheels.fetch_wheel(plan.folders.cache, ("--no-index", "torch==0"), tmp_path, dict(os.environ))
    assert list(tmp_path.glob(".torchwheel-get.*")) == []


@pytest.mark.long
@pytest.mark.network
def test_a_real_official_wheel_is_fetched_and_is_of_another_commit(tree: Path, tmp_path: Path) -> None:
    """The CPU wheel of PyTorch 2.13.0, from wherever pip gets it: PyTorch's index, or a folder of pip's settings."""
    (tree / "version.txt").write_text("2.13.0\n")
    git(tree, "commit", "-aqm", "2.13.0")
    git(tree, "tag", "v2.13.0")
    asked = request(tree, "cpu")
    asked = replace(asked, environment={**os.environ, **asked.environment, "PIP_RETRIES": "0"})
    choice = choose_way(asked, ())
    assert choice.reasons[-1] == "the official cpu build of PyTorch 2.13.0 fits: it needs no GPU"
    (problem,) = error_of(carry_out, choice, asked, tmp_path / "with space").problems
    if problem.id == "wheel-not-fetched":
        pytest.skip("PyTorch's index cannot be reached from here")
    # The commit of v2.13.0 (torch/version.py of the official wheel).
    assert (problem.id, "cf30153c4c13" in problem.what) == ("wheel-not-official", True)
