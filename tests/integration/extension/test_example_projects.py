"""examples/texture_kernels and examples/stable_kernel: built with a real PyTorch, and tested by their own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backend.builds import LATER
from integration.fleet.test_variants import UV, forced, reads_variants
from places import REPOSITORY
from torchwheel.fleet.site import Choices, update_site
from torchwheel.hardware.arch import parse_architectures
from torchwheel.wheel.contents import WheelContents, inspect_wheel, read_library, runnable_architectures
from torchwheel.wheel.fatbinary import ImageKind
from wheel_samples import agrees_with_record

EXAMPLES = REPOSITORY / "examples"
WAYS = ("tables", "setup_py", "cmake")
ARCHITECTURES = "8.0;9.0;12.0;12.1"
EPOCH = "1700000000"

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1800)]


def environment(python: str, **variables: str) -> dict[str, str]:
    """What a build needs of this process, with the interpreter's own programs first."""
    kept = ("CCACHE_DIR", "HOME", "LANG", "SYSTEMROOT", "TEMP", "TMPDIR", "XDG_CACHE_HOME")
    path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PATH": path} | variables


def check(*command: str | Path, cwd: Path, env: dict[str, str]) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def texture_kernels(way: str, folder: Path) -> Path:
    project = folder / "texture kernels"
    script = EXAMPLES / "texture_kernels" / "tools" / "make_project.py"
    check(sys.executable, "-B", script, way, project, cwd=folder, env=environment(sys.executable))
    return project


def stable_kernel(folder: Path) -> Path:
    leftovers = shutil.ignore_patterns("__pycache__", "build", "dist", ".pytest_cache")
    return Path(shutil.copytree(EXAMPLES / "stable_kernel", folder / "stable_kernel", ignore=leftovers))


def build_wheel(
    python: str, project: Path, *settings: str, before: tuple[str, ...] = (), **variables: str
) -> WheelContents:
    """Builds the wheel beside the project, with the PyTorch of the interpreter."""
    command = [
        *before,
        python,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        project.parent / "dist",
    ]
    config = [f"--config-settings={setting}" for setting in settings]
    check(*command, *config, project, cwd=project.parent, env=environment(python, **variables))
    (wheel,) = (project.parent / "dist").glob("*.whl")
    assert agrees_with_record(wheel)
    return inspect_wheel(wheel)


def built_elsewhere(
    python: str, way: str, folder: Path, *settings: str, before: tuple[str, ...] = ()
) -> WheelContents:
    """The same wheel from another folder, with another cache and no compiler cache, one job at a time."""
    other = folder / "an other é path"
    other.mkdir()
    own = {"TORCHWHEEL_CACHE_DIR": str(other / "cache"), "CCACHE_DISABLE": "1", "MAX_JOBS": "1"}
    project = texture_kernels(way, other)
    own |= {"SOURCE_DATE_EPOCH": EPOCH, "TZ": "Asia/Tokyo"}
    return build_wheel(python, project, *settings, before=before, **own)


def passed(python: str, wheel: WheelContents, project: Path) -> int:
    """How many of the project's own tests pass with the wheel alone: its sources are not on the search path."""
    installed = project.parent / f"installed for {Path(python).parents[1].name}"
    install = [python, "-m", "pip", "install", "--no-deps", "--target", installed, wheel.path]
    check(*install, cwd=project.parent, env=environment(python))
    tests = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    output = check(*tests, cwd=project, env=environment(python, PYTHONPATH=str(installed)))
    match = re.search(r"^(\d+) passed", output, re.MULTILINE)
    assert match is not None, output
    return int(match[1])


def device_code(wheel: WheelContents) -> str | None:
    """The architectures in a wheel, as TORCH_CUDA_ARCH_LIST would name them."""
    code = runnable_architectures(image for library in wheel.libraries for image in library.images)
    return code and code.for_torch()


