"""``torchwheel completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import shtab

from torchwheel.cli.explain import known_ids
from torchwheel.cli.main import COMMANDS, make_parsers
from torchwheel.cli.schema import find_schemas
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.this import this_host
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import Where, keys_for
from torchwheel.settings.overlays import Definition, read_overlays, user_overlays_folder
from torchwheel.settings.project import read_project, read_project_settings

_SHELLS = ("bash", "zsh", "fish", "powershell")

_FILES = frozenset({"python", "wheel", "wheels", "log"})
"""Arguments by their names in the parsed arguments, as in ``_list_choices``."""

# After -C target= the value follows without a space.
_BASH_WITHOUT_SPACE = """\
_torchwheel() {
  _shtab_torchwheel "$@"
  if [[ ${COMPREPLY[0]-} == *[=.] ]]; then compopt -o nospace 2>/dev/null || :; fi
}
complete -o bashdefault -F _torchwheel torchwheel
"""

_EPILOG = """\
To have it in every new shell:

  bash        torchwheel completion bash >> ~/.bash_completion
  zsh         torchwheel completion zsh > DIR/_torchwheel, DIR one of $fpath
  fish        torchwheel completion fish > \\
                ~/.config/fish/completions/torchwheel.fish
  powershell  torchwheel completion powershell | Add-Content $PROFILE

It lists today's targets and profiles: run it again when you add overlays.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell that is to complete")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG


def run(parsed: argparse.Namespace) -> int:
    parser, commands = make_parsers(COMMANDS, listed=True)
    choices = _list_choices()
    for command in commands.values():
        for action in command._actions:
            if action.dest in choices:
                action.choices = tuple(dict.fromkeys(choices[action.dest]))
            elif action.dest in {"path", "output", "cuda_path"}:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, parsed.shell))
    if parsed.shell == "bash":
        print(_BASH_WITHOUT_SPACE)
    return 0


def _list_choices() -> dict[str, list[str]]:
    """What to offer for an argument, by its name in the parsed arguments."""
    names = [gpu.name for gpu in read_gpus()]
    host = this_host()
    tables: Mapping[str, Definition] = {}
    with suppress(TorchwheelError):
        # Files that cannot be read are for the commands that need them to report.
        _, tables = read_project_settings(read_project(Path.cwd()), host, [])
    overlays = read_overlays(tables, user_overlays_folder(os.environ), host, [])
    parts = [component.name for component in read_components()]
    return {
        "target": [*overlays.names("target"), "native", *names],
        "profile": list(overlays.names("profile")),
        "gpu": ["native", *names],
        "enable": parts,
        "disable": parts,
        "id": known_ids(),
        "name": list(find_schemas()),
        "config_settings": [
            f"{key.name}{'.' if key.table else '='}" for key in keys_for(Where.COMMAND).values()
        ],
    }
