"""What the environment says about the kind of build."""

from __future__ import annotations

import os

BUILD_DIR = "build"


def means_yes(value: str | None) -> bool:
    """Whether a variable's value, if it has one, turns something on."""
    return (value or "").upper() in {"ON", "1", "YES", "TRUE", "Y"}


def means_no(value: str | None) -> bool:
    """Whether a variable's value, if it has one, turns something off."""
    return (value or "").upper() in {"OFF", "0", "NO", "FALSE", "N"}


def complete_environment() -> None:
    """Sets what other variables imply: CMAKE_BUILD_TYPE from DEBUG, CXXFLAGS from CFLAGS."""
    if "CMAKE_BUILD_TYPE" not in os.environ:
        if means_yes(os.environ.get("DEBUG")):
            build_type = "Debug"
        elif means_yes(os.environ.get("REL_WITH_DEB_INFO")):
            build_type = "RelWithDebInfo"
        else:
            build_type = "Release"
        os.environ["CMAKE_BUILD_TYPE"] = build_type
    if "CFLAGS" in os.environ:
        os.environ.setdefault("CXXFLAGS", os.environ["CFLAGS"])
