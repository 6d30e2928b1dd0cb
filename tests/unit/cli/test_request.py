"""What the options that several commands share become."""

from __future__ import annotations

import argparse

import pytest

from torchwheel.cli import plan
from torchwheel.cli.request import populate_request, request_from
from torchwheel.reporting.errors import Problem, TorchwheelError


@pytest.mark.parametrize("option", ["-C", "--config-setting", "--config-settings"])
def test_settings_as_pip_and_build_and_uv_spell_them(option: str) -> None:
    parser = argparse.ArgumentParser()
    populate_request(parser)
    request = request_from(parser.parse_args([option, "target=cpu", option, "define.X=a=b"]))
    assert request.config_settings == {"target": "cpu", "define.X": "a=b"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--target", "cpu", "-C", "target=rtx5070"],
            Problem.of(
                "contradiction",
                origin="--target and -C target",
                one="--target is cpu",
                other="-C target is rtx5070",
            ).render(),
        ),
        (
            ["--package-version", "2.9", "-C", "version=2.10"],
            Problem.of(
                "contradiction",
                origin="--package-version and -C version",
                one="--package-version is 2.9",
                other="-C version is 2.10",
            ).render(),
        ),
        (
            ["--cuda-path", "/opt/a", "-C", "cuda-path=/opt/b"],
            Problem.of(
                "contradiction",
                origin="--cuda-path and -C cuda-path",
                one="--cuda-path is /opt/a",
                other="-C cuda-path is /opt/b",
            ).render(),
        ),
        (
            ["--python", "/nonexist"],
            Problem.of("contradiction/python", origin="--python").render(),
        ),
    ],
)
def test_options_that_contradict_each_other(words: list[str], message: str) -> None:
    parser = argparse.ArgumentParser()
    plan.populate(parser)
    with pytest.raises(TorchwheelError) as refused:
        request_from(parser.parse_args(words))
    assert str(refused.value) == message


def test_one_value_may_be_said_in_two_ways() -> None:
    parser = argparse.ArgumentParser()
    plan.populate(parser)
    request = request_from(parser.parse_args(["--target", "cpu", "-C", "target=cpu"]))
    assert request.config_settings == {"target": "cpu"}
