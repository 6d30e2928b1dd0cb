from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.settings.value_types import is_same_value, parse_truth, same_path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(
            (word, True)
            for word in (True, 1, 2, "1", "ON", "on", "Yes", "TRUE", "y", "2", "0.5", "-1", " ON ")
        ),
        *(
            (word, False)
            for word in (False, 0, "0", "OFF", "no", "False", "N", "IGNORE", "NOTFOUND", "", "0.0")
        ),
        ("CUDA-NOTFOUND", False),
        *((word, None) for word in ("OpenBLAS", "12.0;9.0", "ONE", "T")),
    ],
)
def test_truth_is_cmakes(value: object, expected: bool | None) -> None:
    assert parse_truth(value) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (True, "ON", True),
        ("1", "ON", True),
        (0, "off", True),
        (True, False, False),
        ("ON", "0", False),
        (4, 8, False),
        ("4", "8", False),
        (8, True, False),
        ("OpenBLAS", "OpenBLAS", True),
        ("OpenBLAS", "MKL", False),
        (("a100",), ("a100",), True),
        (("a100",), ("t4",), False),
        (r"C:\CUDA\v12.4", r"c:\\CUDA\\v12.4", True),
        (r"C:\CUDA\v12.4\bin", "C:/CUDA/v12.4/bin/", True),
        (r"C:\CUDA\v12.4", r"C:\CUDA\v12.5", False),
        (r"C:\CUDA\v12.4", r"D:\CUDA\v12.4", False),
        ("/usr/CUDA", "/usr/cuda", False),
        ("/opt/cuda/", "/opt//cuda", True),
        (r"\\Server\cuda", r"\\server\CUDA", True),
        ("OFF", "CUDA_LIBRARY-NOTFOUND", True),
        ("/O2", "/o2", False),
        ("1", "1/", False),
        ("C:", "c:", False),
        ("C:/CUDA", "ON", False),
    ],
)
def test_same_compares_meanings(one: object, other: object, expected: bool) -> None:
    assert is_same_value(one, other) is expected
    assert is_same_value(other, one) is expected


@pytest.mark.parametrize(
    ("one", "other", "on_windows", "elsewhere"),
    [
        (r"C:\CUDA", "c:/cuda", True, True),
        ("C:/CUDA/", r"C:\\CUDA", True, True),
        ("Build\\X", "build/x/", True, False),
        ("/usr/CUDA", "/usr/cuda", True, False),
        ("/usr/cuda/", "/usr/cuda", True, True),
        ("/", "/", True, True),
        ("/", "", False, False),
        (r"C:\CUDA", r"C:\CUDA2", False, False),
    ],
)
def test_one_path_in_two_spellings(one: str, other: str, on_windows: bool, elsewhere: bool) -> None:
    assert same_path(one, other, windows=True) is on_windows
    assert same_path(one, other, windows=False) is elsewhere
    assert same_path(Path("a"), "a")
