from __future__ import annotations

import os
from pathlib import Path

import pytest

from settings.loading import Load, Refuse
from torchwheel.host.machine import Host
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.overlays import user_overlays_folder
from torchwheel.system.files import overlays_folder
from torchwheel.system.toml import read_toml

PROFILE = 'kind = "profile"\n'


def requested(settings: Settings) -> dict[str, object]:
    """Every define in the words of a script: 1 and 0 for truth values."""
    return {name: int(value) if isinstance(value, bool) else value for name, value in settings.define.items()}


def test_the_files_that_are_shipped() -> None:
    kinds = {file.stem: read_toml(file)["kind"] for file in overlays_folder().glob("*.toml")}
    profiles, targets = ("debug", "minimal"), ("a100", "cpu", "gb10", "sm120")
    assert kinds == dict.fromkeys(profiles, "profile") | dict.fromkeys(targets, "target")


@pytest.mark.parametrize("target", ["rtx5070", "sm120", "gb10", "a100", "cpu", "t4"])
@pytest.mark.parametrize("profile", ["", "minimal", "debug", "minimal,debug"])
def test_every_target_goes_with_every_profile_everywhere(
    load: Load, linux: Host, windows: Host, spark: Host, target: str, profile: str
) -> None:
    for host in (linux, windows, spark):
        settings = load(config={"target": target, "profile": profile}, host=host)
        assert settings.target == (target,)
        assert settings.build_type == ("Debug" if "debug" in profile else "Release")


def test_rtx5070_on_linux(load: Load) -> None:
    settings = load(config={"target": "rtx5070"})
    assert requested(settings) == {"USE_CUDA": 1}
    assert (str(settings.arch), str(settings.cuda), dict(settings.env)) == ("12.0", "None", {})


# Everything that the smallest configuration known to compile on a CPU switches off.
SMALLEST = (
    "USE_CUDA", "USE_CUDNN", "USE_ROCM", "USE_DISTRIBUTED", "USE_GLOO", "USE_MPI", "USE_TENSORPIPE",
    "USE_FBGEMM", "USE_MKLDNN", "USE_NNPACK", "USE_XNNPACK", "USE_PYTORCH_QNNPACK", "USE_KINETO", "USE_ITT",
    "USE_VULKAN", "USE_GFLAGS", "USE_GLOG", "BUILD_TEST",
)  # fmt: skip


def test_cpu_minimal_switches_off_all_of_the_smallest_configuration(load: Load) -> None:
    settings = load(config={"target": "cpu", "profile": "minimal"})
    assert {name: settings.define.get(name) for name in SMALLEST} == dict.fromkeys(SMALLEST, False)
    assert set(settings.define.values()) == {False}
    assert settings.arch is None


def test_minimal_leaves_cuda_to_the_target(load: Load) -> None:
    assert load(config={"profile": "minimal"}).define.keys().isdisjoint({"USE_CUDA", "USE_CUDNN"})


def test_debug(load: Load) -> None:
    settings = load(config={"profile": "debug"})
    assert (settings.build_type, dict(settings.define)) == ("Debug", {"DEBUG_CUDA": False})


def test_user_overlays_lie_between_built_in_ones_and_the_project(load: Load, tmp_path: Path) -> None:
    overlays = {"A100.toml": 'kind = "target"\ncuda = ">=13"\njobs = 2\nlocal-version = "user"\n'}
    settings = load(
        '[tool.torchwheel]\nlocal-version = "project"\n', config={"target": "a100"}, overlays=overlays
    )
    assert (str(settings.cuda), settings.jobs, settings.local_version) == (">=13", 2, "project")
    cuda = settings.entries["cuda"]
    assert cuda.origin == str(tmp_path / "overlays" / "A100.toml")
    assert [(other.value, other.origin) for other in cuda.replaced] == [(">=11.8", "overlays/a100.toml")]


def test_profiles_lie_over_targets_in_the_order_they_are_named(load: Load) -> None:
    overlays = {
        "t4.toml": 'kind = "target"\njobs = 1\npackage-version = "1"\nlocal-version = "t4"\n',
        "one.toml": 'kind = "profile"\njobs = 2\npackage-version = "2"\n',
        "two.toml": 'kind = "profile"\ninherits = "one"\njobs = 3\n',
    }
    both = load(config={"target": "t4", "profile": "two"}, overlays=overlays)
    assert (both.jobs, both.package_version, both.local_version) == (3, "2", "t4")
    reversed_order = load(config={"target": "t4", "profile": "two,one"}, overlays=overlays)
    assert (reversed_order.jobs, reversed_order.profile) == (2, ("two", "one"))
    assert [other.value for other in reversed_order.entries["jobs"].replaced] == [3, 2, 1]