@pytest.mark.parametrize("way", WAYS)
def test_texture_kernels_for_the_cpu(way: str, torch_python: str, tmp_path: Path) -> None:
    project = texture_kernels(way, tmp_path)
    wheel = build_wheel(torch_python, project, SOURCE_DATE_EPOCH=EPOCH)
    if way == "setup_py":
        again = built_elsewhere(torch_python, way, tmp_path, before=LATER)
        assert again.path.read_bytes() == wheel.path.read_bytes()
    assert [library.path for library in wheel.libraries] == [f"texture_kernels/_C{suffix()}"]
    assert {tag.rpartition("-")[0] for tag in wheel.tags} == {"cp310-abi3"}
    assert device_code(wheel) is None
    assert passed(torch_python, wheel, project) >= 129


@pytest.mark.parametrize("way", WAYS)
def test_texture_kernels_for_cuda(way: str, cuda_torch_python: str, tmp_path: Path) -> None:
    project = texture_kernels(way, tmp_path)
    wheel = build_wheel(cuda_torch_python, project, f"arch={ARCHITECTURES}", SOURCE_DATE_EPOCH=EPOCH)
    if way == "cmake":
        again = built_elsewhere(cuda_torch_python, way, tmp_path, f"arch={ARCHITECTURES}")
        assert again.path.read_bytes() == wheel.path.read_bytes()
    assert [library.path for library in wheel.libraries] == [f"texture_kernels/_C{suffix()}"]
    assert device_code(wheel) == parse_architectures(ARCHITECTURES).for_torch()
    assert passed(cuda_torch_python, wheel, project) >= 129


@pytest.mark.skipif(not reads_variants(), reason="uv 0.13.9 or newer is not here")
def test_every_gpu_takes_its_own_texture_kernels(cuda_torch_python: str, tmp_path: Path) -> None:
    """As the files of examples/ci do it: a job for each target, the wheels gathered, a site of them, and uv."""
    gathered = []
    for target in ("h100", "rtx5070"):
        (tmp_path / target).mkdir()
        project = texture_kernels("tables", tmp_path / target)
        gathered.append(build_wheel(cuda_torch_python, project, f"target={target}").path)
    update_site(tmp_path / "site", gathered, {}, Choices(variants=True))
    site = (tmp_path / "site" / "simple").as_uri()
    taken = {}
    for gpu in ("9.0", "12.1"):
        place = tmp_path / f"installed for {gpu}"
        options = [
            "--preview-features",
            "wheel-variants",
            "--no-deps",
            "--index-url",
            site,
            "--target",
            place,
        ]
        command = [UV, "pip", "install", *options, "--python", cuda_torch_python, "texture-kernels"]
        check(*map(str, command), cwd=tmp_path, env=environment(sys.executable, **forced(gpu)))
        (module,) = (place / "texture_kernels").glob(f"_C{suffix()}")
        taken[gpu] = {
            image.label for image in read_library("library", module).images if image.kind is ImageKind.SASS
        }
    assert taken == {"9.0": {"sm90"}, "12.1": {"sm120"}}


def test_stable_kernel_without_cuda_is_one_module(torch_python: str, tmp_path: Path) -> None:
    project = stable_kernel(tmp_path)
    wheel = build_wheel(torch_python, project)
    assert [library.path for library in wheel.libraries] == [f"stable_kernel/_C{suffix()}"]
    assert passed(torch_python, wheel, project) >= 36


def test_stable_kernel_built_for_cuda_also_runs_without(
    cuda_torch_python: str, torch_python: str, tmp_path: Path
) -> None:
    """The wheel is made with one release of PyTorch for CUDA and used with another one for the CPU."""
    project = stable_kernel(tmp_path)
    wheel = build_wheel(cuda_torch_python, project, f"arch={ARCHITECTURES}")
    modules = [f"stable_kernel/{name}{suffix()}" for name in ("_C", "_cuda")]
    assert [library.path for library in wheel.libraries] == modules
    assert {tag.rpartition("-")[0] for tag in wheel.tags} == {"cp310-abi3"}
    assert device_code(wheel) == parse_architectures(ARCHITECTURES).for_torch()
    assert passed(cuda_torch_python, wheel, project) >= 36
    assert passed(torch_python, wheel, project) >= 36


def suffix() -> str:
    return ".pyd" if sys.platform == "win32" else ".abi3.so"
