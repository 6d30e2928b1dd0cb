"""The arguments that several commands share, and the request they make."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import QUIET
from torchwheel.survey import BuildRequest
from torchwheel.system.paths import is_dir

_SHORTHANDS = ("cuda-path", "target", "profile", "arch", "cuda", "jobs", "version")


def add_path_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="a PyTorch source tree or a wrapper project (default: here)",
    )


def populate_request(parser: argparse.ArgumentParser) -> None:
    """Declare the source tree and the settings."""
    add_path_argument(parser)
    parser.add_argument("--target", metavar="NAME", help="a GPU (rtx5070, gb10, a100,t4), native, or cpu")
    parser.add_argument("--profile", metavar="NAME", help="a profile such as minimal or debug")
    parser.add_argument(
        "--arch", metavar="LIST", help="architectures instead of the target's, e.g. '8.0;9.0+PTX'"
    )
    parser.add_argument("--cuda", metavar="RANGE", help="CUDA versions that may be used, e.g. '>=12.8,<13'")
    parser.add_argument("--cuda-path", metavar="FOLDER", dest="cuda_path", help="the CUDA toolkit")
    parser.add_argument("-j", "--jobs", metavar="N", help="how many compilers may run at once")
    add_version_option(parser)
    parser.add_argument(
        "--enable", metavar="LIST", action="append", help="components to build, e.g. distributed,nccl"
    )
    parser.add_argument("--disable", metavar="LIST", action="append", help="components to leave out")
    add_config_setting_option(parser)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="say why: which layer, toolkit and stored wheel; -vv: every compiler command, too",
    )


def add_version_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--package-version", metavar="V", dest="version", help="the wheel's base version")


def add_config_setting_option(parser: argparse.ArgumentParser) -> None:
    """Add ``-C``, as pip has it."""
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


def add_wheel_folder_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="dist", help="where the wheel goes (default: dist)"
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="show nothing of the tree's own build, which is all in the log",
    )


def existing_folder(path: Path) -> Path:
    """A project's folder, as an absolute path.

    Raises:
        TorchwheelError: there is none.
    """
    if not is_dir(path):
        raise refusal("source-missing/project", path=path)
    return path.absolute()


def request_from(parsed: argparse.Namespace) -> BuildRequest:
    """The request that parsed arguments make.

    Raises:
        TorchwheelError: a ``-C`` value is not of the form KEY=VALUE, or options contradict each other.
    """
    settings: dict[str, str | list[str] | bool] = {}
    QUIET.set(getattr(parsed, "quiet", False))
    # https://cmake.org/cmake/help/latest/envvar/VERBOSE.html
    verbose = {"VERBOSE": "1"} if getattr(parsed, "verbose", 0) > 1 else {}
    for item in parsed.config_settings:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise refusal("malformed-config-setting", origin="-C", item=item)
        _add(settings, key, value)
    for name in _SHORTHANDS:
        if (value := getattr(parsed, name.replace("-", "_"), None)) is None:
            continue
        if settings.get(name, value) != value:
            shown = "package-version" if name == "version" else name
            raise refusal(
                "contradiction",
                origin=f"--{shown} and -C {name}",
                one=f"--{shown} is {value}",
                other=f"-C {name} is {settings[name]}",
            )
        settings[name] = value
    for name in ("enable", "disable"):
        for value in getattr(parsed, name, None) or ():
            _add(settings, name, value)
    if getattr(parsed, "python", "") and parsed.platform is None:
        raise refusal("contradiction/python", origin="--python")
    return BuildRequest(
        project=Path(parsed.path).absolute(),
        config_settings=settings,
        environment=with_home_and_path({**os.environ, **verbose}),
        platform=getattr(parsed, "platform", None),
        python=getattr(parsed, "python", ""),
    )


def _add(settings: dict[str, str | list[str] | bool], key: str, value: str) -> None:
    """Repeated keys become a list, as pip makes it."""
    before = settings.get(key)
    if before is None:
        settings[key] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        settings[key] = [str(before), value]
