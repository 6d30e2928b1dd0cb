"""Lines that report an error in a tool's usual form."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel._toml import read_toml
from torchwheel.diagnosis import scanner
from torchwheel.diagnosis.catalogue import reports_error

FORMS = read_toml(Path(scanner.__file__).with_name("error_lines.toml"))["error"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["tool"])
def test_every_form_is_recognised(form: dict[str, str]) -> None:
    assert form["needle"] in form["example"]
    assert reports_error(form["example"])
    assert reports_error("      " + form["example"])


@pytest.mark.parametrize(
    "text",
    [
        "c++ -Werror=return-type -Wno-error=old-style-cast -c error.cpp",
        "[12/34] Building CXX object test_error.cpp.o",
        "relative error: 1.2e-05",
        "41 Warning(s), 0 Error(s)",
        "error rate 0.1",
        "foo.cpp:12: warning: unused variable 'error'",
        "note: see the documentation of fatal errors",
        "fatal: not a git repository (or any of the parent directories): .git",
        "-- Performing Test HAS_WERROR_FORMAT - Failed",
        "CMake Warning at CMakeLists.txt:384 (message):",
        "UserWarning: Failed to initialize NumPy",
        "a.obj : warning LNK4217: symbol 'error' defined in 'b.obj'",
    ],
)
def test_other_lines_are_not(text: str) -> None:
    assert not reports_error(text)
