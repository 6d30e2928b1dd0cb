"""Which toolkit compiles extensions of an installed PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import toolkit
from toolkit.site_packages import site_packages
from torchwheel.hardware.arch import parse_architectures
from torchwheel.host.machine import described_host
from torchwheel.reporting.errors import Finding
from torchwheel.settings import Layer, load_settings
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.discover import find_candidates
from torchwheel.toolkit.needs import ExtensionNeeds
from torchwheel.toolkit.pypi import PackagedToolkit, packaged_toolkit, requirements_for
from torchwheel.toolkit.select import Candidates, Selection, select_toolkit

NO_OVERLAYS = Path(__file__).parent / "no-user-overlays"


def needs(
    torch_cuda: str = "13.0", arch: str = "9.0;12.0", platform: str = "linux_x86_64", **config: str
) -> ExtensionNeeds:
    host = replace(described_host(platform, python_version="3.11.7"), here=True)
    settings = load_settings(None, {k.replace("_", "-"): v for k, v in config.items()}, {}, host, NO_OVERLAYS)
    return ExtensionNeeds(settings, host, parse_architectures(arch).architectures, torch_cuda)


def select(
    needs: ExtensionNeeds, installed: list[Toolkit], packaged: list[PackagedToolkit] | None = None
) -> Selection:
    return select_toolkit(needs, Candidates(installed=installed, packaged=packaged or ()))


def named(toolkit: Toolkit, **config: str) -> Selection:
    return select_toolkit(
        needs(cuda_path=toolkit.root, **config), Candidates(named=toolkit, installed=[SAME])
    )


def ids(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{finding.severity.value} {finding.id}" for finding in findings]


def packaged(version: str) -> PackagedToolkit:
    return PackagedToolkit(
        toolkit(version, f"/cache/cuda-{version}"), Path(f"/env/{version}"), ("cuda-toolkit",)
    )


NEWER, SAME, OLDER, RUNTIME = (
    toolkit("13.2"),
    toolkit("13.0"),
    toolkit("12.8"),
    toolkit("13.0", "/r", nvcc=None),
)


def test_an_installed_toolkit_of_the_same_version_comes_first() -> None:
    choice = select(needs(), [OLDER, NEWER, SAME], [packaged("13.0")])
    assert choice == Selection(SAME, Layer.DEFAULT, "found by nvcc on PATH")


def test_one_of_another_minor_version_serves_with_a_warning() -> None:
    choice = select(needs(), [OLDER, NEWER])
    assert (choice.toolkit, choice.there, ids(choice.findings)) == (NEWER, True, ["warning cuda-mismatch"])


@pytest.mark.parametrize(
    ("found", "config"), [([], {}), ([OLDER, RUNTIME], {}), ([SAME], {"cuda_from": "pypi"})]
)
def test_where_no_release_fits_pypi_s_packages_do(found: list[Toolkit], config: dict[str, str]) -> None:
    choice = select(needs(**config), found)
    assert (choice.there, choice.to_install) == (False, requirements_for("13.0"))
    assert ids(choice.findings) == ["note toolkit-from-pypi"]
    installed = packaged("13.0")
    choice = select(needs(**config), found, [packaged("13.1"), installed])
    assert (choice.toolkit, choice.site_packages) == (installed.toolkit, installed.site_packages)
    assert (choice.there, choice.to_install, ids(choice.findings)) == (True, (), ["note toolkit-from-pypi"])


def test_a_toolkit_must_compile_every_architecture() -> None:
    choice = select(needs(arch="10.7"), [SAME])
    assert choice.to_install == requirements_for("13.4")
    assert ids(choice.findings) == ["note toolkit-from-pypi", "warning cuda-mismatch"]


def test_the_cuda_setting_counts() -> None:
    assert select(needs(cuda="13.1"), [SAME]).to_install == requirements_for("13.1")


def test_a_named_toolkit_is_taken_or_refused() -> None:
    assert named(SAME) == Selection(SAME, Layer.CONFIG, "-C cuda-path")
    refused = named(OLDER)
    assert (refused.toolkit, ids(refused.findings)) == (OLDER, ["error cuda-mismatch"])


def test_cuda_12_cannot_come_from_pypi() -> None:
    choice = select(needs("12.8"), [SAME])
    assert ids(choice.findings) == ["error no-cuda-toolkit"]
    assert choice.there is False
    asked = select(needs("12.8", cuda_from="pypi"), [OLDER])
    assert (asked.toolkit, ids(asked.findings)) == (None, ["error no-nvcc-on-pypi"])


def test_system_keeps_away_from_pypi() -> None:
    choice = select(needs(cuda_from="system"), [], [packaged("13.0")])
    assert ids(choice.findings) == ["error no-cuda-toolkit"]


def test_platforms_and_architectures_that_pypi_does_not_serve() -> None:
    other = select(needs(platform="win_arm64", cuda="13.0", cuda_from="pypi"), [])
    assert ids(other.findings) == ["error no-packages-for-platform"]
    old = select(needs(arch="6.1", cuda_from="pypi"), [])
    assert ids(old.findings) == ["error no-toolkit-on-pypi"]


def test_no_release_serves_an_architecture_that_pytorch_s_own_cuda_has_dropped() -> None:
    choice = select(needs(arch="6.1"), [SAME])
    assert (choice.toolkit, choice.there) == (None, False)
    assert ids(choice.findings) == ["error no-release-fits"]


@pytest.mark.parametrize(("toolkit", "severity"), [("13.1", "warning"), ("12.8", "error")])
def test_another_major_version_is_an_error(toolkit: str, severity: str) -> None:
    finding = needs().check_release(toolkit, "", "")
    assert finding is not None
    assert (finding.severity.value, finding.id) == (severity, "cuda-mismatch")


def test_the_packages_of_an_environment_are_found(tmp_path: Path) -> None:
    host = replace(described_host("linux_x86_64", python_version="3.11.7"), here=True)
    packages = site_packages(tmp_path / "site-packages")

    def found(**config: str) -> Candidates:
        settings = load_settings(
            None, {k.replace("_", "-"): v for k, v in config.items()}, {}, host, tmp_path
        )
        places = [tmp_path / "none", packages, packages]
        return find_candidates(settings, host, {"PATH": ""}, tmp_path / "cache", places, ())

    made = packaged_toolkit(packages, tmp_path / "cache", ())
    assert made is not None
    assert (found(cuda_from="pypi").packaged, found(cuda_from="pypi").installed) == ((made,), ())
    assert found(cuda_from="system").packaged == ()
    root = tmp_path / "cuda"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "nvcc").write_text("compiler", encoding="utf-8")
    (root / "version.json").write_text('{"cuda_nvcc": {"version": "13.0.88"}}', encoding="utf-8")
    by_path = found(cuda_path=str(root))
    assert by_path.named is not None
    assert (by_path.named.root, by_path.named.origin) == (str(root), "-C cuda-path")
    assert (by_path.installed, by_path.packaged) == ((), ())
