"""Which toolkit compiles extensions of an installed PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import toolkit
from toolkit.site_packages import site_packages
from torchwheel.findings import Finding
from torchwheel.hardware.arch import parse_architectures
from torchwheel.host.described import described_host
from torchwheel.settings import load_settings
from torchwheel.toolkit.for_extensions import ExtensionNeeds, ExtensionToolkit, toolkit_for_extensions
from torchwheel.toolkit.found_for_extensions import find_toolkit_for_extensions
from torchwheel.toolkit.packages import requirements_for
from torchwheel.toolkit.pypi import packaged_toolkit
from torchwheel.toolkit.sources import PackagedToolkit
from torchwheel.versions import read_range


def needs(
    torch_cuda: str = "13.0", arch: str = "9.0;12.0", platform: str = "linux_x86_64", **more: str
) -> ExtensionNeeds:
    return ExtensionNeeds(torch_cuda, parse_architectures(arch).architectures, platform, **more)


def ids(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{finding.severity.value} {finding.id}" for finding in findings]


def packaged(version: str) -> PackagedToolkit:
    return PackagedToolkit(toolkit(version, f"/cache/cuda-{version}"), Path(f"/env/{version}"))


NEWER, SAME, OLDER, RUNTIME = (
    toolkit("13.2"),
    toolkit("13.0"),
    toolkit("12.8"),
    toolkit("13.0", "/r", nvcc=None),
)


def test_an_installed_toolkit_of_the_same_version_comes_first() -> None:
    choice = toolkit_for_extensions(needs(), None, [OLDER, NEWER, SAME], [packaged("13.0")])
    assert choice == ExtensionToolkit(SAME, None, (), ())


def test_one_of_another_minor_version_serves_with_a_warning() -> None:
    choice = toolkit_for_extensions(needs(), None, [OLDER, NEWER])
    assert (choice.toolkit, ids(choice.findings)) == (NEWER, ["warning cuda-mismatch"])


@pytest.mark.parametrize(
    ("found", "more"),
    [
        ([], {}),
        ([OLDER, RUNTIME], {}),
        ([NEWER], {"cuda_mismatch": "error"}),
        ([SAME], {"cuda_from": "pypi"}),
    ],
)
def test_where_none_serves_pypi_s_packages_do(found: list[object], more: dict[str, str]) -> None:
    choice = toolkit_for_extensions(needs(**more), None, found, [])  # type: ignore[arg-type]
    assert (choice.toolkit, choice.requirements) == (None, requirements_for("13.0"))
    assert ids(choice.findings) == ["note toolkit-from-pypi"]
    installed = packaged("13.0")
    choice = toolkit_for_extensions(needs(**more), None, found, [packaged("13.1"), installed])  # type: ignore[arg-type]
    assert choice == ExtensionToolkit(installed.toolkit, installed.site_packages, (), ())


def test_a_toolkit_must_compile_every_architecture() -> None:
    choice = toolkit_for_extensions(needs(arch="10.7"), None, [SAME], [])
    assert choice.requirements == requirements_for("13.4")
    assert ids(choice.findings) == ["note toolkit-from-pypi", "warning cuda-mismatch"]


def test_an_installed_toolkit_without_headers_gives_way_unless_it_is_named() -> None:
    incomplete = replace(needs(), missing_headers={SAME.root: ("cublas_v2.h", "cusparse.h")})
    choice = toolkit_for_extensions(incomplete, None, [SAME], [packaged("13.0")])
    assert choice == ExtensionToolkit(packaged("13.0").toolkit, Path("/env/13.0"), (), ())
    refused = toolkit_for_extensions(replace(incomplete, cuda_from="system"), None, [SAME])
    assert [finding.problem.what for finding in refused.findings] == [
        f"no CUDA toolkit can serve: the CUDA toolkit in {SAME.root} has no cublas_v2.h, cusparse.h"
    ]
    assert toolkit_for_extensions(incomplete, SAME, []).toolkit == SAME


def test_the_cuda_setting_counts() -> None:
    narrow = replace(needs(), allowed=read_range("==13.1.*"), allowed_origin="-C cuda")
    assert toolkit_for_extensions(narrow, None, [SAME], []).requirements == requirements_for("13.1")


def test_a_named_toolkit_is_taken_or_refused() -> None:
    assert toolkit_for_extensions(needs(), SAME, [NEWER]) == ExtensionToolkit(SAME, None, (), ())
    refused = toolkit_for_extensions(needs(), OLDER, [SAME])
    assert (refused.toolkit, ids(refused.findings)) == (OLDER, ["error cuda-mismatch"])
    allowed = toolkit_for_extensions(needs(cuda_mismatch="allow"), OLDER, [SAME])
    assert ids(allowed.findings) == ["warning cuda-mismatch"]


def test_cuda_12_cannot_come_from_pypi() -> None:
    choice = toolkit_for_extensions(needs("12.8"), None, [SAME])
    assert [finding.render() for finding in choice.findings] == [
        "error: no CUDA toolkit can serve: the CUDA toolkit is of 13.0, but the installed PyTorch was built with CUDA "
        "12.8  [no-cuda-toolkit]\n"
        "    why: nvcc of CUDA 12.8 cannot be installed from PyPI; its packages for CUDA 12.8 hold ptxas and headers "
        "alone; nvcc is in those of 13.0 and later\n"
        "    fix: install NVIDIA's CUDA 12.8 toolkit (https://developer.nvidia.com/cuda-toolkit-archive) and name it "
        "with -C cuda-path=, or use a PyTorch with CUDA 13.0 or later"
    ]
    asked = toolkit_for_extensions(needs("12.8", cuda_from="pypi"), None, [OLDER])
    assert ids(asked.findings) == ["error no-nvcc-on-pypi"]


def test_system_keeps_away_from_pypi() -> None:
    choice = toolkit_for_extensions(needs(cuda_from="system"), None, [], [packaged("13.0")])
    assert [finding.render() for finding in choice.findings] == [
        "error: no CUDA toolkit was found  [no-cuda-toolkit]\n"
        "    why: cuda-from is system, so PyPI's packages are not used\n"
        "    fix: leave cuda-from out, so that PyPI's packages serve, or name a toolkit with -C cuda-path="
    ]


def test_platforms_and_architectures_that_pypi_does_not_serve() -> None:
    other = toolkit_for_extensions(
        needs(platform="win_arm64", cuda_from="pypi", cuda_mismatch="error"), None, []
    )
    assert ids(other.findings) == ["error no-packages-for-platform"]
    old = toolkit_for_extensions(needs(arch="6.1", cuda_from="pypi"), None, [])
    assert [finding.render() for finding in old.findings] == [
        "error: PyPI has no CUDA that serves a PyTorch with CUDA 13.0  [pypi-cannot-serve]\n"
        "    why: sm_61 is compiled by CUDA 11.0 to 12.9\n"
        "    fix: build for other architectures with -C arch=, or widen the range with -C cuda= or -C cuda-mismatch="
    ]


def test_the_packages_of_an_environment_are_found(tmp_path: Path) -> None:
    host = described_host("linux_x86_64", python_version="3.11.7")
    packages = site_packages(tmp_path / "site-packages")

    def found(**config: str) -> ExtensionToolkit:
        settings = load_settings(
            None, {k.replace("_", "-"): v for k, v in config.items()}, {}, host, tmp_path
        )
        architectures = parse_architectures("12.0").architectures
        places = [tmp_path / "none", packages, packages]
        return find_toolkit_for_extensions(
            settings, "13.0", architectures, "linux_x86_64", {}, places, tmp_path / "cache"
        )

    made = packaged_toolkit(packages, tmp_path / "cache", ())
    assert made is not None
    assert found(cuda_from="pypi") == ExtensionToolkit(made.toolkit, packages, (), ())
    named = tmp_path / "cuda"
    (named / "bin").mkdir(parents=True)
    (named / "bin" / "nvcc").write_text("compiler", encoding="utf-8")
    (named / "version.json").write_text('{"cuda_nvcc": {"version": "13.0.88"}}', encoding="utf-8")
    choice = found(cuda_path=str(named))
    assert choice.toolkit is not None
    assert (choice.toolkit.root, choice.toolkit.origin, choice.findings) == (str(named), "-C cuda-path", ())


def test_missing_headers_are_looked_for(tmp_path: Path) -> None:
    folder = tmp_path / "cuda-13.0"
    for name in ("bin/nvcc", "include/cuda_runtime_api.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(mode=0o755)
    (folder / "include" / "cuda.h").write_text("#define CUDA_VERSION 13000\n", encoding="utf-8")
    settings = load_settings(tmp_path, {"cuda-from": "system"}, {}, described_host("linux_x86_64"), tmp_path)
    environment = {"CUDA_HOME": str(folder)}
    choice = find_toolkit_for_extensions(settings, "13.0", (), "linux_x86_64", environment, [], tmp_path)
    (finding,) = choice.findings
    assert f"{folder} has no cublas_v2.h, cublasLt.h, cusolverDn.h, cusparse.h" in finding.problem.what
