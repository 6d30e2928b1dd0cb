"""The shipped table of official builds against other knowledge, and the checks on loading."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.hardware.architecture import known_architectures
from torchwheel.pytorch import published_table
from torchwheel.pytorch.published_table import PublishedTable, cuda_of_label, load_published
from torchwheel.pytorch.releases import releases
from torchwheel.toolkit.catalogue import toolkits

FILE = Path(published_table.__file__).with_name("published.toml")


@pytest.fixture(scope="module")
def shipped() -> PublishedTable:
    return load_published(FILE, releases().versions)


def labels(table: PublishedTable, version: str, platform: str) -> list[str]:
    return [f"{build.label}{'*' if build.on_pypi else ''}" for build in table.builds(version, platform)]


@pytest.mark.parametrize(
    ("version", "linux_x86_64", "linux_aarch64", "win_amd64"),
    [
        ("2.0.1", "cu117* cu118 cpu", "cpu*", "cpu* cu118 cu117"),
        ("2.4.1", "cu121* cu124 cu118 cpu", "cpu*", "cpu* cu124 cu121 cu118"),
        ("2.6.0", "cu124* cu126 cu118 cpu", "cpu* cu126", "cpu* cu126 cu124 cu118"),
        ("2.7.1", "cu126* cu128 cu118 cpu", "cpu* cu128", "cpu* cu128 cu126 cu118"),
        ("2.8.0", "cu128* cu129 cu126 cpu", "cpu* cu129", "cpu* cu129 cu128 cu126"),
        ("2.11.0", "cu130* cu129 cu128 cu126 cpu", "cu130* cu128 cu126 cpu", "cpu* cu130 cu128 cu126"),
        ("2.12.0", "cu130* cu132 cu126 cpu", "cu130* cu132 cu126 cpu", "cpu* cu132 cu130 cu126"),
        ("2.12.1", "cu130* cu132 cu129 cu126 cpu", "cu130* cu132 cu126 cpu", "cpu* cu132 cu130 cu126"),
        ("2.14.1", "cu130* cu132 cu126 cpu", "cu130* cu132 cu126 cpu", "cpu* cu132 cu130 cu126"),
        ("2.15.0", "cu132* cpu", "cu132* cpu", "cpu*"),
    ],
)
def test_what_was_published(
    shipped: PublishedTable, version: str, linux_x86_64: str, linux_aarch64: str, win_amd64: str
) -> None:
    """The star is at the build that PyPI has."""
    assert " ".join(labels(shipped, version, "linux_x86_64")) == linux_x86_64
    assert " ".join(labels(shipped, version, "linux_aarch64")) == linux_aarch64
    assert " ".join(labels(shipped, version, "win_amd64")) == win_amd64


def test_pypi_has_one_build_of_every_release_for_every_platform(shipped: PublishedTable) -> None:
    on_pypi = [(build.torch, build.platform) for build in shipped if build.on_pypi]
    assert sorted(on_pypi) == sorted(
        (version, platform) for version in releases().versions for platform in published_table.PLATFORMS
    )


def test_the_code_in_a_wheel_is_what_its_own_torch_reports(shipped: PublishedTable) -> None:
    """`torch.cuda.get_arch_list()` of installed wheels, from public reports.

    https://github.com/pytorch/pytorch/issues/182250 for 2.10.0 and 2.11.0.
    """
    code = {
        (build.torch, build.platform, build.label): build.code.labels
        for build in shipped
        if build.code is not None
    }
    assert code["2.10.0", "linux_x86_64", "cu128"] == (
        "sm70",
        "sm75",
        "sm80",
        "sm86",
        "sm90",
        "sm100",
        "sm120",
    )
    assert code["2.11.0", "linux_x86_64", "cu126"] == ("sm50", "sm60", "sm70", "sm75", "sm80", "sm86", "sm90")
    assert code["2.11.0", "linux_x86_64", "cu128"] == ("sm75", "sm80", "sm86", "sm90", "sm100", "sm120")
    assert code["2.7.1", "linux_x86_64", "cu128"] == (
        "sm75", "sm80", "sm86", "sm90", "sm100", "sm120", "ptx120",
    )  # fmt: skip
    assert code["2.13.0", "linux_aarch64", "cu130"] == ("sm80", "sm90", "sm100", "sm110", "sm120")


def test_every_architecture_is_known_and_compiled_by_the_toolkit_of_its_label(
    shipped: PublishedTable,
) -> None:
    for build in shipped:
        if build.code is None:
            continue
        assert build.cuda is not None
        toolkit = toolkits().release(build.cuda)
        assert toolkit is not None, build.cuda
        for architecture in build.code.architectures:
            assert known_architectures().get(architecture) is not None, build
            assert toolkit.compiles(architecture), (build.torch, build.label, architecture)


def test_only_cuda_builds_have_device_code_and_cudnn(shipped: PublishedTable) -> None:
    for build in shipped:
        if build.label == "cpu":
            assert (build.cuda, build.code, build.cudnn) == (None, None, None)
        else:
            assert build.code is not None, build


@pytest.mark.parametrize(
    ("label", "cuda"),
    [
        ("cu118", "11.8"),
        ("cu130", "13.0"),
        ("cu1210", "121.0"),
        ("cpu", None),
        ("cu9", None),
        ("rocm6.4", None),
    ],
)
def test_the_cuda_of_a_label(label: str, cuda: str | None) -> None:
    assert cuda_of_label(label) == cuda


def test_the_facts_of_one_build(shipped: PublishedTable) -> None:
    default, *_, cpu = shipped.builds("2.14.1", "linux_x86_64")
    assert (default.label, default.cuda, default.index_hint, default.cudnn) == (
        "cu130",
        "13.0",
        "PyPI",
        "9.24.0.43",
    )
    assert (cpu.label, cpu.index_hint) == ("cpu", "cpu")
    assert default.python == ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t")
    assert shipped.builds("2.14.1", "win_arm64") == ()


VALID = """
[[build]]
platform = "linux_x86_64"
label = "cu128"
since = "2.7.0"
until = "2.7.0"
code = "7.0;7.5;12.0"
source = "https://example.org/build"

