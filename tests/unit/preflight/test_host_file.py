"""A machine as a file: written and read back, edited by hand, and without anything secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from places import HOSTS
from preflight.contexts import CL, GCC, context, toolkit
from put import put
from refusals import error_of
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.host_file import host_file_text, read_host_file
from torchwheel.preflight.this_machine import read_facts, reported_environment
from torchwheel.system.toml import parse_toml
from torchwheel.toolkit.host_compiler import HostCompilerLimits


def read_back(facts: HostFacts, folder: Path) -> HostFacts:
    path = put(folder / "machine.toml", host_file_text(facts))
    return read_host_file(path)


def elsewhere(facts: HostFacts) -> HostFacts:
    """The same machine seen from another one."""
    return replace(facts, host=replace(facts.host, here=False, os_release="", os_version=""))


def test_linux_machine_comes_back_whole(tmp_path: Path) -> None:
    facts = context(
        toolkits=(toolkit(limits=HostCompilerLimits(14, 19, (1910, 1949)), missing=("cublas",)),),
        environment={"CUDA_HOME": "/usr/local/cuda-12.8", "CXXFLAGS": '-DNAME="Ü" -O2'},
        facts={
            "gpus": (NamedGpu("NVIDIA GB10", Architecture(12, 1)),),
            "other_compilers": (
                replace(GCC, path="/usr/bin/g++-14", launcher=("ccache",), arguments=("-m64",)),
            ),
        },
    ).host
    assert read_back(facts, tmp_path) == elsewhere(facts)


@pytest.mark.parametrize("conflict", ["", "2.42"])
def test_what_the_headers_say_of_glibc_comes_back(conflict: str, tmp_path: Path) -> None:
    """Headers are patched by hand, and then the table of CUDA releases is wrong about them."""
    facts = context(toolkits=(toolkit("12.8", glibc_conflict=conflict),)).host
    assert read_back(facts, tmp_path) == elsewhere(facts)


def test_windows_machine_comes_back_whole(tmp_path: Path) -> None:
    facts = context(platform="win_amd64", compiler=CL, python="3.13t", facts={"online": None}).host
    assert read_back(facts, tmp_path) == elsewhere(facts)


def test_nothing_known_comes_back_as_nothing_known(tmp_path: Path) -> None:
    facts = HostFacts(context(compiler=None).host.host, compilers_known=False)
    assert read_back(facts, tmp_path) == elsewhere(facts)


def test_this_machine_comes_back_whole(tmp_path: Path) -> None:
    facts = read_facts({"PATH": "", "CUDA_HOME": "/nowhere"})
    assert read_back(facts, tmp_path) == elsewhere(facts)


def test_the_home_folder_is_not_told() -> None:
    facts = HostFacts(
        context().host.host, build_folder=r"C:\Users\Ann\AppData", environment={"CC": "/home/ann/cc"}
    )
    assert r'build-folder = "~\\AppData"' in host_file_text(facts, home=r"C:\Users\Ann").splitlines()
    assert 'CC = "~/cc"' in host_file_text(facts, home="/home/ann").splitlines()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("/home/ann", "~"),
        ("/home/ann/", "~/"),
        ("/home/ann/a:/home/ann/b", "~/a:~/b"),
        ("-I/home/ann/include -isystem/home/ann/x", "-I~/include -isystem~/x"),
        ('-DROOT="/home/ann"', '-DROOT="~"'),
        ("/home/annabel/cc", "/home/annabel/cc"),
        ("/home/ann.old/cc", "/home/ann.old/cc"),
        ("/mnt/home/ann/cc", "/mnt/home/ann/cc"),
    ],
)
def test_only_whole_components_of_paths_are_replaced(value: str, written: str) -> None:
    facts = HostFacts(context().host.host, environment={"CXXFLAGS": value})
    text = host_file_text(facts, home="/home/ann/")
    assert parse_toml(text, "")["environment"]["CXXFLAGS"] == written


@pytest.mark.parametrize("value", [r"C:\Users\Ann\cc", r"c:\users\ann\cc", "C:/Users/Ann/cc"])
def test_windows_spells_one_folder_in_many_ways(value: str) -> None:
    facts = HostFacts(context().host.host, environment={"CC": value, "CXX": r"C:\Users\Annabel\cc"})
    found = parse_toml(host_file_text(facts, home=r"C:\Users\Ann"), "")["environment"]
    assert found["CC"] in (r"~\cc", "~/cc")
    assert found["CXX"] == r"C:\Users\Annabel\cc"


@pytest.mark.parametrize("path", sorted(HOSTS.glob("*.toml")), ids=lambda path: path.stem)
def test_described_hosts_are_as_they_would_be_written(path: Path) -> None:
    facts = read_host_file(path)
    assert host_file_text(facts) == path.read_text(encoding="utf-8")


def test_a_file_of_an_earlier_torchwheel_is_read(tmp_path: Path) -> None:
    facts = context().host
    text = host_file_text(facts).replace(
        "[[toolkits]]\n",
        '[[toolkits]]\ncompiles = ["12.0"]\nheader-version = "13.0"\nnvcc-version = "13.0.48"\n',
    )
    path = put(tmp_path / "machine.toml", f"long-paths = true\n{text}[visual-studio]\npath = 'C:/VS'\n")
    assert read_host_file(path) == elsewhere(facts)


WRONG = """
format = 2
platform = "win_x64"
memory-bytes = "much"
cores = true
colour = "blue"
gpus = ["RTX 5070"]
libraries.cudnn = "9.1"
environment.JOBS = 8

[[toolkits]]
root = "C:/CUDA"
msvc = [1920]

[[compilers]]
kind = "icc"
path = "icc"
"""


def test_a_wrong_file_is_refused_with_everything_that_is_wrong(tmp_path: Path) -> None:
    path = put(tmp_path / "wrong.toml", WRONG)
    assert sorted(problem.what for problem in error_of(read_host_file, path).problems) == [
        "'win_x64' is not a platform tag that torchwheel can plan for",
        "compiler 'icc': kind 'icc' or language 'cxx' is unknown",
        "the format is 2, but this torchwheel reads 1",
        "the machine: cores is True, not a whole number",
        "the machine: environment.JOBS is 8, not text",
        "the machine: gpus.1 is 'RTX 5070', not a table",
        "the machine: libraries.cudnn is '9.1', not a table",
        "the machine: memory-bytes is 'much', not a whole number",
        "the machine: unknown key 'colour'",
        "toolkit 'C:/CUDA': msvc is [1920]",
        "toolkit 'C:/CUDA': version is missing",
    ]


def test_only_variables_that_matter_and_nothing_secret() -> None:
    environment = {
        "CUDA_HOME": "/usr/local/cuda",
        "USE_NCCL": "0",
        "CMAKE_ARGS": "-DURL=https://ann:pass@example.org/x",
        "PATH": "/home/ann/bin",
        "USER": "ann",
        "GITHUB_TOKEN": "ghp",
        "USE_SECRET_SAUCE": "1",
        "SCCACHE_REDIS": "redis://:pw@cache",
        "CCACHE_REMOTE_STORAGE": "http://cache",
        "CCACHE_DIR": "/cache",
        "BUILD_API_KEY": "k",
        "CXXFLAGS": "",
    }
    assert reported_environment(environment) == {
        "CCACHE_DIR": "/cache",
        "CMAKE_ARGS": "-DURL=https://***@example.org/x",
        "CUDA_HOME": "/usr/local/cuda",
        "USE_NCCL": "0",
    }
