from __future__ import annotations

from pathlib import Path

import pytest

from plan.fixtures import modern_tree, plan
from plan.planning import LINUX, Planner, ids, toolkit
from refusals import ids_of
from said import said
from settings.loading import Load, Refuse, rendered
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import Plan
from torchwheel.settings import Layer, load_settings
from torchwheel.settings.project import SDIST_FILE, SdistRecord, read_sdist_record, settings_to_record


def test_the_general_table(load: Load, tmp_path: Path) -> None:
    settings = load(
        """
        [tool.torchwheel]
        source = "../pytorch"
        target = "RTX 5070"
        build-dir = "build dir"
        disable = ["tests"]
        define.NAME = "a;b"
        define.NUMBER = 3
        env.CFLAGS = "-O2"
        """
    )
    project = tmp_path / "projekt ü"
    assert settings.project is not None
    assert settings.project.folder == project
    assert settings.project.table("tool", "torchwheel")["source"] == "../pytorch"
    assert settings.source == project / "../pytorch"
    assert settings.build_dir == str(project / "build dir")
    assert settings.target == ("rtx5070",)
    assert (settings.define["NAME"], settings.define["NUMBER"]) == ("a;b", 3)
    assert settings.define["BUILD_TEST"] is False
    assert settings.env["CFLAGS"] == "-O2"
    assert settings.entries["define.NUMBER"].origin == "pyproject.toml [tool.torchwheel]"


@pytest.mark.parametrize(
    "pyproject", ["", "[project]\nname = 'x'\n", "[tool.other]\nx = 1\n", "[tool.torchwheel]\n"]
)
def test_a_project_that_says_nothing(load: Load, pyproject: str) -> None:
    settings = load(pyproject)
    assert settings.target == ()
    assert settings.arch is None
    assert not settings.is_cpu
    assert {key: item.layer.title for key, item in settings.entries.items()} == {
        "build-env": "built-in default",
        "compiler-cache": "built-in default",
        "build-type": "built-in default",
        "cuda-from": "built-in default",
        "traceback": "built-in default",
    }


def test_no_project_at_all(linux: Host, tmp_path: Path) -> None:
    for folder in (None, tmp_path, tmp_path / "missing"):
        settings = load_settings(folder, None, {}, linux, tmp_path)
        assert (settings.source, settings.build_type, settings.build_env) == (None, "Release", "auto")


def test_target_tables_lie_over_the_general_table_and_need_default_target(load: Load) -> None:
    pyproject = """
        [tool.torchwheel]
        default-target = "rtx5070"
        jobs = 2
        local-version = "general"

        [tool.torchwheel.target."RTX 5070"]
        title = "my card"
        local-version = "special"

        [tool.torchwheel.target.t4]
        jobs = 9
        """
    settings = load(pyproject)
    assert (settings.target, settings.jobs, settings.local_version) == (("rtx5070",), 2, "special")
    local = settings.entries["local-version"]
    assert local.origin == 'pyproject.toml [tool.torchwheel.target."RTX 5070"]'
    assert [other.value for other in local.replaced] == ["general"]
    assert load(pyproject, config={"target": "t4"}).jobs == 9


def test_a_target_of_ones_own(load: Load) -> None:
    pyproject = """
        [tool.torchwheel.target.lab]
        inherits = "a100"
        title = "the lab's machine"
        disable = ["mpi"]

        [tool.torchwheel.target.old-lab]
        arch = ["7.0", "7.5+PTX"]

        [tool.torchwheel.target.no-gpu]
        inherits = "cpu"
        """
    lab = load(pyproject, config={"target": "Lab"})
    assert (lab.target, str(lab.arch), lab.define["USE_MPI"]) == (("lab",), "8.0", False)
    assert str(lab.cuda) == ">=11.8"
    old = load(pyproject, config={"target": "old_lab"})
    assert (old.target, str(old.arch)) == (("old-lab",), "7.0;7.5+PTX")
    assert old.entries["arch"].origin == "pyproject.toml [tool.torchwheel.target.old-lab]"
    none = load(pyproject, config={"target": "no-gpu"})
    assert (none.is_cpu, none.arch, none.define["USE_CUDA"]) == (True, None, False)


def test_conditions(load: Load, linux: Host, windows: Host) -> None:
    pyproject = """
        [tool.torchwheel]
        jobs = 1
        [[tool.torchwheel.when]]
        marker = "sys_platform == 'win32'"
        jobs = 2
        define.ONLY = "windows"
        [[tool.torchwheel.when]]
        marker = "platform_machine in 'x86_64 AMD64' and python_version >= '3.11'"
        jobs = 3
        """
    on_linux, on_windows = load(pyproject, host=linux), load(pyproject, host=windows)
    assert (on_linux.jobs, dict(on_linux.define)) == (3, {})
    assert (on_windows.jobs, dict(on_windows.define)) == (3, {"ONLY": "windows"})
    origin = "pyproject.toml [tool.torchwheel]"
    assert [(item.value, item.origin) for item in on_windows.entries["jobs"].replaced] == [
        (2, f"{origin} [[when]] sys_platform == 'win32'"),
        (1, origin),
    ]


