"""Which releases of a site installers are offered."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fleet.sites import SiteRecipe
from torchwheel.fleet.site import Choices
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.index.catalogue import PlannedWheel
from torchwheel.verification.claims import run_checks
from torchwheel.wheel.contents import inspect_wheel
from unit.fleet.test_site import Links, refused, update

LABELS = {"cpu": (), "cu130.sm80": ("sm80",), "cu130.sm90": ("sm90",)}
H100 = NamedGpu("h100", Architecture.of("9.0"))


def write(folder: Path, version: str, *labels: str, tag: str = "py3-none-linux_x86_64") -> list[Path]:
    return [SiteRecipe(f"{version}+{one}", tag, code=LABELS[one]).write(folder) for one in labels]


def offered(site: Path) -> list[str]:
    """The versions that a site offers, after nothing is added."""
    return sorted(str(wheel.version) for wheel in update(site).wheels if not wheel.held)


def complete(version: str) -> list[str]:
    return [f"{version}+{label}" for label in LABELS]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with one complete release."""
    update(tmp_path / "site", *write(tmp_path / "old", "2.14.1", *LABELS), variants=True)
    return tmp_path / "site"


def test_a_release_is_held_back_until_it_is_complete(site: Path, tmp_path: Path) -> None:
    update(site, *write(tmp_path, "2.15.0", "cpu"))
    assert offered(site) == complete("2.14.1")
    (link,) = (one for one in Links(site / "cpu/simple/torch/index.html").links if "data-yanked" in one)
    assert str(link["href"]).startswith("torch-2.15.0%2Bcpu-")
    rows = json.loads((site / "cpu/simple/torch/index.json").read_bytes())["files"]
    assert ["yanked" in row for row in rows] == [False, True]
    assert (site / "cpu/constraints.txt").read_text() == "torch==2.14.1+cpu\n"
    assert not list((site / "simple/torch").glob("torch-2.15.0*"))
    update(site, *write(tmp_path, "2.15.0", "cu130.sm80"))
    assert offered(site) == complete("2.14.1")
    update(site, *write(tmp_path, "2.15.0", "cu130.sm90"))
    assert offered(site) == [*complete("2.14.1"), *complete("2.15.0")]


def test_each_python_and_platform_counts(tmp_path: Path) -> None:
    site, tags = tmp_path / "site", ("cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-linux_x86_64")
    for tag in tags:
        update(site, *write(tmp_path / "a", "2.14.1", "cpu", "cu130.sm90", tag=tag))
        update(site, *write(tmp_path / "b", "2.15.0", "cpu", tag=tag))
    update(site, *write(tmp_path / "b", "2.15.0", "cu130.sm90", tag="cp311-cp311-linux_x86_64"))
    (held,) = {wheel.held for wheel in update(site).wheels if str(wheel.version) == "2.15.0+cpu"}
    assert held.endswith("lacks cu130.sm90 for cp312-cp312-linux_x86_64")
    # Of Python's limited API, a wheel for an earlier Python is one for this too.
    update(site, *write(tmp_path / "c", "2.15.0", "cu130.sm90", tag="cp310-abi3-linux_x86_64"))
    assert len(offered(site)) == len(update(site).wheels)


def test_code_that_nothing_else_has_is_offered_at_once(tmp_path: Path) -> None:
    site = tmp_path / "site"
    update(site, *write(tmp_path / "a", "2.14.1", "cpu"), *write(tmp_path / "b", "2.15.0", "cu130.sm90"))
    assert offered(site) == ["2.14.1+cpu", "2.15.0+cu130.sm90"]


def test_a_release_is_promoted_withdrawn_and_promoted_again(site: Path, tmp_path: Path) -> None:
    wheels = write(tmp_path, "2.15.0", "cpu")
    (wanted,) = (Requirement("torch==2.15.0"),)
    update(site, *wheels)
    assert offered(site) == complete("2.14.1")
    update(site, choices=Choices(promoted=(wanted,)))
    assert offered(site) == [*complete("2.14.1"), "2.15.0+cpu"]
    update(site, choices=Choices(yanked=(wanted,)))
    assert offered(site) == complete("2.14.1")
    # What completes it does not decide otherwise.
    update(site, *write(tmp_path, "2.15.0", "cu130.sm80", "cu130.sm90"))
    assert offered(site) == complete("2.14.1")
    update(site, choices=Choices(promoted=(wanted,)))
    assert offered(site) == [*complete("2.14.1"), *complete("2.15.0")]


