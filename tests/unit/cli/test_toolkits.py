"""``torchwheel toolkits``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from toolkit.trees import linux_installation, small
from torchwheel.toolkit.cuda_releases import read_toolkits


def test_what_is_here_and_what_it_compiles(
    torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linux_installation(here / "cuda-12.9")
    monkeypatch.setenv("CUDA_HOME", str(root))
    release = read_toolkits().release("12.9")
    assert release is not None
    assert torchwheel("toolkits", "--json").document("toolkits")["found"][0] == {
        "version": "12.9",
        "full_version": "12.9.86",
        "root": str(root),
        "nvcc": str(root / "bin/nvcc"),
        "origin": "CUDA_HOME",
        "architectures": [one.dotted for one in sorted(release.architectures)],
    }


def test_a_release_that_is_not_in_the_catalogue(
    torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(small(here / "cuda", number=99010)))
    monkeypatch.setenv("COLUMNS", str(100 + len(str(here))))
    assert torchwheel("toolkits", "--json").document("toolkits")["found"][0]["architectures"] == []
    row = torchwheel("toolkits").out.splitlines()[2]
    assert row.endswith("not known: this release is not in the catalogue")


def test_all_releases_newest_first(torchwheel: Run) -> None:
    releases = torchwheel("toolkits", "--json").document("toolkits")["releases"]
    assert [one["version"] for one in releases] == [one.version for one in reversed(read_toolkits().releases)]
    assert {one["version"] for one in releases if one["pypi_nvcc"]} == {
        one.version for one in read_toolkits() if one.pypi_nvcc
    }


def test_what_pypi_offers_fits_80_columns(torchwheel: Run) -> None:
    lines = torchwheel("toolkits").out.splitlines()
    assert [line for line in lines[lines.index("On PyPI") :] if len(line) > 80] == []


def test_packages_are_taken_by_a_setting_and_not_by_hand(torchwheel: Run) -> None:
    advice = " ".join(torchwheel("toolkits").out.split("\n\n")[-1].split())
    assert "-C cuda-from=pypi" in advice
    assert "pip install" not in advice


def combinations(torchwheel: Run, target: str) -> dict[tuple[str, str], dict[str, list[str]]]:
    document = torchwheel("toolkits", target, "--json").document("toolkits")
    assert document["target"] == target
    return {(one["platform"], one["pytorch"]): one for one in document["combinations"]}


def test_every_release_is_published_untried_or_ruled_out_for_a_target(torchwheel: Run) -> None:
    found = combinations(torchwheel, "sm120")
    every = [release.version for release in read_toolkits()]
    for one in found.values():
        assert sorted([*one["published"], *one["untried"], *one["ruled_out"]]) == sorted(every)
    windows = found["win_amd64", "2.8"]
    assert (windows["published"], windows["untried"]) == (["12.8", "12.9"], [])
    assert found["linux_x86_64", "2.2"]["ruled_out"] == every


def test_an_nvcc_with_a_known_bug_is_ruled_out_unless_official_builds_use_it(torchwheel: Run) -> None:
    found = combinations(torchwheel, "sm120")
    windows = [found["win_amd64", version] for version in ("2.7", "2.8", "2.9")]
    assert ["12.9" in one["published"] for one in windows] == [False, True, False]
    assert ["12.9" in one["ruled_out"] for one in windows] == [True, False, True]
    assert "12.9" in found["linux_x86_64", "2.7"]["untried"]


def test_only_platforms_that_have_the_gpu(torchwheel: Run) -> None:
    found = combinations(torchwheel, "gb10")
    assert {platform for platform, _ in found} == {"linux_aarch64"}
    assert found["linux_aarch64", "2.14"]["published"] == ["13.0", "13.2"]


def test_the_cpu_has_no_cuda(torchwheel: Run) -> None:
    assert combinations(torchwheel, "cpu")["linux_x86_64", "2.6"]["published"] == [""]
    assert "published: without CUDA" in torchwheel("toolkits", "cpu").out


def test_a_targets_own_range_rules_out(torchwheel: Run, here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.torchwheel.target.jet]\narch = "8.7"\ncuda = "==12.6.*"\n')
    lines = torchwheel("toolkits", "jet").out.splitlines()
    assert lines[0] == "jet on linux_x86_64"
    assert lines[1].split()[:3] == ["PyTorch", "2.0", "to"]
    assert "published: CUDA 12.6; ruled out: CUDA 11.0 to 12.5, 12.8 to 13.5" in " ".join(
        " ".join(lines).split()
    )
    assert max(map(len, lines)) <= 80


def test_an_unknown_target_is_an_error(torchwheel: Run) -> None:
    result = torchwheel("toolkits", "rtx9999")
    assert result.status == 2
    assert "[unknown-target]" in result.err
