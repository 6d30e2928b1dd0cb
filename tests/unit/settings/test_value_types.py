from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from refusals import error_of, origins_of
from said import said
from torchwheel.host.machine import Host
from torchwheel.settings import load_settings
from torchwheel.settings.value_types import (
    ARCHITECTURES,
    BASE_VERSION,
    FLAG,
    LOCAL_LABEL,
    NAMES,
    PATH,
    SCALAR,
    TEXT,
    TEXTS,
    VARIABLE_TEXT,
    VERSION_RANGE,
    Location,
    ValueType,
    choice,
    is_same_value,
    parse_truth,
    resolve_value,
    same_path,
    whole,
)

TOML = Location("key", "file.toml", 'key = "example"')
COMMAND = Location("key", "-C key", "-C key=example", textual=True)


@pytest.mark.parametrize(
    ("value_type", "raw", "location", "expected"),
    [
        (TEXT, "a b", TOML, "a b"),
        (whole(1, 1024), 1024, TOML, 1024),
        (whole(1, 1024), " 8 ", COMMAND, 8),
        (FLAG, True, TOML, True),
        (FLAG, "On", COMMAND, True),
        (FLAG, "0", COMMAND, False),
        (choice("Release", "Debug"), "debug", TOML, "Debug"),
        (NAMES, "a100, t4,,a100", TOML, ("a100", "t4")),
        (NAMES, ["a100,t4", "l4"], COMMAND, ("a100", "t4", "l4")),
        (NAMES, "", COMMAND, ()),
        (VERSION_RANGE, "12.9", TOML, "==12.9.*"),
        (VERSION_RANGE, "13", TOML, "==13.*"),
        (VERSION_RANGE, "13.0.88", TOML, "==13.0.88"),
        (VERSION_RANGE, " >=12.8,<13 ", TOML, ">=12.8,<13"),
        (BASE_VERSION, "2.6.0rc1", TOML, "2.6.0rc1"),
        (LOCAL_LABEL, "CU130_sm120-A", TOML, "cu130.sm120.a"),
        (SCALAR, "a;b \"c\" 'd' ü", TOML, "a;b \"c\" 'd' ü"),
        (SCALAR, 3, TOML, 3),
        (SCALAR, False, TOML, False),
        (VARIABLE_TEXT, "", TOML, ""),
    ],
)
def test_read(value_type: ValueType, raw: object, location: Location, expected: object) -> None:
    value = value_type.read(raw, location)
    assert value == expected
    assert type(value) is type(expected)


REFUSED: list[tuple[ValueType, Location, list[object]]] = [
    (TEXT, TOML, ["  ", 3, "nul\0"]),
    (TEXTS, TOML, [["nul\0"]]),
    (PATH, TOML, [["a"], "nul\0"]),
    (whole(1, 1024), TOML, [0, True, "8", 1.5, 1025]),
    (whole(1, 1024), COMMAND, ["-8", "9" * 5000]),
    (FLAG, TOML, ["true"]),
    (FLAG, COMMAND, ["maybe"]),
    (choice("auto"), TOML, [1]),
    (NAMES, TOML, [3, ["a", 3]]),
    (ARCHITECTURES, TOML, [12.0, [12.0]]),
    (VERSION_RANGE, TOML, [">=>", "", 12.9]),
    (BASE_VERSION, TOML, ["two", 2.6]),
    (LOCAL_LABEL, TOML, ["cu130+sm120", "cu130..sm120"]),
    (SCALAR, TOML, [1.5, "two\nlines", ["a"], "nul\0"]),
    (VARIABLE_TEXT, TOML, ["two\nlines", 2, "nul\0"]),
]


@pytest.mark.parametrize(
    ("value_type", "location", "raw"), [(*row[:2], raw) for row in REFUSED for raw in row[2]]
)
def test_refuse(value_type: ValueType, location: Location, raw: object) -> None:
    assert origins_of(value_type.read, raw, location) == [("ill-typed-value", location.origin)]


@pytest.mark.parametrize("value_type", [VARIABLE_TEXT, SCALAR, TEXT, PATH, TEXTS])
def test_a_byte_that_is_not_utf8(value_type: ValueType) -> None:
    """The manifest could not be written, after the whole compile."""
    text = b"-DX=\xff".decode("utf-8", "surrogateescape")
    assert str(error_of(value_type.read, text, COMMAND)) == said("ill-typed-value", COMMAND.origin, "0xFF")


def test_the_refusal_says_what_and_what_instead() -> None:
    error = error_of(whole(1, 1024).read, "many", Location("jobs", "-C jobs", "-C jobs=8", textual=True))
    assert str(error) == said("ill-typed-value", '"many"', "a whole number from 1 to 1,024", "-C jobs=8")