def test_reserved_tables(load: Load) -> None:
    settings = load(
        """
        [[tool.torchwheel.extension]]
        name = "kernels._C"
        anything = [1, 2]

        [tool.torchwheel.adopted]
        build-backend = "scikit_build_core.build"
        backend-path = ["tools"]
        """
    )
    assert "extension" not in settings.entries


SIX_MISTAKES = """
[tool.torchwheel]
default-target = "rtx5071"
jbos = 8
jobs = "many"
disable = ["ncll", "tests"]
cuda = ">=twelve"
local-version = "cu130+sm120"

[[tool.torchwheel.when]]
marker = "sys_platform = 'win32'"
profile = "minimal"
"""


def test_six_mistakes_are_reported_at_once(refuse: Refuse) -> None:
    problems = refuse(pyproject=SIX_MISTAKES)
    assert {problem.origin for problem in problems} == {"pyproject.toml [tool.torchwheel]"}
    assert [problem.id for problem in problems] == [
        "unknown-setting", "ill-typed-value", "unknown-component", "ill-typed-value", "ill-typed-value",
        "malformed-marker", "unknown-target",
    ]  # fmt: skip


def test_mistakes_in_tables_nobody_uses_count_too(refuse: Refuse) -> None:
    pyproject = """
        [tool.torchwheel]
        [tool.torchwheel.target.t4]
        source = "x"
        targte = "y"
        inherits = 3
        define = "USE_X=1"
        when = 3
        [tool.torchwheel.target.T4]
        [tool.torchwheel.target]
        l4 = "x"
        """
    where = "pyproject.toml [tool.torchwheel.target.t4]"
    assert [(problem.id, problem.origin) for problem in refuse(pyproject=pyproject)] == [
        ("ill-typed-value", where),
        ("misplaced-setting", where),
        ("unknown-setting", where),
        ("ill-typed-value", where),
        ("ill-typed-value", where),
        ("repeated-setting", f"{where} and [tool.torchwheel.target.T4]"),
        ("ill-typed-value", "pyproject.toml"),
    ]


def test_a_when_without_marker(refuse: Refuse) -> None:
    assert rendered(refuse(pyproject="[[tool.torchwheel.when]]\njobs = 3\n")) == [
        said("malformed-marker", "pyproject.toml [tool.torchwheel]")
    ]


def test_enable_and_disable_of_the_same(refuse: Refuse) -> None:
    pyproject = '[tool.torchwheel]\nenable = ["nccl"]\ndisable = "NCCL"\n'
    assert rendered(refuse(pyproject=pyproject)) == [
        said("contradiction", "pyproject.toml [tool.torchwheel]", "enable names nccl", "disable names nccl")
    ]


def test_target_as_key_and_table_is_explained(refuse: Refuse) -> None:
    problems = refuse(pyproject='[tool.torchwheel]\ntarget = "t4"\n[tool.torchwheel.target.t4]\njobs = 1\n')
    assert [problem.id for problem in problems] == ["malformed-toml"]
    assert "default-target" in problems[0].remedy


@pytest.mark.parametrize(
    ("pyproject", "id", "what"),
    [
        ("[tool]\ntorchwheel = 3\n", "ill-typed-value", "[tool.torchwheel] is 3, which is not a table"),
        ("[tool.torchwheel\n", "malformed-toml", None),
        ("tool = 3\n", "ill-typed-value", None),
        (
            "[tool.torchwheel]\nextension = [1]\n",
            "ill-typed-value",
            "extension is [1], which is not an array of tables",
        ),
        (
            '[tool.torchwheel]\ntarget = "t4"\ndefault-target = "l4"\n',
            "contradiction",
            "target and default-target are both set",
        ),
        (
            "[tool.torchwheel.adopted]\nbuild-backend = 3\n",
            "malformed-adoption",
            "[tool.torchwheel.adopted] does not name the tree's own build backend",
        ),
    ],
)
def test_malformed_projects(refuse: Refuse, pyproject: str, id: str, what: str | None) -> None:
    problems = refuse(pyproject=pyproject)
    assert [problem.id for problem in problems] == [id]
    assert what in (None, problems[0].what)


@pytest.mark.parametrize("name", ["torchweel", "torch-wheel", "TorchWheel", "torchwheels"])
def test_a_table_whose_name_is_misspelt(refuse: Refuse, name: str) -> None:
    problems = refuse(pyproject=f'[tool.{name}]\nsource = "../pytorch"\n')
    assert [(problem.id, problem.remedy) for problem in problems] == [
        ("misspelt-table", "write [tool.torchwheel]")
    ]