def test_a_target_may_name_its_profile_and_a_higher_layer_another(load: Load) -> None:
    overlays = {"t4.toml": 'kind = "target"\nprofile = "minimal"\n'}
    assert load(config={"target": "t4"}, overlays=overlays).profile == ("minimal",)
    assert load(config={"target": "t4"}, overlays=overlays).define["USE_KINETO"] is False
    assert "USE_KINETO" not in load(config={"target": "t4", "profile": ""}, overlays=overlays).define


def test_inheritance_across_folders(load: Load) -> None:
    overlays = {
        "lab.toml": 'kind = "target"\ninherits = "a100"\ntitle = "lab"\narch = "12.0a"\n',
        "desk.toml": 'kind = "target"\ninherits = "lab"\ncuda = "13.0"\n',
    }
    settings = load(config={"target": "desk"}, overlays=overlays)
    assert (settings.target, str(settings.arch), str(settings.cuda)) == (("desk",), "12.0a", "==13.0.*")
    assert settings.entries["cuda"].replaced[0].origin == "overlays/a100.toml"


@pytest.mark.parametrize(
    ("files", "config", "place", "ids"),
    [
        ({"t4.toml": "jobs = 1\n"}, {"target": "t4"}, "overlays/t4.toml", "overlay-without-kind"),
        ({"t4.toml": 'kind = "targte"\njbos = 1\n'}, {"target": "t4"}, "overlays/t4.toml", "ill-typed-value"),
        (
            {"p.toml": f'{PROFILE}arch = "9.0"\ntarget = "t4"\nenabel = "nccl"\n'},
            {"profile": "p"},
            "overlays/p.toml",
            "misplaced-setting misplaced-setting unknown-setting",
        ),
        ({"p.toml": PROFILE, "t4.toml": "broken = \n"}, {"profile": "q"}, "-C profile", "unknown-profile"),
        ({}, {"profile": "minimla,debgu"}, "-C profile", "unknown-profile unknown-profile"),
        (
            {"a.toml": f'{PROFILE}inherits = "b"\n', "b.toml": f'{PROFILE}inherits = "a"\n'},
            {"profile": "a"},
            "overlays/b.toml",
            "circular-inheritance",
        ),
        ({"a.toml": f'{PROFILE}inherits = "b"\n'}, {"profile": "a"}, "overlays/a.toml", "unknown-profile"),
    ],
)
def test_bad_overlays(
    refuse: Refuse, files: dict[str, str], config: dict[str, str], place: str, ids: str
) -> None:
    problems = refuse(overlays=files, config=config)
    assert [problem.id for problem in problems] == ids.split()
    assert all(problem.origin.endswith(place) for problem in problems)


def test_only_the_files_in_use_are_read(load: Load) -> None:
    settings = load(config={"target": "t4"}, overlays={"broken.toml": "= nonsense", "l4.toml": "= nonsense"})
    assert settings.target == ("t4",)


def test_where_the_users_overlays_are(tmp_path: Path) -> None:
    assert user_overlays_folder({"TORCHWHEEL_CONFIG_DIR": str(tmp_path)}) == tmp_path / "overlays"
    default = user_overlays_folder({"USERPROFILE" if os.name == "nt" else "HOME": str(tmp_path)})
    assert (default.name, default.parent.name) == ("overlays", "torchwheel")


def test_the_highest_layer_says_what_a_target_inherits(load: Load) -> None:
    overlays = {"lab.toml": 'kind = "target"\ninherits = "t4"\njobs = 3\n'}
    lab = load(
        '[tool.torchwheel.target.lab]\ninherits = "a100"\n', config={"target": "lab"}, overlays=overlays
    )
    assert (str(lab.arch), lab.jobs) == ("8.0", 3)


def test_a_file_of_the_exact_name_comes_before_aliases(load: Load) -> None:
    overlays = {"A100.toml": 'kind = "target"\njobs = 1\n', "rtx5070.toml": 'kind = "target"\njobs = 2\n'}
    assert load(config={"target": "rtx5070"}, overlays=overlays).jobs == 2


def test_the_users_folder_is_read_without_being_named(linux: Host, tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "lab.toml").write_text('kind = "target"\narch = "9.0"\n', encoding="utf-8")
    environment = {"TORCHWHEEL_CONFIG_DIR": str(tmp_path)}
    assert str(load_settings(None, {"target": "lab"}, environment, linux).arch) == "9.0"
