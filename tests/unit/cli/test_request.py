"""What the options that several commands share become."""

from __future__ import annotations

import argparse

import pytest

from torchwheel.cli import plan
from torchwheel.cli.request import populate_request, request_from
from torchwheel.reporting.errors import TorchwheelError


@pytest.mark.parametrize("option", ["-C", "--config-setting", "--config-settings"])
def test_settings_as_pip_and_build_and_uv_spell_them(option: str) -> None:
    parser = argparse.ArgumentParser()
    populate_request(parser)
    request = request_from(parser.parse_args([option, "target=cpu", option, "define.X=a=b"]))
    assert request.config_settings == {"target": "cpu", "define.X": "a=b"}


def test_another_machines_python_needs_that_machine() -> None:
    parser = argparse.ArgumentParser()
    plan.populate(parser)
    with pytest.raises(TorchwheelError) as refused:
        request_from(parser.parse_args(["--python", "3.12"]))
    assert [problem.id for problem in refused.value.problems] == ["contradiction"]