@pytest.mark.parametrize(
    ("value_type", "raw", "remedy"),
    [
        (choice("Release", "Debug"), "Relaese", "did you mean Release?"),
        (BASE_VERSION, "2.6.0+cu124", "write 2.6.0 there, and cu124 in local-version"),
    ],
)
def test_what_was_meant_is_the_remedy(value_type: ValueType, raw: str, remedy: str) -> None:
    assert error_of(value_type.read, raw, TOML).problems[0].remedy == remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("../pytorch", str(Path("/projekt ü/../pytorch"))),
        ("/opt/cuda 13", "/opt/cuda 13"),
        (r"C:\Program Files\CUDA\v12.9", r"C:\Program Files\CUDA\v12.9"),
    ],
)
def test_paths_are_relative_to_their_file(text: str, expected: str) -> None:
    location = Location("key", "pyproject.toml", "", folder=Path("/projekt ü"))
    assert PATH.read(text, location) == expected
    assert PATH.read(text, COMMAND) == text


def test_architectures_report_every_bad_one() -> None:
    error = error_of(ARCHITECTURES.read, "99.9;12.0;77.7", COMMAND)
    assert [problem.origin for problem in error.problems] == ["-C key", "-C key"]
    assert str(ARCHITECTURES.read(["12.0", "sm_90"], COMMAND)) == "9.0;12.0"


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


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The project, and where the caller stands."""
    project, here = tmp_path / "projekt ü", tmp_path / "here"
    for folder in (project, here):
        folder.mkdir()
    monkeypatch.chdir(here)
    return project, here


@pytest.mark.parametrize("key", ["cuda-path", "build-dir"])
def test_every_source_of_a_path(folders: tuple[Path, Path], linux: Host, key: str) -> None:
    project, here = folders
    (project / "pyproject.toml").write_text(f"[tool.torchwheel]\n{key} = 'a b'\n", "utf-8")
    variable = f"TORCHWHEEL_{key.upper().replace('-', '_')}"
    found = [
        load_settings(project, config, environment, linux, project, working_folder=folder).entries[key].value
        for config, environment, folder in [
            ({}, {}, Path()),
            ({key: "a b"}, {}, Path()),
            ({}, {variable: "a b"}, Path()),
            # CMake calls torchwheel for a project in a folder of its own.
            ({key: "a b"}, {}, project),
        ]
    ]
    assert found == [str(folder / "a b") for folder in (project, here, here, project)]


@pytest.mark.parametrize(
    ("config", "environment"),
    [
        ({}, {"CUDA_HOME": "../cuda"}),
        ({}, {"CMAKE_ARGS": "-DCUDAToolkit_ROOT=../cuda"}),
        ({"define.CUDA_TOOLKIT_ROOT_DIR": "../cuda"}, {}),
    ],
)
def test_pytorchs_names_of_the_toolkit(
    folders: tuple[Path, Path], linux: Host, config: dict[str, str], environment: dict[str, str]
) -> None:
    project, here = folders
    assert load_settings(project, config, environment, linux, project).cuda_path == str(here / "../cuda")


def test_variables_and_options_of_the_project_are_relative_to_it(
    folders: tuple[Path, Path], linux: Host
) -> None:
    project, here = folders
    (project / "pyproject.toml").write_text("[tool.torchwheel.env]\nCC = './cc'\n", "utf-8")
    settings = load_settings(project, {"define.CMAKE_CXX_COMPILER": "./c++"}, {}, linux, project)
    assert (settings.env["CC"], settings.define["CMAKE_CXX_COMPILER"]) == (
        f"'{project}/cc'",
        str(here / "c++"),
    )


@pytest.mark.parametrize("name", ["CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "NVCC_CCBIN"])
def test_the_program_of_a_variable(tmp_path: Path, name: str) -> None:
    (tmp_path / "a b").touch()
    (tmp_path / "link").symlink_to("a b")
    texts = [
        "gcc",
        "gcc -m64",
        "/opt/gcc -m64",
        "bin/gcc",
        "./link",
        "./a b",
        "bin/gcc -m64",
        "ccache ./gcc -O2",
    ]
    here = str(tmp_path)
    assert [resolve_value("env", name, text, tmp_path) for text in texts] == [
        "gcc",
        "gcc -m64",
        "/opt/gcc -m64",
        shlex.quote(f"{here}/bin/gcc"),
        f"{here}/link",
        f"{here}/a b",
        f"{shlex.quote(here + '/bin/gcc')} -m64",
        f"ccache {shlex.quote(here + '/gcc')} -O2",
    ]


def test_the_values_of_options(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    there = str(tmp_path / "there")
    values = {
        ("define", "CMAKE_CUDA_COMPILER", "a b/nvcc"): f"{tmp_path}/a b/nvcc",
        ("define", "CMAKE_CXX_COMPILER", "g++"): "g++",
        ("define", "CMAKE_TOOLCHAIN_FILE", "there"): there,
        # What is not there may be the tree's.
        ("define", "CMAKE_TOOLCHAIN_FILE", "cmake/arm.cmake"): "cmake/arm.cmake",
        ("env", "NCCL_ROOT", "./there"): there,
        ("env", "CPATH", "there::/usr/include"): f"{there}::/usr/include",
        ("define", "CMAKE_PREFIX_PATH", "there;absent"): f"{there};absent",
        ("define", "USE_NCCL", "there"): "there",
        ("define", "NCCL_ROOT", ""): "",
    }
    assert {key: resolve_value(*key, tmp_path) for key in values} == values
