"""``cuda-from`` beside ``cuda-path`` and the variables that mean it."""

from __future__ import annotations

import pytest

from settings.loading import Load, Refuse, rendered
from torchwheel.settings import Settings


def sources(settings: Settings) -> tuple[str, str | None, str]:
    path = settings.get("cuda-path")
    return settings.cuda_from, settings.cuda_path, path.origin if path else ""


@pytest.mark.parametrize(
    ("config", "environment", "expected"),
    [
        ({}, {}, ("auto", None, "")),
        ({"cuda-from": "PyPI"}, {}, ("pypi", None, "")),
        ({"cuda-from": "system", "cuda-path": "/b"}, {}, ("system", "/b", "-C cuda-path")),
        ({"cuda-path": "/b"}, {}, ("auto", "/b", "-C cuda-path")),
        ({"cuda-from": "pypi"}, {"CUDA_HOME": "/x"}, ("pypi", None, "")),
        ({}, {"CUDA_HOME": "/x", "TORCHWHEEL_CUDA_FROM": "pypi"}, ("pypi", None, "")),
        ({"cuda-from": "auto"}, {"CUDA_HOME": "/x"}, ("auto", "/x", "variable CUDA_HOME")),
    ],
)
def test_which_of_both_counts(
    load: Load, config: dict[str, str], environment: dict[str, str], expected: tuple[str, str | None, str]
) -> None:
    assert sources(load(config=config, environment=environment)) == expected


def test_a_variable_outranks_the_project_as_for_every_setting(load: Load) -> None:
    settings = load('[tool.torchwheel]\ncuda-from = "pypi"\n', environment={"CUDA_HOME": "/x"})
    assert sources(settings) == ("system", "/x", "variable CUDA_HOME")
    assert [other.key for other in settings.entries["cuda-path"].replaced] == ["cuda-from"]


def test_what_lost_is_remembered(load: Load) -> None:
    settings = load(config={"cuda-from": "pypi"}, environment={"CUDA_HOME": "/x"})
    assert [(other.key, other.text) for other in settings.entries["cuda-from"].replaced] == [
        ("cuda-from", "auto"),
        ("cuda-path", "/x"),
    ]


def test_two_that_contradict_each_other_are_a_problem(refuse: Refuse) -> None:
    assert rendered(refuse(config={"cuda-from": "pypi", "cuda-path": "/b"})) == [
        "-C cuda-from: cuda-from is pypi, but cuda-path is /b (-C cuda-path)  [cuda-from-contradicts-path]\n"
        "    why: both say which CUDA toolkit to use\n"
        "    fix: leave one of them out"
    ]


def test_values_that_are_none(refuse: Refuse) -> None:
    assert rendered(refuse(config={"cuda-from": "systm", "cuda-mismatch": "never"})) == [
        '-C cuda-from: cuda-from is "systm", which is not one of auto, system, pypi  [ill-typed-value]\n'
        '    fix: write "system"',
        '-C cuda-mismatch: cuda-mismatch is "never", which is not one of error, minor, allow  [ill-typed-value]\n'
        "    fix: write one of error, minor, allow, for example -C cuda-mismatch=error",
    ]


@pytest.mark.parametrize("path", ["/opt/cuda", "./cuda", "~/cuda", "C:\\CUDA"])
def test_a_path_belongs_under_cuda_path(refuse: Refuse, path: str) -> None:
    what = f'cuda-from is "{path}", which is not one of auto, system, pypi  [ill-typed-value]'
    assert rendered(refuse(config={"cuda-from": path})) == [
        f"-C cuda-from: {what}\n    fix: name a folder under cuda-path: -C cuda-path={path}"
    ]
    assert rendered(refuse(pyproject=f"[tool.torchwheel]\ncuda-from = '{path}'\n")) == [
        f'pyproject.toml [tool.torchwheel]: {what}\n    fix: name a folder under cuda-path: cuda-path = "{path}"'
    ]