[[build]]
platform = "linux_x86_64"
label = "cu128"
since = "2.8.0"
until = "2.8.0"
code = "7.5;12.0+PTX"
removes = ["7.0"]
source = "https://example.org/build"

[[python]]
platforms = ["linux_x86_64"]
since = "2.7.0"
until = "2.8.0"
tags = ["cp312"]
source = "https://example.org/python"

[[pypi]]
platform = "linux_x86_64"
since = "2.8.0"
until = "2.8.0"
label = "cu128"
source = "https://example.org/pypi"

[[cudnn]]
label = "cu128"
since = "2.7.0"
until = "2.7.0"
note = "two documents disagree"
source = "https://example.org/cudnn"

[[cudnn]]
label = "cu128"
since = "2.8.0"
until = "2.8.0"
version = "9.10.2.21"
source = "https://example.org/cudnn"
"""


def load(tmp_path: Path, text: str) -> PublishedTable:
    path = tmp_path / "published.toml"
    path.write_text(text, encoding="utf-8")
    return load_published(path, ["2.7.0", "2.7.1", "2.8.0"])


def problems(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    with pytest.raises(TorchwheelError) as caught:
        load(tmp_path, text)
    return [(problem.what, problem.remedy) for problem in caught.value.problems]


def test_a_sound_file_loads(tmp_path: Path) -> None:
    table = load(tmp_path, VALID)
    assert [(build.torch, build.label, build.on_pypi, str(build.code), build.cudnn) for build in table] == [
        ("2.7.0", "cu128", False, "7.0;7.5;12.0", None),
        ("2.8.0", "cu128", True, "7.5;12.0+PTX", "9.10.2.21"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'removes = ["7.0"]\n',
            "",
            [
                (
                    "build 'cu128' for 'linux_x86_64' since '2.8.0': loses 7.0, and 'removes' says nothing",
                    "write removes = ['7.0']",
                ),
            ],
        ),
        (
            'code = "7.5;12.0+PTX"',
            'code = "7.0;7.5;12.0"',
            [
                (
                    "build 'cu128' for 'linux_x86_64' since '2.8.0': loses nothing, and 'removes' says 7.0",
                    "leave 'removes' out",
                ),
            ],
        ),
        (
            'code = "7.5;12.0+PTX"',
            'code = "7.5;12.0+PTX;20.9"',
            [
                (
                    "build 'cu128' for 'linux_x86_64' since '2.8.0': there is no CUDA architecture '20.9'",
                    "did you mean '12.1'?",
                ),
            ],
        ),
        (
            'until = "2.8.0"\ntags',
            'until = "2.7.1"\ntags',
            [
                ("no [[python]] says which Pythons 2.8.0 is for on linux_x86_64", "correct that entry"),
            ],
        ),
        (
            'since = "2.8.0"\nuntil = "2.8.0"\nlabel',
            'since = "2.7.1"\nuntil = "2.8.0"\nlabel',
            [
                ("pypi for 'linux_x86_64': there is no build 'cu128' of 2.7.1", "correct that entry"),
            ],
        ),
        (
            'until = "2.8.0"\nversion = "9.10.2.21"',
            'until = "2.8.0"\nversion = "nine"',
            [
                (
                    "cudnn of 'cu128' since '2.8.0': 'version' is 'nine', which is no version",
                    "write it as in '12.6'",
                ),
            ],
        ),
        (
            'note = "two documents disagree"\n',
            "",
            [
                (
                    "cudnn of 'cu128' since '2.7.0': has no 'version'",
                    "name it, or say in 'note' why it is not known",
                ),
            ],
        ),
        (
            'since = "2.8.0"\nuntil = "2.8.0"\nversion',
            'since = "2.7.1"\nuntil = "2.7.1"\nversion',
            [
                ("cudnn of 'cu128': there is no such build of 2.7.1", "correct that entry"),
                ("no [[cudnn]] says which cuDNN 'cu128' of 2.8.0 comes with", "correct that entry"),
            ],
        ),
        (
            'code = "7.0;7.5;12.0"\n',
            "",
            [
                (
                    "build 'cu128' for 'linux_x86_64' since '2.7.0': "
                    "a build has 'code' if, and only if, it is for CUDA",
                    "name its device code",
                ),
                (
                    "build 'cu128' for 'linux_x86_64' since '2.8.0': loses nothing, and 'removes' says 7.0",
                    "leave 'removes' out",
                ),
            ],
        ),
        (
            'until = "2.7.0"\ncode',
            'until = "2.8.0"\ncode',
            [
                ("build 'cu128' for 'linux_x86_64': 2.8.0 is in two entries", "end the first one before"),
                ("no [[cudnn]] says which cuDNN 'cu128' of 2.7.1 comes with", "correct that entry"),
            ],
        ),
        (
            'until = "2.7.0"\ncode',
            'until = "2.6.0"\ncode',
            [
                (
                    "build 'cu128' for 'linux_x86_64' since '2.7.0': there is no release '2.6.0'",
                    "name one of releases.toml, with its patch number",
                ),
                ("cudnn of 'cu128': there is no such build of 2.7.0", "correct that entry"),
            ],
        ),
        (
            'platforms = ["linux_x86_64"]',
            'platforms = ["linux_x86_64", "amiga"]',
            [
                (
                    "python since '2.7.0': there is no platform 'amiga'",
                    "use one of linux_x86_64, linux_aarch64, win_amd64",
                ),
            ],
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, expected: list[tuple[str, str]]) -> None:
    assert VALID.count(old) == 1
    assert problems(tmp_path, VALID.replace(old, new)) == expected


def test_builds_out_of_order_and_wrong_labels_are_all_reported(tmp_path: Path) -> None:
    rows = VALID.split("\n\n")
    swapped = "\n\n".join([rows[1], rows[0].replace('"cu128"', '"cuda"'), *rows[2:]])
    assert problems(tmp_path, swapped) == [
        (
            "build 'cuda' for 'linux_x86_64' since '2.7.0': 'label' is 'cuda'",
            "write it as in 'cu130' or 'cpu'",
        ),
        (
            "build 'cu128' for 'linux_x86_64' since '2.8.0': loses nothing, and 'removes' says 7.0",
            "leave 'removes' out",
        ),
        ("cudnn of 'cu128': there is no such build of 2.7.0", "correct that entry"),
        ("no [[cudnn]] says which cuDNN 'cuda' of 2.7.0 comes with", "correct that entry"),
    ]
    assert problems(
        tmp_path, "\n\n".join([rows[1].replace('removes = ["7.0"]\n', ""), rows[0], *rows[2:]])
    ) == [("the builds are out of order", "sort them by platform, label and 'since'")]