@pytest.mark.parametrize("name", ["torchvision", "torch", "hatch", "scikit-build"])
def test_a_table_of_another_tool(load: Load, name: str) -> None:
    load(f"[tool.{name}]\nx = 1\n")


__all__ = ["modern_tree", "plan"]


def record_of(plan: Plan) -> SdistRecord:
    cuda = plan.toolkit.version if plan.toolkit else None
    return SdistRecord(str(plan.version), settings_to_record(plan.settings.entries.values(), cuda))


def unpacked(planner: Planner, record: SdistRecord) -> None:
    project = planner.folder / "projekt ü"
    project.mkdir(exist_ok=True)
    (project / SDIST_FILE).write_bytes(record.to_json())


@pytest.mark.parametrize(
    ("config", "environment", "settings"),
    [
        ({"target": "cpu"}, {}, {"target": "cpu"}),
        (
            {
                "target": "rtx5070,a100",
                "profile": "minimal",
                "enable": "distributed",
                "package-version": "2.14.1",
            },
            {"MAX_JOBS": "7", "USE_OPENMP": "0", "CFLAGS": "-O1", "CUDA_HOME": "/opt/cuda"},
            {
                "arch": "8.0;12.0",
                "cuda": "13.0",
                "define.USE_DISTRIBUTED": "true",
                "define.USE_OPENMP": "0",
                "profile": "minimal",
                "target": "rtx5070,a100",
                "package-version": "2.14.1",
            },
        ),
        (
            {"arch": "9.0+PTX", "build-type": "Debug", "env.HF_TOKEN": "secret", "define.X": "/home/me"},
            {"TORCHWHEEL_LOCAL_VERSION": "mine"},
            {"arch": "9.0+PTX", "build-type": "Debug", "cuda": "13.0", "local-version": "mine"},
        ),
        # It is in the sdist's own name.
        (
            {"target": "cpu"},
            {"TORCH_PACKAGE_NAME": "torch-x"},
            {"env.TORCH_PACKAGE_NAME": "torch-x", "target": "cpu"},
        ),
    ],
)
def test_what_decides_the_version_is_remembered_and_builds_it_again(
    config: dict[str, str], environment: dict[str, str], settings: dict[str, str], plan: Planner
) -> None:
    first = plan(config, environment=environment, toolkits=[toolkit("13.0")])
    record = record_of(first)
    assert record.settings == settings
    unpacked(plan, record)
    again = plan({}, toolkits=[toolkit("13.0"), toolkit("13.1")])
    assert record_of(again).settings == settings
    assert (again.version, again.architectures) == (first.version, first.architectures)
    assert not {"no-target", "version-is-not-the-sdists"} & set(ids(again))


def test_it_lies_over_the_project_and_below_what_is_asked_for(plan: Planner) -> None:
    unpacked(plan, SdistRecord("2.14.1+cpu", {"target": "cpu", "package-version": "2.14.1"}))
    pyproject = "[tool.torchwheel]\ntarget = 'rtx5070'\npackage-version = '9.9'\n"
    made = plan({}, pyproject=pyproject)
    assert str(made.version) == "2.14.1+cpu"
    target = made.settings.entries["target"]
    assert (target.layer, target.origin) == (Layer.PROJECT, "the sdist's target")
    other = plan({"target": "a100"}, pyproject=pyproject, toolkits=[toolkit("13.0")])
    assert str(other.version) == "2.14.1+cu130.sm80"
    assert ids(other)[0] == "version-is-not-the-sdists"


def test_without_a_label_any_target_may_be_chosen(plan: Planner) -> None:
    unpacked(plan, SdistRecord("2.14.1", {}))
    made = plan({"target": "cpu", "package-version": "2.14.1"})
    assert (str(made.version), ids(made)) == ("2.14.1+cpu", [])


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1, "settings": {}}',
        b'{"version": "1", "settings": []}',
        b'{"version": "1", "settings": {"target": 1}}',
        b'{"version": "1", "settings": {"cuda-path": "/evil"}}',
        b'{"version": "1", "settings": {"env.LD_PRELOAD": "/evil"}}',
        b'{"version": "1", "settings": {"define.CMAKE_C_COMPILER": "/evil"}}',
    ],
)
def test_a_record_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / SDIST_FILE).write_bytes(content)
    assert ids_of(load_settings, tmp_path, {}, {}, LINUX) == ["malformed-sdist-record"]


def test_a_project_without_pyproject_remembers_too(tmp_path: Path) -> None:
    (tmp_path / SDIST_FILE).write_bytes(SdistRecord("1.2+cpu", {"target": "cpu"}).to_json())
    assert load_settings(tmp_path, {}, {}, LINUX).target == ("cpu",)


def test_other_folders_remember_nothing(tmp_path: Path) -> None:
    assert read_sdist_record(tmp_path) is None
