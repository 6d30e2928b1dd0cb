"""``torchwheel completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from torchwheel.cli.explain import known_ids
from torchwheel.cli.main import COMMANDS
from torchwheel.cli.parsers import make_parsers
from torchwheel.cli.targets import described
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.catalogue import gpus
from torchwheel.settings.components import components

_SHELLS = ("bash", "zsh", "fish", "powershell")

_FOLDERS = frozenset({"path", "output", "cuda_path", "build_folder"})
_FILES = frozenset({"python", "wheels", "log"})
"""Arguments by their names in the parsed arguments, as in ``_values``."""

_EPILOG = """\
To have it in every new shell:

  bash        torchwheel completion bash >> ~/.bash_completion
  zsh         torchwheel completion zsh > DIR/_torchwheel, DIR one of $fpath
  fish        torchwheel completion fish > \\
                ~/.config/fish/completions/torchwheel.fish
  powershell  torchwheel completion powershell >> $PROFILE

Targets and profiles are those of now: run it again when you add overlays.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that is to complete")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG


def run(parsed: argparse.Namespace) -> int:
    """Print the script.

    Raises:
        TorchwheelError: shtab, which makes it, is not installed.
    """

    try:
        import shtab
    except ImportError:
        raise TorchwheelError(_no_shtab()) from None
    parser, commands = make_parsers(COMMANDS, COMMANDS)
    values = _values()
    for command in commands.values():
        for action in command._actions:
            _describe(action, values)
    print(shtab.complete(parser, parsed.shell))
    return 0


def _describe(action: argparse.Action, values: dict[str, Callable[[], Iterable[str]]]) -> None:
    """Tell shtab what an argument takes."""
    import shtab

    if action.dest in values:
        action.choices = tuple(dict.fromkeys(values[action.dest]()))
    elif action.dest in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif action.dest in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]


def _values() -> dict[str, Callable[[], Iterable[str]]]:
    """What to offer for an argument, by its name in the parsed arguments."""
    return {
        "target": lambda: [*_described("target"), "native", *_gpu_names()],
        "profile": lambda: _described("profile"),
        "gpu": lambda: ["native", *_gpu_names()],
        "enable": _component_names,
        "disable": _component_names,
        "id": _ids,
    }


def _described(kind: str) -> Iterable[str]:
    return [one.name for one in described(Path.cwd(), os.environ, []) if one.kind == kind]


def _gpu_names() -> Iterable[str]:
    return [gpu.name for gpu in gpus()]


def _component_names() -> Iterable[str]:
    return [component.name for component in components()]


def _ids() -> Iterable[str]:
    return known_ids()


def _no_shtab() -> Problem:
    return Problem(
        id="shtab-missing",
        what="the package shtab, which makes completion scripts, is not installed",
        remedy="pip install 'torchwheel[completion]'",
        why="nothing else needs it",
    )
