"""The shipped list of CUDA toolkit releases, the questions it answers, and how it is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.toolkit.catalogue import load_toolkits, toolkits

VERSIONS = [
    *(f"11.{minor}" for minor in range(9)),
    *(f"12.{minor}" for minor in range(10) if minor != 7),
    *(f"13.{minor}" for minor in range(5)),
]


def architecture(dotted: str) -> Architecture:
    parsed = Architecture.from_dotted(dotted)
    assert parsed is not None
    return parsed


def compiled(version: str) -> list[str]:
    release = toolkits().release(version)
    assert release is not None
    return [found.dotted for found in sorted(release.architectures)]


def test_every_release_is_there_once_in_order() -> None:
    assert [release.version for release in toolkits()] == VERSIONS
    assert len(toolkits()) == len(VERSIONS)
    assert toolkits().newest().version == "13.4"


def test_every_release_names_its_release_notes() -> None:
    for release in toolkits():
        assert release.source.startswith(f"https://docs.nvidia.com/cuda/archive/{release.version}")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("11.0", "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0"),
        ("11.8", "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0"),
        ("12.0", "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a"),
        ("12.6", "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a"),
        (
            "12.8",
            "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a 10.0 10.0a 10.1 10.1a 12.0 12.0a",
        ),
        (
            "12.9",
            "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a 10.0 10.0a 10.0f 10.1 10.1a 10.1f "
            "10.3 10.3a 10.3f 12.0 12.0a 12.0f 12.1 12.1a 12.1f",
        ),
        (
            "13.0",
            "7.5 8.0 8.6 8.7 8.8 8.9 9.0 9.0a 10.0 10.0a 10.0f 10.3 10.3a 10.3f 11.0 11.0a 11.0f "
            "12.0 12.0a 12.0f 12.1 12.1a 12.1f",
        ),
        (
            "13.4",
            "7.5 8.0 8.6 8.7 8.8 8.9 9.0 9.0a 10.0 10.0a 10.0f 10.3 10.3a 10.3f 10.7 10.7a 10.7f "
            "11.0 11.0a 11.0f 12.0 12.0a 12.0f 12.1 12.1a 12.1f",
        ),
    ],
)
def test_architectures_are_those_that_the_compiler_itself_lists(version: str, expected: str) -> None:
    assert compiled(version) == expected.split()


@pytest.mark.parametrize(
    ("dotted", "earliest", "latest"),
    [
        ("3.5", "11.0", "11.8"),
        ("5.0", "11.0", "12.9"),
        ("7.0", "11.0", "12.9"),
        ("7.5", "11.0", "13.4"),
        ("8.6", "11.1", "13.4"),
        ("8.7", "11.4", "13.4"),
        ("8.8", "13.0", "13.4"),
        ("8.9", "11.8", "13.4"),
        ("9.0", "11.8", "13.4"),
        ("9.0a", "12.0", "13.4"),
        ("10.1", "12.8", "12.9"),
        ("10.1f", "12.9", "12.9"),
        ("11.0", "13.0", "13.4"),
        ("10.7f", "13.4", "13.4"),
        ("12.0", "12.8", "13.4"),
        ("12.0f", "12.9", "13.4"),
        ("12.1", "12.9", "13.4"),
        ("2.0", None, None),
        ("9.0f", None, None),
    ],
)
def test_earliest_and_latest_release_for_an_architecture(
    dotted: str, earliest: str | None, latest: str | None
) -> None:
    assert toolkits().earliest_for(architecture(dotted)) == earliest
    assert toolkits().latest_for(architecture(dotted)) == latest


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["7.0", "12.0"], ["12.8", "12.9"]),
        (["7.0", "12.1"], ["12.9"]),
        (["7.0", "11.0"], []),
        (["10.7", "12.0"], ["13.4"]),
        ([], VERSIONS),
    ],
)
def test_releases_that_compile_all_of_several(wanted: list[str], expected: list[str]) -> None:
    fitting = toolkits().compiling_all(map(architecture, wanted))
    assert [release.version for release in fitting] == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("12.9", "12.9"), ("12.9.86", "12.9"), ("13.0", "13.0"), ("12.7", None), ("14.0", None), ("", None)],
)
def test_release_of_a_version(version: str, expected: str | None) -> None:
    release = toolkits().release(version)
    assert (release.version if release else None) == expected


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        (">=12.8,<13", "12.9"),
        ("==13.0.*", "13.0"),
        ("<12", "11.8"),
        ("~=12.4", "12.9"),
        ("", "13.4"),
        (">14", None),
    ],
)
def test_newest_release_in_a_range(specifier: str, expected: str | None) -> None:
    release = toolkits().newest_in(specifier)
    assert (release.version if release else None) == expected


def test_a_range_that_is_none() -> None:
    with pytest.raises(TorchwheelError) as error:
        toolkits().newest_in("12.8 or later", "-C cuda")
    assert str(error.value) == (
        "-C cuda: '12.8 or later' is not a range of CUDA versions  [bad-version-range]\n"
        "    fix: write it as '>=12.8,<13', '==13.0.*' or '~=12.8'"
    )


def test_what_a_release_says_besides() -> None:
    release = toolkits().release("12.9")
    assert release is not None
    assert (release.driver_linux, release.driver_windows) == ("575.51.03", "576.02")
    assert release.minor_version_driver_linux == "525.60.13"
    assert release.minor_version_driver_windows == "528.33"
    assert (release.gcc_max, release.clang_max, release.msvc_range) == (14, 19, (1910, 1949))
    assert release.glibc_min == "2.27"
    assert release.platforms == ("linux_x86_64", "linux_aarch64", "win_amd64")
    assert (release.pypi, release.pypi_nvcc) == (True, False)


def test_platforms_and_packages_over_time() -> None:
    with_power = [release.version for release in toolkits() if "linux_ppc64le" in release.platforms]
    assert with_power == VERSIONS[: VERSIONS.index("12.4") + 1]
    assert [r.version for r in toolkits() if "win_arm64" in r.platforms] == ["13.4"]
    assert [r.version for r in toolkits() if r.pypi] == VERSIONS[VERSIONS.index("11.8") :]
    assert [r.version for r in toolkits() if r.pypi_nvcc] == ["13.0", "13.1", "13.2", "13.3", "13.4"]
    assert [r.version for r in toolkits() if r.driver_windows is None] == [
        "13.0",
        "13.1",
        "13.2",
        "13.3",
        "13.4",
    ]


@pytest.mark.parametrize(
    ("version", "kind", "compiler", "expected"),
    [
        ("12.6", "gcc", "13.3.0", True),
        ("12.6", "gcc", "14", False),
        ("13.0", "gcc", "15.1.0", True),
        ("13.0", "clang", "21.0.0", False),
        ("12.3", "msvc", "19.38.33130", True),
        ("12.3", "msvc", "19.40", False),
        ("12.4", "msvc", "19.40", True),
        ("13.0", "msvc", "19.16", False),
        ("13.2", "msvc", "19.50", True),
        ("13.0", "gcc", "", None),
        ("13.0", "msvc", "19", None),
        ("13.0", "unknown", "3.0", None),
    ],
)
def test_host_compilers(version: str, kind: str, compiler: str, expected: bool | None) -> None:
    release = toolkits().release(version)
    assert release is not None
    assert release.accepts(kind, compiler) is expected


@pytest.mark.parametrize(
    ("version", "platform", "expected"),
    [
        ("12.9", "win_amd64", "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.9"),
        ("12.9.1", "linux_x86_64", "/usr/local/cuda-12.9"),
        ("13.0", "linux_aarch64", "/usr/local/cuda-13.0"),
    ],
)
def test_default_root(version: str, platform: str, expected: str) -> None:
    assert toolkits().default_root(version, platform) == expected


HEAD = """
[minor-version-compatibility]
12 = { linux = "525", windows = "528" }
[default-root]
linux = "/usr/local/cuda-{version}"
windows = "C:/CUDA/v{version}"
[[release]]
version = "12.0"
architectures = ["9.0", "10.1"]
gcc = 12
clang = 14
msvc = [1910, 1939]
glibc = "2.17"
platforms = ["linux_x86_64"]
pypi = true
pypi-nvcc = false
source = "https://example.org/12.0"
"""


def messages(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "toolkits.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TorchwheelError) as error:
        load_toolkits(path)
    assert {problem.origin for problem in error.value.problems} == {str(path)}
    return [problem.what for problem in error.value.problems]


def test_an_entry_says_only_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "toolkits.toml"
    path.write_text(
        f"{HEAD}[[release]]\nversion = '12.1'\nadds = ['12.0a']\nremoves = ['9.0']\ngcc = 13\nsource = 'x'\n",
        encoding="utf-8",
    )
    first, second = load_toolkits(path)
    assert [found.dotted for found in sorted(second.architectures)] == ["10.1", "12.0a"]
    assert (first.gcc_max, second.gcc_max) == (12, 13)
    assert (second.clang_max, second.platforms, second.pypi) == (14, ("linux_x86_64",), True)


def test_a_release_may_not_lose_an_architecture_in_silence(tmp_path: Path) -> None:
    text = f"{HEAD}[[release]]\nversion = '12.1'\narchitectures = ['9.0', '12.0']\nsource = 'x'\n"
    assert messages(tmp_path, text) == ["CUDA 12.1: loses, without saying so under 'removes': 10.1"]


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = f"""{HEAD}
[[release]]
version = "12.0"
adds = ["9.0", "12.0", "12.0"]
removes = ["8.0"]
source = "x"
[[release]]
version = "13.0"
adds = ["nonsense"]
source = "x"
[[release]]
version = "twelve"
gccc = 13
gcc = "13"
msvc = [1910]
architectures = []
adds = []
"""
    assert messages(tmp_path, text) == [
        "CUDA 12.0: stands after 12.0; releases are sorted, and each is there once",
        "CUDA 12.0: removes what the release before it did not have: 8.0",
        "CUDA 12.0: 'adds' has twice: 12.0",
        "CUDA 12.0: adds what the release before it had: 9.0",
        "CUDA 13.0: minor-version-compatibility has no entry 13",
        "CUDA 13.0: 'adds' has 'nonsense', which is not written like '12.0a'",
        "CUDA twelve: 'gccc' is not a key of a release",
        "CUDA twelve: 'gcc' must be a int, and is '13'",
        "CUDA twelve: lacks source",
        "CUDA twelve: has both 'architectures' and 'adds'; keep one of them",
        "CUDA twelve: 'msvc' must be the least and the greatest _MSC_VER",
        "CUDA twelve: the version must be major.minor",
    ]


def test_a_removal_contradicts_the_list(tmp_path: Path) -> None:
    text = f"{HEAD}[[release]]\nversion='12.1'\narchitectures=['9.0','10.1']\nremoves=['10.1']\nsource='x'\n"
    assert messages(tmp_path, text) == ["CUDA 12.1: has under 'removes' what it still lists: 10.1"]


def test_an_empty_file(tmp_path: Path) -> None:
    assert messages(tmp_path, "") == [
        "default-root.linux must be a path with {version} in it",
        "default-root.windows must be a path with {version} in it",
        "there is no release",
    ]


def test_a_major_version_needs_both_drivers(tmp_path: Path) -> None:
    assert messages(tmp_path, HEAD.replace(', windows = "528"', "")) == [
        "minor-version-compatibility.12 must have 'linux' and 'windows'",
        "CUDA 12.0: minor-version-compatibility has no entry 12",
    ]


def test_the_first_release_states_everything(tmp_path: Path) -> None:
    text = HEAD.replace("gcc = 12\n", "").replace('glibc = "2.17"\n', "")
    assert messages(tmp_path, text) == ["CUDA 12.0: lacks gcc, glibc", "there is no release"]
