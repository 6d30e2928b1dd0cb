"""The precedence of layers against a second, naive resolver."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import strategies as st

from said import said
from settings.loading import Load, Refuse, rendered
from torchwheel.reporting.errors import Problem
from torchwheel.settings import Layer, Settings

# Every place that a value can stand in, lowest first.
PLACES = ("user target", "user profile", "project", "project target", "foreign", "own", "config")
Values = Mapping[str, Mapping[str, object]]


def values(*keys: str, value: st.SearchStrategy[object]) -> st.SearchStrategy[Values]:
    pairs = st.fixed_dictionaries({}, optional=dict.fromkeys(keys, value))
    return st.fixed_dictionaries(dict.fromkeys(PLACES, pairs))


def test_a_target_of_c_beats_an_ambient_list(load: Load) -> None:
    loaded = load(config={"target": "rtx5070"}, environment={"TORCH_CUDA_ARCH_LIST": "8.9"})
    arch = loaded.entries["arch"]
    assert (arch.text, arch.layer, arch.origin) == ("12.0", Layer.CONFIG, "compute capability of rtx5070")
    assert [(item.text, item.origin) for item in arch.replaced] == [("8.9", "variable TORCH_CUDA_ARCH_LIST")]


def test_an_ambient_list_beats_a_target_of_the_project(load: Load) -> None:
    loaded = load('[tool.torchwheel]\ntarget = "rtx5070"\n', environment={"TORCH_CUDA_ARCH_LIST": "8.9"})
    arch = loaded.entries["arch"]
    assert (arch.text, arch.layer) == ("8.9", Layer.ENVIRONMENT)
    assert [(item.text, item.origin) for item in arch.replaced] == [("12.0", "compute capability of rtx5070")]


def test_own_variables_beat_foreign_ones(load: Load) -> None:
    loaded = load(environment={"TORCHWHEEL_TARGET": "rtx5070", "TORCH_CUDA_ARCH_LIST": "8.9"})
    assert str(loaded.arch) == "12.0"


def test_a_component_and_its_option_are_one_setting(load: Load) -> None:
    loaded = load(
        '[tool.torchwheel]\nenable = "kineto"\n',
        config={"define.USE_KINETO": "ON", "target": "t4", "profile": "minimal"},
        environment={"USE_KINETO": "0"},
    )
    kineto = loaded.entries["define.USE_KINETO"]
    assert [(item.value, item.origin, item.component) for item in (kineto, *kineto.replaced)] == [
        ("ON", "-C define.USE_KINETO", ""),
        ("0", "variable USE_KINETO", ""),
        (True, "pyproject.toml [tool.torchwheel]", "kineto"),
        (False, "overlays/minimal.toml", "kineto"),
    ]


def test_entries_say_where_every_value_comes_from(load: Load) -> None:
    loaded = load('[tool.torchwheel]\njobs = 3\ntarget = "a100,t4"\n', environment={"MAX_JOBS": "4"})
    jobs, target = loaded.entries["jobs"], loaded.entries["target"]
    assert (jobs.text, jobs.layer.title, jobs.origin) == ("4", "environment", "variable MAX_JOBS")
    assert [(other.text, other.origin) for other in jobs.replaced] == [
        ("3", "pyproject.toml [tool.torchwheel]")
    ]
    assert (target.text, target.layer.title, target.replaced) == ("a100, t4", "project", ())
    assert loaded.entries["traceback"].text == "false"
    assert list(loaded.entries) == sorted(loaded.entries)


def test_the_order_of_layers() -> None:
    assert [layer.title for layer in sorted(Layer)] == [
        "built-in default",
        "built-in overlay",
        "user overlay",
        "project",
        "environment",
        "-C",
    ]


def sources(loaded: Settings) -> tuple[str, str | None, str]:
    path = loaded.entries.get("cuda-path")
    return loaded.cuda_from, loaded.cuda_path, path.origin if path else ""


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
    loaded = load('[tool.torchwheel]\ncuda-from = "pypi"\n', environment={"CUDA_HOME": "/x"})
    assert sources(loaded) == ("system", "/x", "variable CUDA_HOME")
    assert [other.key for other in loaded.entries["cuda-path"].replaced] == ["cuda-from"]


def test_what_lost_is_remembered(load: Load) -> None:
    loaded = load(config={"cuda-from": "pypi"}, environment={"CUDA_HOME": "/x"})
    assert [(other.key, other.text) for other in loaded.entries["cuda-from"].replaced] == [
        ("cuda-from", "auto"),
        ("cuda-path", "/x"),
    ]


def test_two_that_contradict_each_other_are_a_problem(refuse: Refuse) -> None:
    assert rendered(refuse(config={"cuda-from": "pypi", "cuda-path": "/b"})) == [
        said("cuda-from-contradicts-path", "-C cuda-from", "pypi", "/b", "-C cuda-path")
    ]


def test_values_that_are_none(refuse: Refuse) -> None:
    assert rendered(refuse(config={"cuda-from": "systm", "compiler-cache": "never"})) == [
        said(
            "ill-typed-value", "-C cuda-from", '"systm"', "one of auto, system, pypi", "did you mean system?"
        ),
        said("ill-typed-value", '"never"', "one of auto, ccache, sccache, none", "-C compiler-cache=sccache"),
    ]


@pytest.mark.parametrize(
    ("path", "typed"),
    [
        ("/opt/cuda", "cuda-path=/opt/cuda"),
        ("./my cuda", "'cuda-path=./my cuda'"),
        ("~/cuda", "'cuda-path=~/cuda'"),
        ("C:\\CUDA", "'cuda-path=C:\\CUDA'"),
    ],
)
def test_a_path_belongs_under_cuda_path(refuse: Refuse, path: str, typed: str) -> None:
    values = {"key": "cuda-from", "value": f'"{path}"', "form": "one of auto, system, pypi"}
    for origin, asked, written in (
        ("-C cuda-from", {"config": {"cuda-from": path}}, f"-C {typed}"),
        (
            "pyproject.toml [tool.torchwheel]",
            {"pyproject": f"[tool.torchwheel]\ncuda-from = '{path}'\n"},
            f'cuda-path = "{path}"',
        ),
    ):
        fix = f"name a folder under cuda-path: {written}"
        assert refuse(**asked) == (Problem.of("ill-typed-value/fixed", origin=origin, fix=fix, **values),)


def test_what_was_replaced_is_remembered_from_the_highest_down(load: Load) -> None:
    when = "[[tool.torchwheel.when]]\nmarker = \"sys_platform == 'linux'\"\njobs = 3\n"
    overlays = {"t4.toml": "kind = 'target'\njobs = 1\n"}
    loaded = load(f"[tool.torchwheel]\njobs = 2\n{when}", config={"target": "t4"}, overlays=overlays)
    assert loaded.jobs == 3
    assert [other.value for other in loaded.entries["jobs"].replaced] == [2, 1]
    beaten = load(f"[tool.torchwheel]\njobs = 2\n{when}", config={"jobs": "9"}).entries["jobs"].replaced
    assert [(other.value, other.replaced) for other in beaten] == [(3, ()), (2, ())]


def test_a_targets_table_beats_the_general_one_in_every_question(load: Load) -> None:
    pyproject = """
        [tool.torchwheel]
        cuda-from = "pypi"
        profile = "minimal"
        [tool.torchwheel.target.t4]
        cuda-path = "/opt/cuda"
        profile = "debug"
        """
    loaded = load(pyproject, config={"target": "t4"})
    assert (loaded.cuda_from, loaded.cuda_path) == ("system", "/opt/cuda")
    assert (loaded.profile, loaded.build_type) == (("debug",), "Debug")
    assert "USE_KINETO" not in loaded.define


def test_a_cpu_target_drops_architectures_that_were_not_meant_for_it(load: Load) -> None:
    ambient = load('[tool.torchwheel]\ntarget = "cpu"\n', environment={"TORCH_CUDA_ARCH_LIST": "9.0"})
    lower = load('[tool.torchwheel]\narch = "9.0"\n', config={"target": "cpu"})
    assert (ambient.arch, lower.arch) == (None, None)


def test_one_of_several_alternatives_is_enough(load: Load) -> None:
    loaded = load(config={"disable": "rocm", "enable": "cuda,nccl"})
    assert loaded.define["USE_NCCL"] is True


def test_the_strongest_word_against_alternatives_decides(load: Load, refuse: Refuse) -> None:
    """NCCL needs CUDA or ROCm: an overlay is without the one, -C without the other."""
    overlays = {"p.toml": "kind = 'profile'\ndisable = 'cuda'\n"}
    pyproject = "[tool.torchwheel]\nenable = 'nccl'\nprofile = 'p'\n"
    loaded = load(pyproject, config={"disable": "rocm"}, overlays=overlays)
    nccl = loaded.entries["define.USE_NCCL"]
    assert (nccl.value, nccl.origin) == (False, "-C disable")
    problems = refuse(
        pyproject="[tool.torchwheel]\nprofile = 'p'\ndisable = 'rocm'\n",
        config={"enable": "nccl"},
        overlays=overlays,
    )
    assert [problem.id for problem in problems] == ["component-needs"]
