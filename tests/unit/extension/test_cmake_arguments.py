from __future__ import annotations

import shlex
from pathlib import Path

import torchwheel
from places import REPOSITORY
from refusals import ids_of
from torchwheel.extension.cmake.configure import CMAKE, keyword_of, read_arguments
from torchwheel.hardware.arch import parse_architectures
from torchwheel.settings.known_keys import EXTENSION_KEYS

CONFIG = REPOSITORY / "src/torchwheel/extension/cmake/TorchWheelConfig.cmake"


def test_every_keyword(tmp_path: Path) -> None:
    arguments = (
        "NAME pkg._C SOURCES a.cpp csrc/*.cpp ../k.cu CUDA_SOURCES cuda/*.cu INCLUDE_DIRS inc /opt/inc "
        "LIBRARY_DIRS lib LIBRARIES cublas m DEFINE TILE=16 FAST CXX_FLAGS -Wall -Wextra "
        "NVCC_FLAGS -lineinfo LINK_FLAGS -s ARCHITECTURES sm90/*.cu=9.0a k.cu=12.0 STABLE_ABI 2.10 "
        "LIMITED_API UNITY FRONT_END shared DEVICE_LINK DEVICE_LINK_LIBRARIES nvshmem DEPENDS x.inc"
    )
    options = read_arguments(arguments.split(), tmp_path / "cpp", tmp_path)
    assert options.origin == "cpp/CMakeLists.txt torchwheel_add_extension(pkg._C)"
    assert options.values == {
        "name": "pkg._C",
        "sources": ("cpp/a.cpp", "cpp/csrc/*.cpp", "k.cu"),
        "cuda-sources": ("cpp/cuda/*.cu",),
        "include-dirs": ("cpp/inc", "/opt/inc"),
        "library-dirs": ("cpp/lib",),
        "libraries": ("cublas", "m"),
        "define": {"TILE": "16", "FAST": True},
        "cxx-flags": ("-Wall", "-Wextra"),
        "nvcc-flags": ("-lineinfo",),
        "link-flags": ("-s",),
        "architectures": {"sm90/*.cu": parse_architectures("9.0a"), "k.cu": parse_architectures("12.0")},
        "stable-abi": "2.10",
        "limited-api": True,
        "unity": True,
        "front-end": "shared",
        "device-link": True,
        "device-link-libraries": ("nvshmem",),
        "depends": ("cpp/x.inc",),
    }


def test_the_function_documents_every_keyword() -> None:
    text = CONFIG.read_text(encoding="utf-8")
    words = set(text.replace("[", " ").replace("]", " ").split())
    assert {keyword_of(name) for name in EXTENSION_KEYS} - words == set()


def test_the_package_has_torchwheels_version() -> None:
    text = CONFIG.with_name("TorchWheelConfigVersion.cmake").read_text(encoding="utf-8")
    assert f'set(PACKAGE_VERSION "{torchwheel.__version__}")' in text


def test_cmake_reads_what_torchwheel_prints_in_one_encoding() -> None:
    """On Windows Python would print a folder called "J\u00f6rg" in the system's code page."""
    text = CONFIG.read_text(encoding="utf-8")
    assert ("-X utf8 -m torchwheel.extension.cmake.configure" in text, "ENCODING UTF-8" in text) == (
        True,
        True,
    )


def test_mistakes_are_told_in_the_words_of_cmake(tmp_path: Path) -> None:
    words = ["a.cpp", "SOURCE", "b.cpp", "ARCHITECTURES", "9.0a", "DEFINE", "SOURCE"]
    assert ids_of(read_arguments, words, tmp_path, tmp_path) == [
        *["unknown-setting"] * 3,
        "ill-typed-value",
        *["incomplete-extension"] * 2,
    ]


def test_a_misspelt_keyword_is_no_value_of_the_one_before(tmp_path: Path) -> None:
    words = ["NAME", "a._C", "SOURCES", "a.cpp", "INCLUDE_DIR", "include"]
    assert ids_of(read_arguments, words, tmp_path, tmp_path) == ["unknown-setting"]


def test_a_variable_of_cmake_can_say_whether(tmp_path: Path) -> None:
    words = ["NAME", "a._C", "SOURCES", "a.cpp", "UNITY", "ON", "LIMITED_API", "FALSE"]
    options = read_arguments(words, tmp_path, tmp_path)
    assert (options.values["unity"], options.values["limited-api"]) == (True, False)


def test_examples_are_right_calls(tmp_path: Path) -> None:
    """Each message ends with one."""
    words = [word for key in EXTENSION_KEYS.values() for word in shlex.split(CMAKE.example(key))]
    options = read_arguments(words, tmp_path, tmp_path)
    assert options.values.keys() == EXTENSION_KEYS.keys()
