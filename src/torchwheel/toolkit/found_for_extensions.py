"""Looking for the CUDA toolkit that compiles extensions: on this machine, and among installed packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.hardware.architecture import Architecture
from torchwheel.settings import Settings
from torchwheel.toolkit.discover import discover_toolkits, toolkit_at
from torchwheel.toolkit.for_extensions import ExtensionNeeds, ExtensionToolkit, toolkit_for_extensions
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.packages import packages
from torchwheel.toolkit.pypi import packaged_toolkit
from torchwheel.toolkit.sources import PYPI, SYSTEM


def find_toolkit_for_extensions(
    settings: Settings,
    torch_cuda: str,
    architectures: Sequence[Architecture],
    platform_tag: str,
    environment: Mapping[str, str],
    site_packages: Iterable[Path],
    cache: Path,
) -> ExtensionToolkit:
    """Choose the toolkit for extensions of an installed PyTorch. Nothing is installed or assembled.

    Where the choice has ``site_packages``, :func:`~torchwheel.toolkit.pypi.assemble_toolkit` makes the toolkit;
    where it has ``requirements``, the frontend must install these before.

    Args:
        settings: ``cuda``, ``cuda-path``, ``cuda-from`` and ``cuda-mismatch`` count.
        torch_cuda: the CUDA release that PyTorch was built with, ``"13.0"``.
        architectures: what must be compiled for.
        platform_tag: this machine's platform tag.
        environment: the environment variables.
        site_packages: the folders of Python packages of the environment that builds.
        cache: torchwheel's cache folder.

    Raises:
        TorchwheelError: ``cuda-path`` names no toolkit.
    """
    asked = settings.get("cuda")
    named_path, cuda_from = settings.cuda_path, settings.cuda_from
    found = () if named_path is not None or cuda_from == PYPI else discover_toolkits(environment)
    needs = ExtensionNeeds(
        torch_cuda=torch_cuda,
        architectures=architectures,
        platform_tag=platform_tag,
        cuda_from=cuda_from,
        cuda_mismatch=settings.cuda_mismatch,
        allowed=settings.cuda_range,
        allowed_origin=asked.origin if asked else "",
        missing_headers={toolkit.root: _missing_headers(toolkit) for toolkit in found},
    )
    if named_path is not None:
        others = () if Path(named_path).is_dir() else discover_toolkits(environment)
        named = toolkit_at(named_path, settings.entries["cuda-path"].origin, others)
        return toolkit_for_extensions(needs, named, ())
    needed = packages().needed_to_compile()
    made = (packaged_toolkit(folder, cache, needed) for folder in dict.fromkeys(site_packages))
    return toolkit_for_extensions(
        needs,
        None,
        found,
        [] if needs.cuda_from == SYSTEM else [one for one in made if one is not None],
    )


@cache
def _torch_headers() -> tuple[str, ...]:
    return tuple(read_toml(Path(__file__).with_name("torch_headers.toml"))["headers"])


def _missing_headers(toolkit: Toolkit) -> tuple[str, ...]:
    folders = [Path(folder) for folder in toolkit.include_dirs]
    return tuple(
        name for name in _torch_headers() if not any((folder / name).is_file() for folder in folders)
    )
