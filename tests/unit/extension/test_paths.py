"""How commands spell paths."""

from __future__ import annotations

import pytest

from torchwheel.extension.compile.units import layout_of


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("csrc/a b.cpp", "source/csrc/a b.cpp"),
        ("/p/my project/csrc/x.cpp", "source/csrc/x.cpp"),
        ("/p/my project", "source"),
        ("../other/x.cpp", "/p/other/x.cpp"),
        ("csrc/../x.cpp", "source/x.cpp"),
        ("/p/my project/../my project/x.cpp", "source/x.cpp"),
        ("../my project/.venv/torch/include", "torch/include"),
        ("../../../x.cpp", "/x.cpp"),
        ("/p/my project/.venv/torch/include", "torch/include"),
        ("/usr/include", "/usr/include"),
        ("/p/my projects/x.cpp", "/p/my projects/x.cpp"),
    ],
)
def test_through_links_on_linux(path: str, spelled: str) -> None:
    layout = layout_of(
        "Linux", "/p/my project", {"source": "/p/my project", "torch": "/p/my project/.venv/torch"}
    )
    assert layout.spell(path) == spelled


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        (r"csrc\a b.cpp", "C:/p/my project/csrc/a b.cpp"),
        ("csrc/a.cpp", "C:/p/my project/csrc/a.cpp"),
        (r"D:\torch\include", "D:/torch/include"),
        (r"..\shared\a.cpp", "C:/p/shared/a.cpp"),
    ],
)
def test_absolute_on_windows(path: str, spelled: str) -> None:
    layout = layout_of("Windows", r"C:\p\my project", {"source": r"C:\p\my project", "torch": r"D:\torch"})
    assert (layout.spell(path), layout.links) == (spelled, {})
