"""What the environment says about the kind of build."""

from __future__ import annotations

import os

BUILD_DIR = "build"


def check_env_flag(name: str) -> bool:
    """Whether a variable is set to something that means yes."""
    return os.environ.get(name, "").upper() in {"ON", "1", "YES", "TRUE", "Y"}


def check_negative_env_flag(name: str) -> bool:
    """Whether a variable is set to something that means no."""
    return os.environ.get(name, "").upper() in {"OFF", "0", "NO", "FALSE", "N"}


def complete_environment() -> None:
    """Sets what other variables imply: CMAKE_BUILD_TYPE from DEBUG, CXXFLAGS from CFLAGS."""
    if "CMAKE_BUILD_TYPE" not in os.environ:
        if check_env_flag("DEBUG"):
            build_type = "Debug"
        elif check_env_flag("REL_WITH_DEB_INFO"):
            build_type = "RelWithDebInfo"
        else:
            build_type = "Release"
        os.environ["CMAKE_BUILD_TYPE"] = build_type
    if "CFLAGS" in os.environ:
        os.environ.setdefault("CXXFLAGS", os.environ["CFLAGS"])