def test_a_release_may_be_partial(site: Path, tmp_path: Path) -> None:
    update(site, *write(tmp_path, "2.15.0", "cpu"), choices=Choices(partial=True))
    assert offered(site) == [*complete("2.14.1"), "2.15.0+cpu"]


def test_a_matrix_says_what_a_release_must_have(site: Path, tmp_path: Path) -> None:
    planned = tuple(PlannedWheel(gpus, "3.11", "linux_x86_64") for gpus in ((), (H100,)))
    update(site, *write(tmp_path, "2.15.0", "cpu"), choices=Choices(planned=planned))
    assert offered(site) == complete("2.14.1")
    update(site, *write(tmp_path, "2.15.0", "cu130.sm90"), choices=Choices(planned=planned))
    assert offered(site) == [*complete("2.14.1"), "2.15.0+cpu", "2.15.0+cu130.sm90"]


def test_of_nightlies_the_one_built_last_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    for time, commit in (("1600000000", "git9999999"), ("1700000000", "git0000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
        recipe = SiteRecipe(f"2.15.0a0+{commit}.cu130.sm90", code=["sm90"])
        update(site, recipe.write(tmp_path / "dist"), variants=True)
    assert offered(site) == ["2.15.0a0+git0000000.cu130.sm90"]
    assert (site / "cu130.sm90/constraints.txt").read_text() == "torch==2.15.0a0+git0000000.cu130.sm90\n"
    assert [path.name for path in (site / "simple/torch").glob("*.whl")] == [
        "torch-2.15.0a0-py3-none-linux_x86_64-git0000000.cu130.sm90.whl"
    ]


def test_a_nightly_for_the_cpu_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variant's label is reserved, so a build number tells commits apart."""
    site, names = tmp_path / "site", {}
    for time, commit in (
        ("1700000000", "git9999999"),
        ("1600000000", "git0000000"),
        ("1800000000", "git1111111"),
    ):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
        recipe = SiteRecipe(f"2.15.0a0+{commit}.cpu", code=(), content=f"commit = '{commit}'")
        update(site, recipe.write(tmp_path / "dist"), variants=True)
        (variant,) = (site / "simple/torch").glob("*.whl")
        with zipfile.ZipFile(variant) as archive:
            names[variant.name] = archive.read("torch/__init__.py").decode().split()[-1]
        checks = run_checks(inspect_wheel(variant), {}, install=False)
        assert [problem.id for check in checks for problem in check.problems] == []
    assert names == {
        f"torch-2.15.0a0-{time}{commit}-py3-none-linux_x86_64-null.whl": f"'{commit}'"
        for time, commit in (("20231114221320", "git9999999"), ("20270115080000", "git1111111"))
    }


def test_a_decision_about_no_release(site: Path) -> None:
    for choices in (
        Choices(yanked=(Requirement("torch==9"),)),
        Choices(promoted=(Requirement("x==2.14.1"),)),
    ):
        assert refused(site, choices=choices) == ["no-such-release"]


def test_companions_are_in_every_index(site: Path, tmp_path: Path) -> None:
    vision = SiteRecipe("0.29.2", name="torchvision", code=()).write(tmp_path)
    update(site, vision)
    for index in ("cpu/simple", "cu130.sm90/simple", "simple", "companions/simple"):
        assert "torchvision/" in [link["href"] for link in Links(site / index / "index.html").links]
        page = site / index / "torchvision"
        (link,) = Links(page / "index.html").links
        assert (page / str(link["href"]).partition("#")[0]).resolve().samefile(vision)
    official = SiteRecipe("2.15.0").write(tmp_path)
    assert refused(site, official) == ["wheel-without-label"]
