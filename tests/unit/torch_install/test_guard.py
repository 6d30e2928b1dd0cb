"""A package names both versions where it is imported beside another PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel import require_torch


def _installed(folder: Path, name: str, version: str, requirement: str = "") -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}"] if requirement else []
    (info / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize(
    ("torch", "id"), [("2.14.1", ""), ("2.15.0", "wheel-for-another-torch"), ("", "wheel-for-another-torch")]
)
def test_both_versions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, id: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    _installed(tmp_path, "my_ops", "1.2+cpu.torch2.14", "torch<2.15,>=2.14")
    if torch:
        _installed(tmp_path, "torch", torch)
    if not id:
        require_torch("my_ops")
        return
    with pytest.raises(ImportError) as caught:
        require_torch("my_ops")
    text = str(caught.value)
    assert f"[{id}]" in text
    assert "1.2+cpu.torch2.14" in text
    assert torch in text


@pytest.mark.parametrize(
    ("label", "cuda", "refused"),
    [
        ("cu130.sm120.torch2.14", "'13.0'", False),
        ("cu130.sm120.torch2.14", "'13.2'", False),
        ("cu130.sm120.torch2.14", "None", True),
        ("cu130.sm120.torch2.14", "'12.8'", True),
        # CUDA's runtime is linked into it.
        ("cu130.sm120", "'12.8'", False),
        ("cu130.sm120", "None", True),
        ("cpu.torch2.14", "'12.8'", False),
    ],
)
def test_the_cuda_of_pytorch_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str, cuda: str, refused: bool
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    _installed(tmp_path, "my_ops", f"1.2+{label}", "torch<2.15,>=2.14")
    _installed(tmp_path, "torch", "2.14.1")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.14.1'\ncuda: Optional[str] = {cuda}\n")
    if not refused:
        require_torch("my_ops")
        return
    with pytest.raises(ImportError) as caught:
        require_torch("my_ops")
    assert "[wheel-for-another-torch]" in str(caught.value)
