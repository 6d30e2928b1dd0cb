"""What packages are compared with before a toolkit is made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.site_packages import install, site_packages
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.toolkit.assemble import assemble_toolkit
from torchwheel.wheel.archive import render_record, row_for

NVCC = "nvidia/cu13/bin/nvcc"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return site_packages(tmp_path / "Pakete é" / "site-packages")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "ein Cache"


def refusal(packages: Path, cache: Path) -> str:
    with pytest.raises(TorchwheelError) as caught:
        assemble_toolkit(packages, cache)
    (problem,) = caught.value.problems
    return problem.id


def test_a_file_that_is_not_what_record_says(packages: Path, cache: Path) -> None:
    (packages / NVCC).write_text("compileR", encoding="utf-8")
    assert refusal(packages, cache) == "toolkit-file-changed"
    assert [path.suffix for path in (cache / "toolkits").iterdir()] == [".lock"]
    (packages / NVCC).write_text("compiler", encoding="utf-8")
    assert Path(assemble_toolkit(packages, cache).root, "bin", "nvcc").read_text("utf-8") == "compiler"


def test_a_file_that_is_missing_or_of_which_record_has_no_hash(packages: Path, cache: Path) -> None:
    (packages / NVCC).unlink()
    assert refusal(packages, cache) == "toolkit-file-changed"
    (packages / NVCC).write_text("compiler", encoding="utf-8")
    record = packages / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD"
    record.write_text(f"{NVCC},,\n", encoding="utf-8")
    assert refusal(packages, cache) == "toolkit-file-changed"


def test_what_no_record_names_is_not_part_of_the_toolkit(packages: Path, cache: Path) -> None:
    (packages / "nvidia/cu13/bin/stranger").write_text("x", encoding="utf-8")
    record = packages / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD"
    outside = packages / "outside"
    outside.write_text("x", encoding="utf-8")
    rows = [row_for(f"nvidia/cu13/{path}", b"x") for path in ("../../outside", ".metadata/x")]
    record.write_text(record.read_text("utf-8") + render_record(rows).decode(), encoding="utf-8")
    root = Path(assemble_toolkit(packages, cache).root)
    assert not (root / "bin" / "stranger").exists()
    assert not (root / ".metadata").exists()


def test_a_file_of_two_packages_is_there_once(packages: Path, cache: Path) -> None:
    install(packages, "nvidia-also", "1.0.0", {NVCC: "compiler"})
    assert Path(assemble_toolkit(packages, cache).root, "bin", "nvcc").read_text("utf-8") == "compiler"


def test_another_package_under_the_same_version_makes_another_toolkit(
    packages: Path, cache: Path, tmp_path: Path
) -> None:
    first = assemble_toolkit(packages, cache)
    again = assemble_toolkit(site_packages(tmp_path / "same"), cache)
    assert again == replace(first, origin=again.origin)
    header = "include/crt/host_config.h"
    install(tmp_path / "same", "nvidia-cuda-crt", "13.0.88", {f"nvidia/cu13/{header}": "other"})
    second = assemble_toolkit(tmp_path / "same", cache)
    assert second.identity != first.identity
    assert Path(second.root, header).read_text("utf-8") == "other"
