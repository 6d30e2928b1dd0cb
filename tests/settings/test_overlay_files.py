from __future__ import annotations

from pathlib import Path

import pytest

from settings.loading import Load, Refuse, rendered
from torchwheel.settings.overlays import user_overlays_folder


def test_user_overlays_lie_between_built_in_ones_and_the_project(load: Load, tmp_path: Path) -> None:
    overlays = {"RTX 5070.toml": 'kind = "target"\ncuda = ">=13"\njobs = 2\nlocal-version = "user"\n'}
    settings = load(
        '[tool.torchwheel]\nlocal-version = "project"\n', config={"target": "rtx5070"}, overlays=overlays
    )
    assert (str(settings.cuda), settings.jobs, settings.local_version) == (">=13", 2, "project")
    cuda = settings.entries["cuda"]
    assert cuda.origin == str(tmp_path / "overlays" / "RTX 5070.toml")
    assert [(other.value, other.origin) for other in cuda.replaced] == [(">=12.8", "overlays/rtx5070.toml")]


def test_profiles_lie_over_targets_in_the_order_they_are_named(load: Load) -> None:
    overlays = {
        "t4.toml": 'kind = "target"\njobs = 1\nversion = "1"\nlocal-version = "t4"\n',
        "one.toml": 'kind = "profile"\njobs = 2\nversion = "2"\n',
        "two.toml": 'kind = "profile"\ninherits = "one"\njobs = 3\n',
    }
    both = load(config={"target": "t4", "profile": "two"}, overlays=overlays)
    assert (both.jobs, both.version, both.local_version) == (3, "2", "t4")
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
        "lab.toml": 'kind = "target"\ninherits = "rtx5070"\ntitle = "lab"\narch = "12.0a"\n',
        "desk.toml": 'kind = "target"\ninherits = "lab"\ncuda = "13.0"\n',
    }
    settings = load(config={"target": "desk"}, overlays=overlays)
    assert (settings.target, str(settings.arch), str(settings.cuda)) == (("desk",), "12.0a", "==13.0.*")
    assert settings.entries["cuda"].replaced[0].origin == "overlays/rtx5070.toml"


@pytest.mark.parametrize(
    ("files", "config", "messages"),
    [
        (
            {"t4.toml": "jobs = 1\n"},
            {"target": "t4"},
            [
                "{}/t4.toml: the file does not say what it describes  [overlay-without-kind]\n"
                '    fix: add kind = "target", or kind = "profile"'
            ],
        ),
        (
            {"t4.toml": 'kind = "targte"\njbos = 1\n'},
            {"target": "t4"},
            [
                '{}/t4.toml: kind is "targte", which is not one of target, profile  [ill-typed-value]\n'
                '    fix: write "target"'
            ],
        ),
        (
            {"p.toml": 'kind = "profile"\narch = "9.0"\ntarget = "t4"\nenabel = "nccl"\n'},
            {"profile": "p"},
            [
                "{}/p.toml: arch cannot stand in a profile  [misplaced-setting]\n"
                "    fix: move it to [tool.torchwheel] in pyproject.toml, or give it with -C",
                "{}/p.toml: target cannot stand in a profile  [misplaced-setting]\n"
                "    fix: move it to [tool.torchwheel] in pyproject.toml, or give it with -C",
                '{}/p.toml: "enabel" is not a setting  [unknown-setting]\n    fix: write "enable"',
            ],
        ),
        (
            {"p.toml": 'kind = "profile"\n', "t4.toml": "broken = \n"},
            {"profile": "q"},
            [
                '-C profile: there is no profile "q"  [unknown-profile]\n    fix: choose from: debug, minimal, p',
            ],
        ),
        (
            {},
            {"profile": "minimla,debgu"},
            [
                '-C profile: there is no profile "minimla"  [unknown-profile]\n    fix: write "minimal"',
                '-C profile: there is no profile "debgu"  [unknown-profile]\n    fix: write "debug"',
            ],
        ),
        (
            {"a.toml": 'kind = "profile"\ninherits = "b"\n', "b.toml": 'kind = "profile"\ninherits = "a"\n'},
            {"profile": "a"},
            [
                "{}/b.toml: a inherits from itself: a -> b -> a  [circular-inheritance]\n"
                "    fix: remove one inherits"
            ],
        ),
        (
            {"a.toml": 'kind = "profile"\ninherits = "b"\n'},
            {"profile": "a"},
            [
                '{}/a.toml: there is no profile "b" for a to inherit from  [unknown-profile]\n'
                "    fix: choose from: a, debug, minimal"
            ],
        ),
    ],
)
def test_bad_overlays(
    refuse: Refuse, tmp_path: Path, files: dict[str, str], config: dict[str, str], messages: list[str]
) -> None:
    expected = [message.replace("{}/", str(tmp_path / "overlays" / "_")[:-1]) for message in messages]
    assert rendered(refuse(overlays=files, config=config)) == expected


def test_only_the_files_in_use_are_read(load: Load) -> None:
    settings = load(config={"target": "t4"}, overlays={"broken.toml": "= nonsense", "l4.toml": "= nonsense"})
    assert settings.target == ("t4",)


def test_where_the_users_overlays_are(tmp_path: Path) -> None:
    assert user_overlays_folder({"TORCHWHEEL_CONFIG_DIR": str(tmp_path)}) == tmp_path / "overlays"
    default = user_overlays_folder({})
    assert (default.name, default.parent.name) == ("overlays", "torchwheel")
