"""What the options that several commands share become."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from torchwheel.cli.request import populate_request, request_from


@pytest.mark.parametrize(
    ("typed", "folder"), [("cuda", "{}/cuda"), ("/opt/cuda", "/opt/cuda"), (r"C:\CUDA", r"C:\CUDA")]
)
def test_a_relative_cuda_path_is_where_the_command_runs(
    typed: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    populate_request(parser)
    request = request_from(parser.parse_args(["tree", "--cuda-path", typed]))
    assert (request.project, request.config_settings["cuda-path"]) == (
        tmp_path / "tree",
        folder.format(tmp_path),
    )
