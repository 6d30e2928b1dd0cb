"""The Dockerfile of docs/docker.md, as far as a machine without a Docker engine can tell."""

from __future__ import annotations

import re
import shlex
from functools import cache

from places import REPOSITORY
from torchwheel.cli.main import parse_command
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.versions import at_least

PAGE = REPOSITORY / "docs" / "docker.md"


@cache
def instructions() -> tuple[tuple[str, str], ...]:
    """The Dockerfile's instructions with their texts, arguments replaced by their defaults."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- Dockerfile -->\n")[2]
    lines = [line[4:] for line in text.split("\n- ")[0].splitlines() if line.startswith("    ")]
    whole = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    values = dict(re.findall(r"^ARG (\w+)=(\S+)$", whole, re.M))
    filled = re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], whole)
    found = [line.partition(" ") for line in filled.splitlines() if line]
    return tuple((name, rest.strip()) for name, _, rest in found)


def commands() -> list[list[str]]:
    """The commands of all RUN instructions."""
    run = [re.sub(r"--mount=\S+ ", "", text) for name, text in instructions() if name == "RUN"]
    return [shlex.split(command) for text in run for command in text.split("&&")]


def test_it_is_a_dockerfile_of_two_stages() -> None:
    assert {name for name, _ in instructions()} == {"ARG", "COPY", "ENV", "FROM", "RUN"}
    images = [text for name, text in instructions() if name == "FROM"]
    assert images == [
        "nvidia/cuda:13.0.2-cudnn-devel-ubuntu24.04 AS build",
        "nvidia/cuda:13.0.2-cudnn-runtime-ubuntu24.04",
    ]
    copied = [text for name, text in instructions() if name == "COPY"]
    assert copied == ["torchwheel-*.whl /tmp/", "--from=build /dist /dist"]


def test_its_torchwheel_commands_exist() -> None:
    own = [words[1:] for words in commands() if words[0] == "torchwheel"]
    assert [words[0] for words in own] == ["doctor", "build"]
    for words in own:
        parsed = parse_command(words)
        assert (parsed.path, parsed.target) == ("/src/pytorch", ["rtx5070"])


def test_its_cuda_compiles_for_its_target_with_its_compiler() -> None:
    release = read_toolkits().release("13.0")
    assert release is not None
    assert "sm_120" in {architecture.sm for architecture in release.architectures}
    # Ubuntu 24.04 has GCC 13 and glibc 2.39.
    assert release.gcc_max >= 13
    assert release.glibc_conflict is None or at_least(release.glibc_conflict, "2.40")


def test_its_runtime_image_gets_the_cupti_of_its_cuda() -> None:
    """PyTorch's libtorch_cpu.so links libcupti, which NVIDIA's runtime images lack."""
    (image,) = (text for name, text in instructions() if name == "FROM" and "-runtime-" in text)
    major, minor = image.removeprefix("nvidia/cuda:").split(".")[:2]
    runtime = instructions()[[text for _, text in instructions()].index(image) :]
    assert any(f" cuda-cupti-{major}-{minor} " in text for name, text in runtime if name == "RUN")
