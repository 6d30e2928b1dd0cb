"""Every kind of build and installation of PyTorch, read from its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from extension.torch_trees import (
    CUDA_LIBRARIES,
    LIBCXX_STRING,
    OLD_STRING,
    ROCM_LIBRARIES,
    TorchTree,
    install,
    libc10,
    write_metadata,
)
from torchwheel.extension.torch_install.installed_torch import (
    InstalledTorch,
    TorchOrigin,
    installed_torch,
    torch_findings,
)
from torchwheel.reporting.errors import Problem, Severity, TorchwheelError

COMMIT = "5c4886908584029761b579af026dcfb627c84070"
REINSTALL = "install PyTorch again: pip install --force-reinstall --no-deps torch"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "Bibliothèque é" / "lib/python3.11/site-packages"


def config_without_standard(abi: str) -> str:
    """The part of TorchConfig.cmake up to 2.7 that states the ABI."""
    return f'if(NOT MSVC)\n  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={abi}")\nendif()\n'


def refusal(*search_path: Path) -> Problem:
    with pytest.raises(TorchwheelError) as caught:
        installed_torch([str(folder) for folder in search_path])
    (problem,) = caught.value.problems
    return problem


class TestWheels:
    def test_everything_of_a_cpu_wheel(self, site: Path) -> None:
        root = install(site)
        sizes = f"c10={(root / 'lib/libc10.so').stat().st_size} shm=0 torch=0 torch_cpu=0 torch_global_deps=0"
        assert installed_torch([str(site)]) == InstalledTorch(
            root=root,
            site_packages=site,
            version="2.14.1+cpu",
            release=(2, 14),
            cuda=None,
            hip=None,
            cxx11_abi=True,
            cxx_standard=20,
            include_dirs=(root / "include", root / "include/torch/csrc/api/include"),
            library_dirs=(root / "lib",),
            libraries=frozenset({"c10", "shm", "torch", "torch_cpu", "torch_global_deps", "torch_python"}),
            nvidia_library_dirs=(),
            pybind11_macros=(),
            origin=TorchOrigin.PACKAGE,
            distribution=site / "torch-2.14.1+cpu.dist-info",
            distribution_version="2.14.1+cpu",
            identity=f"2.14.1+cpu {COMMIT} {sizes} torch_python=0",
        )

    def test_a_cuda_wheel_of_pypi(self, site: Path) -> None:
        tree = TorchTree(version="2.14.1+cu130", cuda="13.0", debug=True, libraries=CUDA_LIBRARIES)
        install(site, tree, metadata="2.14.1")
        for file in (
            "cu13/lib/libcudart.so.13",
            "cudnn/lib/libcudnn.so.9",
            "cu13/bin/nvcc",
            "cccl/lib/cmake/a",
        ):
            (site / "nvidia" / file).parent.mkdir(parents=True, exist_ok=True)
            (site / "nvidia" / file).write_bytes(b"")
        torch = installed_torch([str(site)])
        assert (torch.version, torch.cuda, torch.hip) == ("2.14.1+cu130", "13.0", None)
        assert (torch.distribution_version, torch.origin) == ("2.14.1", TorchOrigin.PACKAGE)
        assert torch.libraries >= {"c10_cuda", "torch_cuda"}
        assert torch.nvidia_library_dirs == (site / "nvidia/cu13/lib", site / "nvidia/cudnn/lib")

    def test_a_rocm_wheel(self, site: Path) -> None:
        tree = TorchTree(
            version="2.6.0+rocm6.2.4", hip="6.2.41134-65d174c3e", libraries=ROCM_LIBRARIES, config=""
        )
        root = install(site, tree)
        for name in ("libamdhip64.so", "rocblas/library/TensileLibrary_gfx90a.co", "libroctx64.so"):
            (root / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "lib" / name).write_bytes(b"")
        torch = installed_torch([str(site)])
        assert (torch.cuda, torch.hip, torch.release) == (None, "6.2.41134-65d174c3e", (2, 6))
        assert torch.libraries >= {"torch_hip", "c10_hip", "amdhip64", "roctx64"}

    def test_libraries_of_windows(self, tmp_path: Path) -> None:
        site = tmp_path / "Lib/site-packages"
        tree = TorchTree(
            version="2.6.0+cpu", library_name="{}.lib", c10=b"!<arch>\n", config=config_without_standard("")
        )
        root = install(site, tree)
        for name in ("c10.dll", "uv.dll", "libiomp5md.dll"):
            (root / "lib" / name).write_bytes(b"MZ")
        torch = installed_torch([str(site)])
        assert torch.libraries == {"c10", "shm", "torch", "torch_cpu", "torch_global_deps", "torch_python"}
        assert torch.origin is TorchOrigin.PACKAGE

    def test_libraries_of_macos(self, site: Path) -> None:
        install(site, TorchTree(version="2.8.0", library_name="lib{}.dylib", c10=b"\xcf\xfa\xed\xfe"))
        torch = installed_torch([str(site)])
        assert torch.libraries >= {"c10", "torch_python"}
        assert torch.cxx11_abi is True

    def test_no_library_that_a_linker_does_not_find_by_name(self, site: Path) -> None:
        root = install(site)
        (root / "lib/libgomp-a34b3233.so.1").write_bytes(b"")
        (root / "lib/libbroken.so").symlink_to("nowhere")
        (root / "lib/libfolder.so").mkdir()
        assert installed_torch([str(site)]).libraries == {
            *("c10", "shm", "torch", "torch_cpu", "torch_global_deps", "torch_python")
        }

    def test_headers_without_the_cpp_api(self, site: Path) -> None:
        root = install(site)
        shutil.rmtree(root / "include/torch")
        assert installed_torch([str(site)]).include_dirs == (root / "include",)

    @pytest.mark.parametrize(("version", "older"), [("2.6.0", ("THC",)), ("2.7.0", ())])
    def test_older_folders_of_headers(self, site: Path, version: str, older: tuple[str, ...]) -> None:
        root = install(site, TorchTree(version=version))
        (root / "include/THC").mkdir()
        folders = ("include", "include/torch/csrc/api/include", *(f"include/{name}" for name in older))
        assert installed_torch([str(site)]).include_dirs == tuple(root / folder for folder in folders)


class TestAbi:
    @pytest.mark.parametrize(("said", "new"), [("0", False), ("1", True)])
    def test_torch_config_counts_first(self, site: Path, said: str, new: bool) -> None:
        install(site, TorchTree(version="2.6.0+cu124", config=config_without_standard(said)))
        assert installed_torch([str(site)]).cxx11_abi is new

    @pytest.mark.parametrize("version", ["2.6.0", "2.14.1"])
    @pytest.mark.parametrize("config", ["", config_without_standard("")])
    def test_then_the_symbols(self, site: Path, version: str, config: str) -> None:
        install(site, TorchTree(version=version, config=config, c10=libc10(OLD_STRING)))
        assert installed_torch([str(site)]).cxx11_abi is False

    @pytest.mark.parametrize(("version", "new"), [("2.6.0", False), ("2.7.0", True), ("2.10.0", True)])
    def test_then_what_the_wheels_are(self, site: Path, version: str, new: bool) -> None:
        install(site, TorchTree(version=version, config="", c10=libc10(LIBCXX_STRING)))
        assert installed_torch([str(site)]).cxx11_abi is new


class TestStandard:
    @pytest.mark.parametrize(
        ("version", "config", "header", "standard"),
        [
            ("2.0.1", 17, "201402L", 17),
            ("2.11.0", 17, "201703L", 17),
            ("2.12.0", 20, "201703L", 20),
            ("2.14.1", 20, "202002L", 20),
            ("2.20.0", 17, "202002L", 20),
            ("2.30.0", 23, "202302L", 23),
        ],
    )
    def test_the_highest_of_both(
        self, site: Path, version: str, config: int, header: str, standard: int
    ) -> None:
        install(
            site,
            TorchTree(
                version=version, config=f"    CXX_STANDARD {config}\n", header=f"#if __cplusplus < {header}\n"
            ),
        )
        assert installed_torch([str(site)]).cxx_standard == standard

    @pytest.mark.parametrize(("version", "standard"), [("2.0.1", 17), ("2.6.0", 17), ("2.14.1", 20)])
    def test_what_is_known_of_the_release(self, site: Path, version: str, standard: int) -> None:
        install(site, TorchTree(version=version, config="", header=""))
        assert installed_torch([str(site)]).cxx_standard == standard


class TestOtherInstallations:
    def test_debian(self, tmp_path: Path) -> None:
        """Libraries, CMake files and headers below /usr, links to them in the package, metadata of an egg."""
        usr = tmp_path / "usr"
        root = usr / "lib/python3/dist-packages/torch"
        triplet = usr / "lib/x86_64-linux-gnu"
        tree = TorchTree(version="2.6.0", c10=libc10("none"), config=config_without_standard("1"))
        tree.write_python(root)
        tree.write_version(root)
        tree.write_headers(usr / "include")
        tree.write_config(triplet / "cmake")
        tree.write_libraries(triplet / "real")
        (root / "lib").mkdir()
        for library in (triplet / "real").iterdir():
            library.rename(triplet / f"{library.name}.2.6")
            (root / "lib" / library.name).symlink_to(
                os.path.relpath(triplet / f"{library.name}.2.6", root / "lib")
            )
        (root / "include").mkdir()
        for name in ("ATen", "c10", "torch"):
            (root / "include" / name).symlink_to(os.path.relpath(usr / "include" / name, root / "include"))
        egg = root.parent / "torch-2.6.0.egg-info"
        egg.mkdir()
        (egg / "PKG-INFO").write_text(
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n", encoding="utf-8"
        )
        torch = installed_torch([str(root.parent)])
        assert torch.origin is TorchOrigin.SYSTEM
        assert torch.cxx11_abi is True  # as libc10, without symbols, and the release would not have it
        assert torch.include_dirs == (root / "include", root / "include/torch/csrc/api/include")
        assert torch.library_dirs == (root / "lib",)
        assert torch.libraries >= {"c10", "torch", "torch_cpu", "torch_python"}
        assert torch.distribution_version == "2.6.0"

    def test_conda_with_everything_in_the_prefix(self, tmp_path: Path) -> None:
        prefix = tmp_path / "envs/a b"
        root = prefix / "lib/python3.11/site-packages/torch"
        tree = TorchTree(version="2.4.1")
        tree.write_python(root)
        tree.write_version(root)
        tree.write_headers(prefix / "include")
        tree.write_libraries(prefix / "lib/all")
        for library in (prefix / "lib/all").iterdir():
            library.rename(prefix / "lib" / library.name)
        (prefix / "lib/libz.so").write_bytes(b"")
        # What conda-forge's 2.4 forgot: https://github.com/conda-forge/pytorch-cpu-feedstock/issues/313
        (root / "lib").mkdir()
        for name in ("c10", "torch", "torch_cpu", "shm"):
            (root / f"lib/lib{name}.so").symlink_to(f"../../../../lib{name}.so")
        tree.write_config(prefix / "share/cmake")
        write_metadata(root.parent, "2.4.1", installer="conda")
        torch = installed_torch([str(root.parent)])
        assert torch.origin is TorchOrigin.PACKAGE
        assert torch.include_dirs == (prefix / "include", prefix / "include/torch/csrc/api/include")
        assert torch.library_dirs == (root / "lib", prefix / "lib")
        assert torch.libraries == {"c10", "torch", "torch_cpu", "shm", "torch_python", "torch_global_deps"}
        assert torch.cxx_standard == 20

    def test_conda_on_windows(self, tmp_path: Path) -> None:
        root = tmp_path / "Lib/site-packages/torch"
        tree = TorchTree(library_name="{}.lib", c10=b"!<arch>\n")
        tree.write_python(root)
        tree.write_version(root)
        tree.write_headers(root / "include")
        tree.write_libraries(tmp_path / "Library/lib")
        torch = installed_torch([str(root.parent)])
        assert torch.library_dirs == (tmp_path / "Library/lib",)
        assert torch.libraries == {"c10", "torch", "torch_cpu", "torch_global_deps", "torch_python"}

    @pytest.mark.parametrize("installer", ["rpm", "debian"])
    def test_a_distribution_that_says_so(self, site: Path, installer: str) -> None:
        TorchTree().write(site / "torch")
        write_metadata(site, "2.14.1+cpu", installer=installer)
        assert installed_torch([str(site)]).origin is TorchOrigin.SYSTEM

    def test_a_tree_built_in_place(self, tmp_path: Path) -> None:
        root = TorchTree(version="2.6.0a0+gitd0f5df8").write(tmp_path / "pytorch/torch")
        (tmp_path / "pytorch/CMakeLists.txt").write_text("project(Torch)\n", encoding="utf-8")
        torch = installed_torch([str(tmp_path / "pytorch")])
        assert (torch.root, torch.origin, torch.distribution) == (root, TorchOrigin.SOURCE_TREE, None)

    def test_setup_py_develop(self, site: Path, tmp_path: Path) -> None:
        tree = tmp_path / "pytorch"
        root = TorchTree(version="2.6.0a0+gitd0f5df8").write(tree / "torch")
        (tree / "torch.egg-info").mkdir()
        (tree / "torch.egg-info/PKG-INFO").write_text("Name: torch\nVersion: 2.6.0a0\n", encoding="utf-8")
        (tree / "CMakeLists.txt").write_text("project(Torch)\n", encoding="utf-8")
        site.mkdir(parents=True)
        (site / "easy-install.pth").write_text(f"{tree}\n", encoding="utf-8")
        (site / "torch.egg-link").write_text(f"{tree}\n.", encoding="utf-8")
        (site / "nvidia/nccl/lib").mkdir(parents=True)
        (site / "nvidia/nccl/lib/libnccl.so.2").write_bytes(b"")
        # Python has put the line of the .pth file on the path.
        torch = installed_torch([str(site), str(tree)])
        assert (torch.root, torch.site_packages, torch.origin) == (root, site, TorchOrigin.SOURCE_TREE)
        assert torch.nvidia_library_dirs == (site / "nvidia/nccl/lib",)
        assert installed_torch([str(root.parent)]).origin is TorchOrigin.SOURCE_TREE


class TestMetadata:
    def test_that_of_this_version_counts(self, site: Path) -> None:
        install(site)
        write_metadata(site, "2.13.0")
        write_metadata(site, "2.14.1")
        (site / "torchvision-0.20.dist-info").mkdir()
        (site / "~orch-2.14.1.dist-info").mkdir()
        shutil.rmtree(site / "torch-2.14.1+cpu.dist-info")
        assert installed_torch([str(site)]).distribution == site / "torch-2.14.1.dist-info"

    def test_that_of_another_version_is_reported(self, site: Path) -> None:
        install(site, metadata="2.13.0")
        assert installed_torch([str(site)]).distribution_version == "2.13.0"

    @pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"Name: torch\n"])
    def test_that_states_nothing(self, site: Path, content: bytes | None) -> None:
        install(site)
        metadata = site / "torch-2.14.1+cpu.dist-info/METADATA"
        metadata.unlink()
        if content is not None:
            metadata.write_bytes(content)
        torch = installed_torch([str(site)])
        assert (torch.distribution, torch.distribution_version) == (metadata.parent, None)


class TestIdentity:
    def test_the_same_wheel_in_another_environment(self, tmp_path: Path) -> None:
        one, other = tmp_path / "1/site-packages", tmp_path / "2/site-packages"
        install(one)
        library = install(other) / "lib/libc10.so"
        os.utime(library, (1, 1))
        assert installed_torch([str(one)]).identity == installed_torch([str(other)]).identity

    @pytest.mark.parametrize(
        "change",
        [
            {"version": "2.14.2+cpu"},
            {"git_version": "0" * 40},
            {"c10": libc10(OLD_STRING, "more")},
            {"libraries": CUDA_LIBRARIES},
        ],
    )
    def test_another_build(self, tmp_path: Path, change: dict[str, Any]) -> None:
        one, other = tmp_path / "1/site-packages", tmp_path / "2/site-packages"
        install(one)
        install(other, TorchTree(**change))
        assert installed_torch([str(one)]).identity != installed_torch([str(other)]).identity

    def test_a_tree_that_is_built_again(self, tmp_path: Path) -> None:
        root = TorchTree().write(tmp_path / "torch")
        (tmp_path / "CMakeLists.txt").write_text("", encoding="utf-8")
        before = installed_torch([str(root.parent)]).identity
        os.utime(root / "lib/libtorch_cpu.so", (1, 1))
        assert installed_torch([str(root.parent)]).identity != before


class TestBroken:
    def test_none_at_all(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, tmp_path / "missing") == Problem.of("torch-not-installed")

    def test_a_folder_that_was_left_over(self, site: Path) -> None:
        left = site / "torch"
        (left / "lib").mkdir(parents=True)
        assert refusal(site) == Problem.of("torch-unreadable/leftovers", folder=left)

    def test_no_version_file(self, site: Path) -> None:
        root = install(site)
        (root / "version.py").unlink()
        assert refusal(site) == Problem(
            id="torch-unreadable",
            what=f"{root / 'version.py'} cannot be read",
            remedy=REINSTALL,
            why="the build writes this file: the source tree is not built, or the installation is incomplete",
        )

    def test_a_folder_for_a_version_file(self, site: Path) -> None:
        root = install(site)
        (root / "version.py").unlink()
        (root / "version.py").mkdir()
        assert refusal(site).what == f"{root / 'version.py'} cannot be read"

    @pytest.mark.parametrize("content", ["__version__ = (", "\0"])
    def test_a_version_file_that_is_not_python(self, site: Path, content: str) -> None:
        root = install(site)
        (root / "version.py").write_text(content, encoding="utf-8")
        problem = refusal(site)
        assert (problem.id, problem.what) == ("torch-unreadable", f"{root / 'version.py'} is damaged")
        assert problem.why.startswith("this is not Python: ")

    @pytest.mark.parametrize(
        ("line", "value"), [("", "None"), ("__version__ = 'x'", "'x'"), ("__version__ = 2", "None")]
    )
    def test_a_version_file_without_a_version(self, site: Path, line: str, value: str) -> None:
        root = install(site)
        (root / "version.py").write_text(f"{line}\n", encoding="utf-8")
        assert refusal(site) == Problem(
            id="torch-unreadable",
            what=f"{root / 'version.py'} states no version of PyTorch",
            remedy=REINSTALL,
            why=f"__version__ is {value}",
        )

    def test_a_version_file_is_not_run(self, site: Path, tmp_path: Path) -> None:
        root = install(site)
        trace = tmp_path / "trace"
        for name in ("version.py", "__init__.py"):
            with (root / name).open("a", encoding="utf-8") as stream:
                stream.write(f"open({str(trace)!r}, 'w')\n")
        assert installed_torch([str(site)]).version == "2.14.1+cpu"
        assert not trace.exists()

    def test_a_library_that_is_cut_off(self, site: Path) -> None:
        library = install(site) / "lib/libc10.so"
        library.write_bytes(library.read_bytes()[:100])
        problem = refusal(site)
        assert (problem.id, problem.origin) == ("damaged-library", str(library))


DEVELOPMENT_FILES = (
    "install the package with its development files too: on Debian and Ubuntu, apt-get install libtorch-dev"
)
FINISH = "finish the build of that source tree"


def read(site: Path) -> InstalledTorch:
    return installed_torch([str(site)])


def test_nothing_is_wrong_with_a_good_one(tmp_path: Path) -> None:
    install(tmp_path)
    assert list(torch_findings(read(tmp_path))) == []


@pytest.mark.parametrize(
    ("kind", "remedy"), [("wheel", REINSTALL), ("system", DEVELOPMENT_FILES), ("tree", FINISH)]
)
def test_parts_are_missing(tmp_path: Path, kind: str, remedy: str) -> None:
    root = TorchTree().write(tmp_path / "torch")
    if kind == "tree":
        (tmp_path / "CMakeLists.txt").write_text("", encoding="utf-8")
    elif kind == "wheel":
        write_metadata(tmp_path, "2.14.1+cpu")
    shutil.rmtree(root / "include")
    for name in ("torch", "torch_cpu"):
        (root / f"lib/lib{name}.so").unlink()
    findings = list(torch_findings(read(tmp_path)))
    assert [finding.severity for finding in findings] == [Severity.ERROR, Severity.ERROR]
    assert [finding.problem for finding in findings] == [
        Problem(
            id="torch-without-headers",
            what=f"PyTorch 2.14.1+cpu in {root} has no headers",
            remedy=remedy,
            why="extensions are compiled against them: torch/include, with c10/macros/Macros.h",
        ),
        Problem(
            id="torch-without-libraries",
            what=f"PyTorch 2.14.1+cpu in {root} lacks libraries: torch, torch_cpu",
            remedy=remedy,
            why="extensions are linked against them",
        ),
    ]


@pytest.mark.parametrize("stated", ["2.13.0", "2.14.1+cu130", "2.14.1a0", "unknown"])
def test_metadata_of_another_version(tmp_path: Path, stated: str) -> None:
    install(tmp_path, metadata=stated)
    (finding,) = torch_findings(read(tmp_path))
    assert finding.severity is Severity.WARNING
    assert finding.problem == Problem.of(
        "torch-version-mismatch",
        origin=tmp_path / f"torch-{stated}.dist-info",
        torch="2.14.1+cpu",
        stated=stated,
    )


@pytest.mark.parametrize(
    ("version", "stated"),
    [
        ("2.14.1+cu130", "2.14.1"),
        ("1.13.0a0", "1.13.0a0+gitunknown"),
        ("2.6.0a0+git2236df1", "2.6.0a0+git2236df1"),
        ("2.14.1+cu130.sm120", "2.14.1+CU130-sm120"),
    ],
)
def test_metadata_of_the_same_version(tmp_path: Path, version: str, stated: str) -> None:
    TorchTree(version=version).write(tmp_path / "torch")
    write_metadata(tmp_path, "x").joinpath("METADATA").write_text(
        f"Name: torch\nVersion: {stated}\n", encoding="utf-8"
    )
    assert list(torch_findings(read(tmp_path))) == []


# Keys as they stand in the libraries of these releases' own wheels.
GCC_9 = (
    ("PYBIND11_COMPILER_TYPE", '"_gcc"'),
    ("PYBIND11_STDLIB", '"_libstdcpp"'),
    ("PYBIND11_BUILD_ABI", '"_cxxabi1011"'),
)
CLANG = (
    ("PYBIND11_COMPILER_TYPE", '"_clang"'),
    ("PYBIND11_STDLIB", '"_libcpp"'),
    ("PYBIND11_BUILD_ABI", '"_cxxabi1002"'),
)


@pytest.mark.parametrize(
    ("version", "library_name", "key", "macros"),
    [
        ("2.6.0", "lib{}.so", b"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__", GCC_9),
        ("2.8.0", "lib{}.dylib", b"__pybind11_internals_v4_clang_libcpp_cxxabi1002__", CLANG),
        ("2.6.0", "{}.dll", b"__pybind11_internals_v5_msvc_mscver1929__", ()),
        (
            "2.8.0",
            "lib{}.so",
            b"__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__",
            (),
        ),
        ("2.9.0", "lib{}.so", b"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__", ()),
        ("2.8.0", "lib{}.so", b"", ()),
    ],
)
def test_pybind11_macros_by_release(
    tmp_path: Path, version: str, library_name: str, key: bytes, macros: tuple[tuple[str, str], ...]
) -> None:
    root = install(tmp_path, TorchTree(version=version))
    (root / "lib/libtorch_python.so").unlink()
    library = root / "lib" / library_name.format("torch_python")
    library.write_bytes(b"\x7fELF" + bytes(9000) + key + b"\0__pybind11_internals")
    assert installed_torch([str(tmp_path)]).pybind11_macros == macros


@pytest.mark.parametrize("content", [b"", b"no key"])
def test_pybind11_of_a_library_without_a_key(tmp_path: Path, content: bytes) -> None:
    root = install(tmp_path, TorchTree(version="2.6.0"))
    (root / "lib/libtorch_python.so").write_bytes(content)
    assert installed_torch([str(tmp_path)]).pybind11_macros == ()
