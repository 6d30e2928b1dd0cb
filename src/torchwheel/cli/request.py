"""The arguments that several commands share, and the request they make."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchwheel.host.machine import described_python
from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import QUIET
from torchwheel.settings.config_settings import OptionValue
from torchwheel.settings.known_keys import all_keys
from torchwheel.survey import BuildRequest

_SETTINGS = ["target", "profile", "arch", "cuda", "cuda-path", "jobs", "package-version", "enable", "disable"]
_SHORT = {"jobs": ("-j",)}


def add_path_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="a PyTorch source tree, a project around one, or one with extensions (default: here)",
    )


def populate_request(parser: argparse.ArgumentParser) -> None:
    add_path_argument(parser)
    for name in _SETTINGS:
        add_setting_option(parser, name)
    add_config_setting_option(parser)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="say why: which layer, toolkit and stored wheel; -vv: every compiler command, too",
    )


def add_setting_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare the option of a setting; what becomes of several values is decided where settings are read."""
    key = all_keys()[name]
    words = [*_SHORT.get(name, ()), f"--{name}"]
    parser.add_argument(*words, metavar=key.type.metavar, action="append", default=[], help=key.help)
    parser.set_defaults(setting_options=(*(parser.get_default("setting_options") or ()), name))


def add_config_setting_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-C",
        "--config-setting",
        "--config-settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="config_settings",
        help="any other setting, as with pip; may be repeated",
    )


def add_wheel_folder_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="dist", help="where the wheel goes (default: dist)"
    )


def request_from(parsed: argparse.Namespace) -> BuildRequest:
    settings: dict[str, str | list[str]] = {}
    QUIET.set(getattr(parsed, "quiet", False))
    # https://cmake.org/cmake/help/latest/envvar/VERBOSE.html
    verbose = {"VERBOSE": "1"} if getattr(parsed, "verbose", 0) > 1 else {}
    for item in parsed.config_settings:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise refusal("malformed-config-setting", origin="-C", item=item)
        _add(settings, key, value)
    for name in getattr(parsed, "setting_options", ()):
        for text in getattr(parsed, name.replace("-", "_")):
            _add(settings, name, OptionValue(text, f"--{name}"))
    if python := getattr(parsed, "python", None):
        if parsed.platform is None:
            raise refusal("contradiction/python", origin="--python")
        described_python(python, origin="--python")
    return BuildRequest(
        project=Path(parsed.path).absolute(),
        config_settings=settings,
        environment=with_home_and_path({**os.environ, **verbose}),
        platform=getattr(parsed, "platform", None),
        python=python,
    )


def _add(settings: dict[str, str | list[str]], key: str, value: str) -> None:
    """Repeated keys become a list, as pip makes it."""
    before = settings.get(key)
    if before is None:
        settings[key] = value
    else:
        settings[key] = [*([before] if isinstance(before, str) else before), value]
