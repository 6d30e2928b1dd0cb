from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.known_architectures import known_architectures, load_architectures


def test_the_shipped_architectures() -> None:
    known = {entry.capability.dotted: "".join(entry.suffixes) for entry in known_architectures()}
    plain = "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.8 8.9"
    both = "10.0 10.1 10.3 10.7 11.0 12.0 12.1"
    assert known == dict.fromkeys(plain.split(), "") | {"9.0": "a"} | dict.fromkeys(both.split(), "af")


def test_the_forms_are_those_of_cuda_13() -> None:
    # `ptxas --help` of CUDA 13.0, "Allowed values" of --gpu-name.
    # It has neither 10.7, which is newer, nor 10.1, which it calls 11.0.
    others = (Architecture(10, 1), Architecture(10, 7))
    shipped = [
        text.replace(".", "")
        for entry in known_architectures()
        for text in entry.spellings
        if entry.capability >= Architecture(7, 5) and entry.capability not in others
    ]
    assert " ".join(shipped) == (
        "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f"
    )


def test_what_cpp_extension_takes() -> None:
    # `supported_arches` of torch/utils/cpp_extension.py, PyTorch 2.14, from Maxwell on.
    taken = [
        f"{entry.capability}{suffix}"
        for entry in known_architectures()
        for suffix in entry.cpp_extension_suffixes
    ]
    assert " ".join(taken) == (
        "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a 10.0 10.0a 10.3 10.3a "
        "11.0 11.0a 12.0 12.0a 12.1 12.1a"
    )


def test_tegra_and_its_renaming() -> None:
    known = known_architectures()
    assert [e.capability.dotted for e in known if e.tegra] == ["5.3", "6.2", "7.2", "8.7", "10.1", "11.0"]
    assert {e.capability.dotted: str(e.renamed_to) for e in known if e.renamed_to} == {"10.1": "11.0"}


def test_every_source_is_public() -> None:
    assert {entry.source.split("/")[2] for entry in known_architectures()} == {
        "developer.nvidia.com",
        "docs.nvidia.com",
    }


def test_wrong_entries_are_all_reported(tmp_path: Path) -> None:
    path = tmp_path / "architectures.toml"
    path.write_text(
        """
        [[architecture]]
        capability = "9.0"
        family = "Hopper"
        suffixes = ["b"]
        cpp-extension = ["a"]
        sources = "x"

        [[architecture]]
        capability = "eight"
        family = ""
        suffixes = "a"
        source = "x"

        [[architecture]]
        capability = "9.0"
        family = "Hopper"
        renamed-to = "9.1"
        source = "x"

        [[name]]
        name = "Hopper"
        means = ["9.5"]
        source = "x"

        [[name]]
        name = "hopper"
        means = ["9.0"]
        source = "x"

        [[refused]]
        words = ["all"]
        """,
        encoding="utf-8",
    )
    with pytest.raises(TorchwheelError) as caught:
        load_architectures(path)
    assert {problem.origin for problem in caught.value.problems} == {str(path)}
    assert [problem.what for problem in caught.value.problems] == [
        "architecture '9.0': unknown key 'sources'",
        "architecture '9.0': there is no suffix 'b'",
        "architecture '9.0': 'cpp-extension' has 'a', which 'suffixes' has not",
        "architecture '9.0': 'source' must be a str that is not empty, and is nothing",
        "architecture 'eight': 'suffixes' must be a list that is not empty, and is 'a'",
        "architecture 'eight': 'eight' is no compute capability",
        "architecture 'eight': 'family' must be a str that is not empty, and is ''",
        "architecture 'eight': is out of order",
        "architecture '9.0': is there twice",
        "architecture '9.0': there is no '9.1'",
        "name 'Hopper': there is no architecture '9.5'",
        "name 'hopper': 'hopper' is there twice",
        "refused ['all']: 'source' must be a str that is not empty, and is nothing",
        "refused ['all']: 'remedy' must be a str that is not empty, and is nothing",
    ]
