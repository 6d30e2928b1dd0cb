"""The architectures that the installed PyTorch was built for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extension.torch_trees import (
    CUDA_LIBRARIES,
    FAMILY,
    ONLY_THIS,
    PLAIN,
    PTX,
    SASS,
    TorchTree,
    install,
    libtorch_cuda,
)
from torchwheel.extension.torch_install.installed_torch import (
    InstalledTorch,
    installed_torch,
    torch_architectures,
)
from torchwheel.reporting.errors import TorchwheelError

# Of PyTorch 2.14.1's own wheel, and a tenth of their number of images, rounded up.
PUBLISHED = libtorch_cuda(
    *((SASS, number, PLAIN, 48) for number in (75, 80, 86, 90, 100, 120)),
    (SASS, 89, PLAIN, 1),
    (SASS, 90, ONLY_THIS, 1),
    (SASS, 100, ONLY_THIS, 6),
    (SASS, 103, FAMILY, 6),
    (SASS, 120, ONLY_THIS, 1),
    (SASS, 121, ONLY_THIS, 1),
)


def cuda_torch(site: Path, code: bytes, **changes: Any) -> InstalledTorch:
    install(
        site, TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES, code=code, **changes)
    )
    return installed_torch([str(site)])


def write_manifest(torch: InstalledTorch, document: object) -> Path:
    assert torch.distribution is not None
    path = torch.distribution / "torchwheel.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def image(label: str, kind: str = "sass", count: int = 475, relocatable: bool = False) -> dict[str, Any]:
    return {"label": label, "kind": kind, "relocatable": relocatable, "count": count, "stored_size": 1}


def manifest(*images: dict[str, Any], library: str = "torch/lib/libtorch_cuda.so") -> dict[str, Any]:
    other = {"library": "torch/lib/libtorch_cuda_linalg.so", "images": [image("sm60", count=900)]}
    return {"schema": 1, "machine_code": [other, {"library": library, "images": list(images)}]}


@pytest.mark.parametrize(
    ("code", "architectures"),
    [
        (PUBLISHED, "7.5;8.0;8.6;9.0;10.0;12.0"),
        (libtorch_cuda((SASS, 90, PLAIN, 4), (SASS, 120, PLAIN, 3), (PTX, 120, PLAIN, 3)), "9.0;12.0+PTX"),
        (libtorch_cuda((SASS, 120, ONLY_THIS, 4)), "12.0a"),
        (libtorch_cuda((SASS, 100, FAMILY, 4), (SASS, 90, PLAIN, 2), (SASS, 80, PLAIN, 1)), "9.0;10.0f"),
        (libtorch_cuda((PTX, 90, PLAIN, 2)), "compute_90"),
    ],
)
def test_those_that_most_kernels_are_there_for(tmp_path: Path, code: bytes, architectures: str) -> None:
    torch = cuda_torch(tmp_path, code)
    found = torch_architectures(torch)
    assert str(found) == architectures


def test_a_library_in_two_parts(tmp_path: Path) -> None:
    torch = cuda_torch(tmp_path, libtorch_cuda())
    for name, number in (("cpp", 80), ("cu", 90)):
        (torch.root / f"lib/libtorch_cuda_{name}.so").write_bytes(libtorch_cuda((SASS, number, PLAIN, 2)))
    (torch.root / "lib/libtorch_cuda.so").unlink()
    found = torch_architectures(torch)
    assert str(found) == "8.0;9.0"


def test_the_library_of_windows(tmp_path: Path) -> None:
    torch = cuda_torch(tmp_path, b"", library_name="{}.lib")
    # The reader goes by the content, and has a test of its own for PE files.
    (torch.root / "lib/torch_cuda.dll").write_bytes(libtorch_cuda((SASS, 86, PLAIN, 1)))
    assert str(torch_architectures(torch)) == "8.6"


@pytest.mark.parametrize("code", [b"", libtorch_cuda()])
def test_no_device_code(tmp_path: Path, code: bytes) -> None:
    torch = cuda_torch(tmp_path, code)
    assert torch_architectures(torch) is None


def test_no_library(tmp_path: Path) -> None:
    torch = cuda_torch(tmp_path, b"")
    (torch.root / "lib/libtorch_cuda.so").unlink()
    assert torch_architectures(torch) is None


def test_a_damaged_library(tmp_path: Path) -> None:
    torch = cuda_torch(tmp_path, PUBLISHED[:-100])
    with pytest.raises(TorchwheelError) as caught:
        torch_architectures(torch)
    (problem,) = caught.value.problems
    assert (problem.id, problem.origin) == ("damaged-library", str(torch.root / "lib/libtorch_cuda.so"))


@pytest.mark.parametrize("tree", [TorchTree(), TorchTree(version="2.8.0+rocm6.4", hip="6.4.43482-0f2d60242")])
def test_builds_without_cuda(tmp_path: Path, tree: TorchTree) -> None:
    install(tmp_path, tree)
    assert torch_architectures(installed_torch([str(tmp_path)])) is None


class TestManifest:
    @pytest.mark.parametrize("library", ["torch/lib/libtorch_cuda.so", "torch/lib/torch_cuda.dll"])
    def test_it_counts_first(self, tmp_path: Path, library: str) -> None:
        torch = cuda_torch(tmp_path, PUBLISHED)
        images = [
            image("sm90"),
            image("sm120a", count=400),
            image("ptx90", "ptx", count=475),
            image("sm100", count=3),
            image("lto80", "lto-ir", count=999),
            image("sm70", count=999, relocatable=True),
        ]
        write_manifest(torch, manifest(*images, library=library))
        found = torch_architectures(torch)
        assert str(found) == "9.0+PTX;12.0a"

    @pytest.mark.parametrize(
        "document",
        [
            [],
            {},
            {"machine_code": None},
            {"machine_code": [{"library": 3, "images": []}]},
            {"machine_code": [{}]},
            manifest({"label": "sm90"}),
            manifest(image("sm90") | {"count": "many"}),
            manifest(image("sm90") | {"count": None}),
            manifest(image("sm99")),
            manifest(image("sm90;sm80")),
            manifest(image("sm90") | {"label": 90}),
            manifest(image("sm90"), library="torch/lib/libother.so"),
        ],
    )
    def test_the_library_counts_where_it_says_nothing(self, tmp_path: Path, document: object) -> None:
        torch = cuda_torch(tmp_path, libtorch_cuda((SASS, 86, PLAIN, 1)))
        write_manifest(torch, document)
        assert str(torch_architectures(torch)) == "8.6"

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xff", b"[" * 100_000])
    def test_the_library_counts_where_it_is_no_json(self, tmp_path: Path, content: bytes) -> None:
        torch = cuda_torch(tmp_path, libtorch_cuda((SASS, 86, PLAIN, 1)))
        write_manifest(torch, {}).write_bytes(content)
        assert str(torch_architectures(torch)) == "8.6"
