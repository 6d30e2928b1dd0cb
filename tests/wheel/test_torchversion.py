"""torch/version.py, read without being run."""

from __future__ import annotations

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.wheel.torchversion import TorchVersion, parse_torch_version


def test_as_pytorch_writes_it() -> None:
    source = b"""from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.6.0+cu124'
debug = False
cuda: Optional[str] = '12.4'
git_version = '2236df1770800ffea5697b11b0bb0d910b2e59e1'
hip: Optional[str] = None
"""
    assert parse_torch_version(source, "x") == TorchVersion(
        version="2.6.0+cu124",
        cuda="12.4",
        git_version="2236df1770800ffea5697b11b0bb0d910b2e59e1",
        debug=False,
    )


def test_nothing_is_run_and_other_forms_are_left_out() -> None:
    source = b"""
raise SystemExit(1)
__version__ = open('x').read()
cuda = 13
debug = 'yes'
git_version, other = 'a', 'b'
git_version: str
"""
    assert parse_torch_version(source, "x") == TorchVersion(None, None, None, None)


@pytest.mark.parametrize(
    "source", [b"def", b"\0", b"\xff\xfe", b"(" * 100_000], ids=["syntax", "NUL", "not UTF-8", "nesting"]
)
def test_not_python(source: bytes) -> None:
    with pytest.raises(TorchwheelError) as caught:
        parse_torch_version(source, "w.whl: torch/version.py")
    (problem,) = caught.value.problems
    assert problem.id == "malformed-version-file"
    assert problem.what.startswith("this is not Python: ")
    assert (
        problem.remedy == "build the wheel again; the tree's tools/generate_torch_version.py writes this file"
    )
    assert problem.origin == "w.whl: torch/version.py"
