"""examples/minitorch, built by its own backends alone: what torchwheel's other tests stand on."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from backend.builds import GENERATIONS, HEADERS, LICENSES, MODULES
from places import MINITORCH

BUILD_OUTPUTS = ("build/", "dist/", "torch.egg-info/")

OPERATORS = """
import json, torch
a = torch.tensor([[1, 2], [3, 4]])
print(json.dumps({
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "arch list": torch.cuda.get_arch_list(),
    "backends": torch.distributed.backends(),
    "add": (a + a).tolist(),
    "mul": (2 * a).tolist(),
    "matmul": torch.matmul(a, a).tolist(),
    "sum": a.sum().item(),
    "ones": repr(torch.ones(1, 2)),
    "shape": a.shape,
    "dtype": a.dtype,
    "attention": torch.scaled_dot_product_attention(torch.ones(1, 2), a, a).tolist()[0],
    "settings": dict(line.strip().split("=", 1) for line in torch.__config__.show().splitlines()[1:]),
}))
"""


def clean_environment(**variables: str) -> dict[str, str]:
    """What a build needs from this process, without the settings that a developer may have in the shell."""
    kept = ("HOME", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMPDIR")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    scripts = sysconfig.get_path("scripts")
    return environment | {"PATH": scripts + os.pathsep + os.environ["PATH"]} | variables


def run(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8"
    )


def check(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> str:
    result = run(*command, cwd=cwd, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def make_tree(generation: str, destination: Path) -> Path:
    script = MINITORCH / "tools" / "make_generation.py"
    check(sys.executable, script, generation, destination, cwd=MINITORCH, env=clean_environment())
    return destination


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def library(name: str) -> set[str]:
    """The files of a shared library in a wheel of this platform."""
    if sys.platform == "win32":
        return {f"torch/lib/{name}.dll", f"torch/lib/{name}.lib"}
    return {f"torch/lib/lib{name}.{'dylib' if sys.platform == 'darwin' else 'so'}"}


def package_files(*libraries: str) -> set[str]:
    """Every file that a wheel has below torch/."""
    test_program = "torch/test/test_operators" + (".exe" if sys.platform == "win32" else "")
    return (
        {f"torch/include/{name}" for name in HEADERS}
        | {f"torch/{name}" for name in MODULES}
        | {f"torch/_C{sysconfig.get_config_var('EXT_SUFFIX')}", test_program}
        | set().union(*(library(name) for name in libraries))
    )


@dataclass(frozen=True)
class Build:
    generation: str
    tree: Path
    sources: frozenset[str]
    wheel: Path


def build_wheel(generation: str, folder: Path, **variables: str) -> Build:
    tree = make_tree(generation, folder / "tree")
    sources = frozenset(files_of(tree))
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check")
    check(*command, "--outdir", folder / "dist", tree, cwd=folder, env=clean_environment(**variables))
    (wheel,) = (folder / "dist").glob("*.whl")
    return Build(generation, tree, sources, wheel)


def run_installed(wheel: Path, folder: Path) -> dict[str, object]:
    """Installs a wheel into a new virtual environment and runs every operator there."""
    environment = clean_environment()
    venv = folder / "venv"
    check(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder, env=environment)
    python = venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    check(*install, cwd=folder, env=environment)
    return dict(json.loads(check(python, "-c", OPERATORS, cwd=folder, env=environment)))


@pytest.fixture(scope="module", params=GENERATIONS)
def cpu_build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    version = {"PYTORCH_BUILD_VERSION": "2.14.1+cpu", "PYTORCH_BUILD_NUMBER": "1"}
    folder = tmp_path_factory.mktemp("cpu build")
    return build_wheel(
        request.param, folder, USE_CUDA="0", USE_MPI="0", USE_OPENMP="0", MAX_JOBS="2", **version
    )


def test_wheel_has_exactly_these_files(cpu_build: Build) -> None:
    with zipfile.ZipFile(cpu_build.wheel) as archive:
        names = set(archive.namelist())
    generated = {"METADATA", "RECORD", "WHEEL"}
    functorch = set()
    if cpu_build.generation == "setup.py":
        generated |= {"top_level.txt"}
        functorch = {"functorch/__init__.py", f"functorch/_C{sysconfig.get_config_var('EXT_SUFFIX')}"}
    dist_info = generated | {f"licenses/{name}" for name in LICENSES}
    assert names == package_files("c10", "torch_cpu", "torch_python") | functorch | {
        f"torch-2.14.1+cpu.dist-info/{name}" for name in dist_info
    }
    assert cpu_build.wheel.name.startswith("torch-2.14.1+cpu-cp3")


def test_build_writes_into_its_tree_as_pytorch_does(cpu_build: Build) -> None:
    written = {
        name
        for name in files_of(cpu_build.tree) - cpu_build.sources
        if not name.startswith(BUILD_OUTPUTS) and "__pycache__" not in name
    }
    modules = {f"torch/{name}" for name in MODULES}
    extension = f"torch/_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    if cpu_build.generation == "setup.py":
        installed = package_files("c10", "torch_cpu", "torch_python") - modules - {extension}
        library = "functorch/functorch.pyd" if sys.platform == "win32" else "functorch/functorch.so"
        assert written == installed | {"torch/version.py", library}
    else:
        assert written == {"torch/version.py"}


def test_setup_py_packs_all_licenses_in_one_file_and_puts_its_own_back(cpu_build: Build) -> None:
    own = (cpu_build.tree / "LICENSE").read_text(encoding="utf-8")
    with zipfile.ZipFile(cpu_build.wheel) as archive:
        packed = archive.read("torch-2.14.1+cpu.dist-info/licenses/LICENSE").decode()
    bundled = (MINITORCH / "third_party/miniblas/LICENSE").read_text(encoding="utf-8")
    added = f"\n\nthird_party/miniblas:\n\n{bundled}" if cpu_build.generation == "setup.py" else ""
    assert own == (MINITORCH / "LICENSE").read_text(encoding="utf-8")
    assert packed == own + added


def test_installed_wheel_works(cpu_build: Build, tmp_path: Path) -> None:
    result = run_installed(cpu_build.wheel, tmp_path)
    settings = result.pop("settings")
    assert isinstance(settings, dict)
    attention = result.pop("attention")
    assert attention == pytest.approx([2.888386, 3.888386], abs=1e-5)
    assert result == {
        "version": "2.14.1+cpu",
        "cuda": None,
        "arch list": [],
        "backends": ["gloo"] if sys.platform == "win32" else ["gloo", "tensorpipe"],
        "add": [[2.0, 4.0], [6.0, 8.0]],
        "mul": [[2.0, 4.0], [6.0, 8.0]],
        "matmul": [[7.0, 10.0], [15.0, 22.0]],
        "sum": 10.0,
        "ones": "tensor([[1.0, 1.0]])",
        "shape": [2, 2],
        "dtype": "torch.float32",
    }
    expected = {"BUILD_TYPE": "Release", "TORCH_VERSION": "2.14.1+cpu", "USE_CUDA": "OFF"}
    expected |= {"USE_DISTRIBUTED": "ON", "USE_MPI": "OFF", "USE_OPENMP": "OFF"}
    assert {name: settings[name] for name in expected} == expected


def fatbin_entries(path: Path) -> set[tuple[str, int]]:
    """("elf" or "ptx", architecture) of every image in a library's .nv_fatbin section.

    A container is a 16-byte header (magic, version, header size, size of the images) and images; an image
    begins with its kind, header size and size, and has its architecture at byte 28.
    """
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        assert section is not None
        data = section.data()
    entries = set()
    for match in re.finditer(re.escape(struct.pack("<I", 0xBA55ED50)), data):
        _, _, header_size, size = struct.unpack_from("<IHHQ", data, match.start())
        position = match.start() + header_size
        end = position + size
        while position < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, position)
            (architecture,) = struct.unpack_from("<I", data, position + 28)
            entries.add(({1: "ptx", 2: "elf"}[kind], architecture))
            position += entry_header + entry_size
    return entries


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_cuda_wheel_has_code_for_the_list_and_runs_without_a_gpu(tmp_path: Path) -> None:
    build = build_wheel("scikit-build-core", tmp_path, USE_CUDA="1", TORCH_CUDA_ARCH_LIST="12.0+PTX")
    with zipfile.ZipFile(build.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extract("torch/lib/libtorch_cuda.so", tmp_path)
    assert names == package_files("c10", "torch_cpu", "torch_cuda", "torch_python")
    assert fatbin_entries(tmp_path / "torch/lib/libtorch_cuda.so") == {("elf", 120), ("ptx", 120)}

    result = run_installed(build.wheel, tmp_path)
    assert result["arch list"] == ["sm_120", "compute_120"]
    assert result["backends"] == ["gloo", "nccl", "tensorpipe"]
    assert re.fullmatch(r"1\d\.\d", str(result["cuda"]))
    assert result["matmul"] == [[7.0, 10.0], [15.0, 22.0]]


def test_generations_differ_in_exactly_these_files(tmp_path: Path) -> None:
    trees = {name: files_of(make_tree(name, tmp_path / name)) for name in GENERATIONS}
    assert trees["scikit-build-core"] - trees["setup.py"] == {
        "cmake/EnvVarForwarding.cmake",
        "cmake/forward_environment.py",
        "tools/metadata/version.py",
    }
    assert trees["setup.py"] - trees["scikit-build-core"] == {
        "MANIFEST.in",
        "functorch/CMakeLists.txt",
        "functorch/__init__.py",
        "functorch/csrc/init.c",
        "setup.py",
        "tools/__init__.py",
        "tools/build_pytorch_libs.py",
        "tools/setup_helpers/__init__.py",
        "tools/setup_helpers/cmake.py",
        "tools/setup_helpers/env.py",
    }
    for name in trees["setup.py"] & trees["scikit-build-core"] - {"pyproject.toml"}:
        assert (tmp_path / "setup.py" / name).read_bytes() == (MINITORCH / name).read_bytes()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_sdist_has_the_sources_and_the_version(generation: str, tmp_path: Path) -> None:
    tree = make_tree(generation, tmp_path / "tree")
    sources = files_of(tree)
    command = (sys.executable, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check")
    version = {"PYTORCH_BUILD_VERSION": "2.14.1", "PYTORCH_BUILD_NUMBER": "1"}
    check(*command, "--outdir", tmp_path, tree, cwd=tmp_path, env=clean_environment(**version))
    with tarfile.open(tmp_path / "torch-2.14.1.tar.gz") as archive:
        names = {
            member.name.removeprefix("torch-2.14.1/") for member in archive.getmembers() if member.isfile()
        }
        metadata = archive.extractfile("torch-2.14.1/PKG-INFO")
        assert metadata is not None
        assert b"\nVersion: 2.14.1\n" in metadata.read()
    made = {"PKG-INFO"}
    if generation == "setup.py":
        made |= {"setup.cfg"} | {name for name in names if name.startswith("torch.egg-info/")}
        sources -= {".gitignore"}
    assert names == sources | made


def test_version_precedence(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(MINITORCH / "tools" / "generate_torch_version.py", tools)
    (tmp_path / "version.txt").write_text("2.14.1a0\n", encoding="utf-8")

    def version_of(**variables: str) -> str:
        code = "import generate_torch_version as g; print(g.get_torch_version())"
        result = run(sys.executable, "-c", code, cwd=tools, env=clean_environment(**variables))
        return (result.stdout + result.stderr).strip()

    assert version_of() == "2.14.1a0"

    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    check("git", "init", "-q", cwd=tmp_path, env=clean_environment())
    check(*git, "commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path, env=clean_environment())
    sha = check("git", "rev-parse", "HEAD", cwd=tmp_path, env=clean_environment())
    assert version_of() == f"2.14.1a0+git{sha[:7]}"

    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: torch\nVersion: 2.14.0\n", "utf-8")
    assert version_of() == "2.14.0"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1", PYTORCH_BUILD_NUMBER="1") == "2.14.1"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1+cpu", PYTORCH_BUILD_NUMBER="2") == "2.14.1+cpu.post2"
    assert version_of(PYTORCH_BUILD_VERSION="2.14.1") == (
        "PYTORCH_BUILD_VERSION needs PYTORCH_BUILD_NUMBER beside it; set it to 1"
    )


def read_cache(build: Path) -> dict[str, str]:
    """The entries of a CMakeCache.txt; plain ones only, as these tests use no others."""
    lines = (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    matches = (re.match(r"([A-Za-z_]\w*):\w+=(.*)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def configure(tree: Path, *defines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """CMake alone, with nothing on that costs time."""
    environment = clean_environment(USE_OPENMP="0", USE_NUMPY="0", **variables)
    command = ("cmake", "-S", tree, "-B", tree / "build", "-GNinja", f"-DPython_EXECUTABLE={sys.executable}")
    return run(*command, *defines, cwd=tree, env=environment)


def test_environment_forwarding(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "trëe with spaces")
    awkward = 'a;b "c" ]=] $x \\ é ]'
    defines = ("-DUSE_FBGEMM=OFF", "-DATEN_THREADING=OMP", "-DBUILD_TEST=OFF")
    first = configure(
        tree,
        *defines,
        USE_CUDA="0",
        USE_FBGEMM="ON",
        USE_AWKWARD=awkward,
        ATEN_THREADING="NATIVE",
        BLAS="MKL",
        CUDNN_LIB_DIR="/cudnn/lib",
        CUDAHOSTCXX="g++-12",
        CUDA_HOST_COMPILER="g++-13",
        RUN_EXITCODE="0",
        OTHER="x",
    )
    assert first.returncode == 0, first.stderr
    cache = read_cache(tree / "build")
    expected = {
        "ATEN_THREADING": "OMP",
        "BLAS": "MKL",
        "BUILD_TEST": "OFF",
        "CMAKE_CUDA_HOST_COMPILER": "g++-13",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDNN_LIBRARY": "/cudnn/lib",
        "RUN_EXITCODE": "0",
        "USE_AWKWARD": awkward,
        "USE_CUDA": "0",
        "USE_FBGEMM": "ON",
    }
    assert {name: cache.get(name) for name in [*expected, "OTHER"]} == expected | {"OTHER": None}

    # Now there is a cache: the environment still decides about USE_*, but no longer about BLAS.
    second = configure(tree, USE_CUDA="0", USE_FBGEMM="OFF", BLAS="OpenBLAS")
    assert second.returncode == 0, second.stderr
    cache = read_cache(tree / "build")
    assert (cache["USE_FBGEMM"], cache["BLAS"]) == ("OFF", "MKL")


def test_setup_py_makes_defines_of_the_environment(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")
    code = (
        "import json; from tools.setup_helpers.cmake import build_options; "
        "print(json.dumps(build_options({variables!r}, '2.13.0')))"
    )

    def options(**variables: str) -> subprocess.CompletedProcess[str]:
        text = code.format(variables=variables)
        return run(sys.executable, "-c", text, cwd=tree, env=clean_environment())

    given = {
        "BLAS": "MKL",
        "BUILD_TEST": "0",
        "CMAKE_PREFIX_PATH": "/opt/x",
        "CUDACXX": "/low/nvcc",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDA_NVCC_EXECUTABLE": "/high/nvcc",
        "CUDNN_LIB_DIR": "/cudnn/lib",
        "OTHER": "x",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "USE_CUDA": "1",
    }
    assert json.loads(options(**given).stdout) == {
        "BLAS": "MKL",
        "BUILD_PYTHON": "ON",
        "BUILD_TEST": "OFF",
        "CMAKE_CUDA_HOST_COMPILER": "g++-13",
        "CMAKE_INSTALL_PREFIX": str(tree / "torch"),
        "CMAKE_PREFIX_PATH": sysconfig.get_path("purelib") + ";/opt/x",
        "CUDA_HOST_COMPILER": "g++-13",
        "CUDA_NVCC_EXECUTABLE": "/high/nvcc",
        "CUDNN_LIBRARY": "/cudnn/lib",
        "Python_EXECUTABLE": sys.executable,
        "TORCH_BUILD_VERSION": "2.13.0",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "USE_CUDA": "1",
        "USE_NUMPY": "ON",
    }
    refused = options(CMAKE_INSTALL_PREFIX="/usr")
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        1,
        "",
        "CMAKE_INSTALL_PREFIX should not be set in the environment: setup.py installs into torch/\n",
    )


@pytest.mark.long
def test_setup_py_configures_only_once(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")

    def fbgemm_after(value: str, *arguments: str, **variables: str) -> str:
        environment = clean_environment(
            USE_CUDA="0", USE_FBGEMM=value, USE_NUMPY="0", USE_OPENMP="0", **variables
        )
        check(sys.executable, "setup.py", "build", *arguments, cwd=tree, env=environment)
        return read_cache(tree / "build")["USE_FBGEMM"]

    assert fbgemm_after("ON", "--cmake-only") == "ON"
    assert fbgemm_after("OFF", "--cmake-only") == "ON"
    assert fbgemm_after("OFF", "--cmake-only", "--cmake") == "OFF"
    assert fbgemm_after("ON", CMAKE_ONLY="1", CMAKE_FRESH="1") == "ON"
    assert not (tree / "torch" / "lib").exists()


def test_cuda_asked_for_and_missing_is_an_error(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    nowhere = f"-DCUDA_TOOLKIT_ROOT_DIR={tmp_path / 'nowhere'}"
    failed = configure(tree, nowhere, USE_CUDA="1")
    assert failed.returncode == 1
    assert "USE_CUDA is ON, but CUDA was not found." in failed.stderr

    shutil.rmtree(tree / "build")
    fallen = configure(tree, nowhere)
    assert fallen.returncode == 0, fallen.stderr
    assert "-- Not compiling with USE_CUDA: CUDA was not found." in fallen.stdout
    cache = read_cache(tree / "build")
    assert [cache[name] for name in ("USE_CUDA", "USE_CUDNN", "USE_NCCL")] == ["OFF", "OFF", "OFF"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_missing_submodule_is_named(generation: str, tmp_path: Path) -> None:
    tree = make_tree(generation, tmp_path / "tree")
    shutil.rmtree(tree / "third_party" / "miniblas")
    (tree / "third_party" / "miniblas").mkdir()
    if generation == "setup.py":
        environment = clean_environment(USE_CUDA="0")
        failed = run(sys.executable, "setup.py", "build", cwd=tree, env=environment)
    else:
        failed = configure(tree, USE_CUDA="0")
    assert failed.returncode == 1
    message = " ".join(failed.stderr.split())
    expected = "third_party/miniblas is empty. Did you run 'git submodule update --init --recursive'?"
    assert expected in message


def arch_flags(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "select.cmake"
    module = (MINITORCH / "cmake" / "select_compute_arch.cmake").as_posix()
    script.write_text(
        f'include("{module}")\ntorch_select_nvcc_arch_flags(flags "{text}")\nmessage("${{flags}}")\n', "utf-8"
    )
    return run("cmake", "-P", script, cwd=folder, env=clean_environment())


@pytest.mark.parametrize(
    ("text", "sass", "ptx"),
    [
        ("12.0", ["120"], []),
        ("8.0;9.0a", ["80", "90a"], []),
        ("8.0  8.6 12.0f+PTX", ["80", "86", "120f"], ["120f"]),
        ("9.0+PTX;9.0", ["90"], ["90"]),
        ("Ampere;Hopper+PTX", ["80", "86", "90"], ["90"]),
    ],
)
def test_architecture_list(text: str, sass: list[str], ptx: list[str], tmp_path: Path) -> None:
    expected = [f"-gencode;arch=compute_{number},code=sm_{number}" for number in sass]
    expected += [f"-gencode;arch=compute_{number},code=compute_{number}" for number in ptx]
    assert arch_flags(text, tmp_path).stderr.strip() == ";".join(expected)


@pytest.mark.parametrize(
    ("text", "item"), [("8.0,9.0", "8.0,9.0"), ("sm_120", "sm_120"), ("8.0;120", "120"), ("12.0b", "12.0b")]
)
def test_wrong_architecture_is_named(text: str, item: str, tmp_path: Path) -> None:
    result = arch_flags(text, tmp_path)
    assert result.returncode == 1
    message = f"'{item}' in TORCH_CUDA_ARCH_LIST is no architecture: write 12.0, 12.0a, 12.0f or 12.0+PTX"
    assert message in " ".join(result.stderr.split())
