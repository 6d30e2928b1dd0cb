"""``torchwheel completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchwheel.cli.explain import known_ids
from torchwheel.cli.main import COMMANDS, make_parsers
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.catalogue import gpus
from torchwheel.host.this import this_host
from torchwheel.settings.components import components
from torchwheel.settings.targets import described_targets

_SHELLS = ("bash", "zsh", "fish", "powershell")

_FOLDERS = frozenset({"path", "output", "cuda_path", "build_folder"})
_FILES = frozenset({"python", "wheels", "log"})
"""Arguments by their names in the parsed arguments, as in ``_choices``."""

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
        import shtab  # optional: torchwheel[completion]
    except ImportError:
        raise TorchwheelError(_no_shtab()) from None
    parser, commands = make_parsers(COMMANDS)
    choices = _choices()
    for command in commands.values():
        for action in command._actions:
            if action.dest in choices:
                action.choices = tuple(dict.fromkeys(choices[action.dest]))
            elif action.dest in _FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, parsed.shell))
    return 0


def _choices() -> dict[str, list[str]]:
    """What to offer for an argument, by its name in the parsed arguments."""
    names = [gpu.name for gpu in gpus()]
    overlays = described_targets(Path.cwd(), os.environ, this_host(os.environ), [])
    parts = [component.name for component in components()]
    return {
        "target": [*(one.name for one in overlays if one.kind == "target"), "native", *names],
        "profile": [one.name for one in overlays if one.kind == "profile"],
        "gpu": ["native", *names],
        "enable": parts,
        "disable": parts,
        "id": known_ids(),
    }


def _no_shtab() -> Problem:
    return Problem(
        id="shtab-missing",
        what="the package shtab, which makes completion scripts, is not installed",
        remedy="pip install 'torchwheel[completion]'",
        why="nothing else needs it",
    )
