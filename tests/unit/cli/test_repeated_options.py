"""An option that is given twice: lists join, and of anything else two values are an error that names both."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from cli.running import Run
from places import MINITORCH
from refusals import error_of, ids_of
from torchwheel.cli import plan
from torchwheel.cli.main import COMMANDS, make_parsers, parse_command
from torchwheel.cli.request import populate_request, request_from
from torchwheel.hardware.arch import parse_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.settings.config_settings import ConfigSettings, read_config_settings
from torchwheel.settings.known_keys import Where, keys_for
from torchwheel.settings.value_types import FLAG

Action = argparse.Action
WINDOWS = ("--platform", "win_amd64")
PARSERS = make_parsers(COMMANDS)[1]
TWO = {
    "target": ("a100", "t4"), "profile": ("minimal", "debug"), "arch": ("8.0", "12.0"), "cuda": ("12.8", "13.0"),
    "enable": ("gloo", "mpi"), "disable": ("gloo", "mpi"), "jobs": ("2", "3"), "package-version": ("2.9", "2.10"),
    "local-version": ("a", "b"), "traceback": ("true", "false"), "days": ("3", "5"), "cuda-path": ("/one", "/two"),
}  # fmt: skip


def _two_values(name: str) -> tuple[str, str]:
    key = keys_for(Where.COMMAND).get(name)
    if key is not None and key.type.words:
        return key.type.words[0], key.type.words[1]
    return TWO.get(name, ("one", "two"))


def _valued_options() -> Iterator[tuple[str, str, Action]]:
    for command, parser in PARSERS.items():
        for action in parser._actions:
            if action.nargs != 0:
                yield from ((command, option, action) for option in action.option_strings)


def _needed_words(command: str) -> list[str]:
    needed = [one for one in PARSERS[command]._actions if one.required and one.nargs != "?"]
    return [
        word
        for one in needed
        for word in (*one.option_strings[:1], str(next(iter(one.choices or ("needed",)))))
    ]


@pytest.mark.parametrize(("command", "option", "action"), list(_valued_options()))
def test_no_value_of_an_option_is_lost(
    command: str, option: str, action: Action, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = _two_values(action.dest.replace("_", "-"))
    needed = [] if action.required else _needed_words(command)
    words = [command, *needed, option, first]
    assert parse_command([*words, option, first])
    try:
        parsed = parse_command([*words, option, second])
    except SystemExit as end:
        assert end.code == 2
        (message,) = (line for line in capsys.readouterr().err.splitlines() if "error: " in line)
        assert all(word in message for word in (option, first, second))
        return
    assert {first, second} <= set(getattr(parsed, action.dest))


def _read(settings: ConfigSettings) -> dict[str, object]:
    problems: list[Problem] = []
    found, _ = read_config_settings(settings, problems)
    if problems:
        raise TorchwheelError(problems)
    return {one.key: one.value for one in found}


def _spellings() -> Iterator[tuple[str, str, str]]:
    """Each setting, and the two spellings that it is given in."""
    actions = PARSERS["plan"]._actions
    for name, key in keys_for(Where.COMMAND).items():
        entry = f"{name}.{key.example.rpartition('=')[0]}" if key.table else name
        # PyTorch's own backend takes its settings with and without the prefix, and an option of CMake has a setting.
        forms = [f"-C{entry}=", f"-Cskbuild.{entry}=", *(f"-C{also}=" for also in key.also if not key.table)]
        forms += [f"-Cdefine.{option}=" for option in key.cmake]
        forms += [f"{one.option_strings[-1]}=" for one in actions if one.dest == key.attribute]
        yield from ((entry, one, other) for one in forms for other in forms)


@pytest.mark.parametrize(("entry", "one", "other"), list(_spellings()))
def test_the_values_of_a_setting_join_or_contradict_each_other(entry: str, one: str, other: str) -> None:
    name = entry.partition(".")[0]
    first, second = _two_values(name)
    same = request_from(parse_command(["plan", one + first, other + first]))
    alone = _read(request_from(parse_command(["plan", one + first])).config_settings)
    assert _read(same.config_settings) == alone
    both = request_from(parse_command(["plan", one + first, other + second])).config_settings
    if name in ("target", "profile", "skip-check"):
        assert _read(both) == {name: (second, first) if one[1] == "-" < other[1] else (first, second)}
    elif name == "arch":
        assert _read(both) == {name: parse_architectures("8.0;12.0")}
    elif name in ("enable", "disable"):
        assert _read(both) == {f"define.USE_{part}": name == "enable" for part in ("GLOO", "MPI")}
    else:
        (problem,) = error_of(_read, both).problems
        assert problem.id == "contradiction"
        texts = (first, second) if keys_for(Where.COMMAND)[name].type is not FLAG else ()
        assert all(text in problem.what for text in texts)
        typed = {form.removesuffix("=").replace("-C", "-C ") for form in (one, other)}
        assert set(problem.origin.split(" and ")) == typed


def test_several_targets_are_one_wheel_for_all_of_them(torchwheel: Run) -> None:
    """In each spelling, and of ``matrix`` too, whose wheels are named by an option of their own."""
    ways = [
        ("--target", "a100", "--target", "t4"),
        ("-C", "target=a100", "-C", "target=t4"),
        ("--target", "a100,t4"),
    ]
    assert len({torchwheel("plan", MINITORCH, *way, *WINDOWS).out.splitlines()[0] for way in ways}) == 1
    for words, count in (("-w", "a100,t4", "-w", "cpu"), 2), (("--target", "a100", "--target", "t4"), 1):
        matrix = torchwheel("matrix", MINITORCH, *words, "--python", "3.12", "--no-image")
        assert len(matrix.document("matrix")["jobs"]) == count


def test_a_platform_has_the_same_names_in_all_commands(torchwheel: Run) -> None:
    plans = {
        torchwheel("plan", MINITORCH, "--target", "cpu", "--platform", name).out
        for name in ("windows-amd64", "win_amd64", "Windows_AMD64")
    }
    assert len(plans) == 1
    assert "win_amd64.whl" in plans.pop()


@pytest.mark.parametrize("option", ["-C", "--config-setting", "--config-settings"])
def test_settings_as_pip_and_build_and_uv_spell_them(option: str) -> None:
    parser = argparse.ArgumentParser()
    populate_request(parser)
    request = request_from(parser.parse_args([option, "target=cpu", option, "define.X=a=b"]))
    assert request.config_settings == {"target": "cpu", "define.X": "a=b"}


def test_another_machines_python_needs_that_machine() -> None:
    parser = argparse.ArgumentParser()
    plan.populate(parser)
    assert ids_of(request_from, parser.parse_args(["--python", "3.12"])) == ["contradiction"]
