"""The build backend of a PyTorch tree that torchwheel was adopted in (``torchwheel adopt``).

Where torchwheel is installed and a target is asked for, every hook goes to ``torchwheel.backend``. Otherwise
every hook goes to the tree's own build backend, so the tree builds without torchwheel as it always did.

A target is asked for by ``-C target=...`` (or ``profile``, ``arch``), by the variable ``TORCHWHEEL_TARGET``
(or ``_PROFILE``, ``_ARCH``), by an sdist that was made for one, or by the same keys or ``default-target`` under
``[tool.torchwheel]`` in pyproject.toml.

This file stands alone: standard library only. ``torchwheel adopt --undo`` takes it away again.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_PYPROJECT = _HERE.parent / "pyproject.toml"
_SDIST = _HERE.parent / ".torchwheel-sdist.json"
_KEYS = ("target", "profile", "arch")

_Settings = dict[str, Any] | None


class TorchwheelMissing(RuntimeError):
    """A target was asked for, and torchwheel, which knows targets, is not installed."""


class OwnBackendMissing(RuntimeError):
    """The tree's own build backend cannot be imported."""


def build_wheel(
    wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None
) -> str:
    """PEP 517."""
    backend = _backend(config_settings)
    return str(backend.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: _Settings = None) -> str:
    """PEP 517. The archive holds this shim too, whatever the backend collects: it is built with it."""
    name = str(_backend(config_settings).build_sdist(sdist_directory, config_settings))
    _carry_shim(Path(sdist_directory, name))
    return name


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """PEP 517."""
    return _requirements("get_requires_for_build_wheel", config_settings)


def get_requires_for_build_sdist(config_settings: _Settings = None) -> list[str]:
    """PEP 517."""
    return _requirements("get_requires_for_build_sdist", config_settings)


def _get_requires_for_build_editable(config_settings: _Settings = None) -> list[str]:
    return _requirements("get_requires_for_build_editable", config_settings)


def _build_editable(
    wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None
) -> str:
    backend = _backend(config_settings)
    return str(backend.build_editable(wheel_directory, config_settings, metadata_directory))


def _prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: _Settings = None) -> str:
    backend = _backend(config_settings)
    return str(backend.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def _prepare_metadata_for_build_editable(metadata_directory: str, config_settings: _Settings = None) -> str:
    backend = _backend(config_settings)
    return str(backend.prepare_metadata_for_build_editable(metadata_directory, config_settings))


_OPTIONAL: dict[str, Callable[..., Any]] = {
    "build_editable": _build_editable,
    "get_requires_for_build_editable": _get_requires_for_build_editable,
    "prepare_metadata_for_build_wheel": _prepare_metadata_for_build_wheel,
    "prepare_metadata_for_build_editable": _prepare_metadata_for_build_editable,
}


def __getattr__(name: str) -> Callable[..., Any]:
    """The optional hooks: to a frontend, one that exists is a promise that it can be honoured."""
    if name in _OPTIONAL and _is_offered(name):
        return _OPTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_offered(name: str) -> bool:
    """Whether the backend that will serve has a hook.

    A frontend asks before it passes its settings, so where torchwheel is installed and nothing else asks for
    a target, ``-C`` may still do so: then only what both backends have can be promised.
    """
    if name == "get_requires_for_build_editable":
        name = "build_editable"
    if not _torchwheel_is_installed():
        return _own_backend_offers(name)
    # setup.py has no metadata without a whole build when torchwheel sets its version.
    if name.startswith("prepare_metadata") and _own_backend_name().startswith("setuptools"):
        return False
    if not hasattr(_torchwheel(), name):
        return False
    return _is_asked(None) or _pyproject_asks() or _own_backend_offers(name)


def _own_backend_offers(name: str) -> bool:
    try:
        return hasattr(_own_backend(), name)
    except OwnBackendMissing:
        # The hook itself says so: torchwheel's, where -C asks for a target, among all else that is in the way.
        return True


def _backend(config_settings: _Settings) -> Any:
    """The backend that serves this call."""
    explicit = _is_asked(config_settings)
    installed = _torchwheel_is_installed()
    if explicit and not installed:
        raise TorchwheelMissing(
            "this build asks for a target, and torchwheel, which knows targets, is not installed.\n"
            "Either install it (pip install torchwheel), or build without a target: drop "
            + ", ".join([*(f"-C {key}" for key in _KEYS), *map(_variable, _KEYS), *_record_of_sdist()])
            + f".\nThe tree's own build backend, {_own_backend_name()}, then builds it as usual."
        )
    return _torchwheel() if explicit or (installed and _pyproject_asks()) else _own_backend()


def _requirements(hook: str, config_settings: _Settings) -> list[str]:
    if _is_asked(config_settings) and not _torchwheel_is_installed():
        # An isolated frontend asks here first and then installs what it is told. The settings are meant for
        # torchwheel: scikit-build-core would reject them.
        return [*_ask(_own_backend(), hook, None), "torchwheel"]
    return _ask(_backend(config_settings), hook, config_settings)


def _ask(backend: Any, hook: str, config_settings: _Settings) -> list[str]:
    function = getattr(backend, hook, None)
    return list(function(config_settings)) if function else []


def _is_asked(config_settings: _Settings) -> bool:
    """Whether a target is asked for otherwise than in pyproject.toml."""
    if any(key in _KEYS or key.startswith("torchwheel.") for key in config_settings or {}):
        return True
    return any(os.environ.get(_variable(key)) for key in _KEYS) or bool(_record_of_sdist())


def _record_of_sdist() -> list[str]:
    """The name of the file by which an sdist says what it was made for, as its version does, if it is for a target.

    The tree's own backend would build for whatever it finds here, under that version.
    """
    try:
        record = json.loads(_SDIST.read_bytes())
        labelled = "+" in record["version"] or any(key in record["settings"] for key in _KEYS)
        return [_SDIST.name] if labelled else []
    except OSError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError):
        # torchwheel says what is wrong with it.
        return [_SDIST.name]


def _variable(key: str) -> str:
    return f"TORCHWHEEL_{key.upper()}"


def _pyproject_asks() -> bool:
    """Whether ``[tool.torchwheel]`` names a target."""
    settings = _tool_settings()
    # ``[tool.torchwheel.target.NAME]`` describes a target and asks for none.
    return any(isinstance(settings.get(key), (str, list)) for key in ("default-target", *_KEYS))


def _tool_settings() -> dict[str, Any]:
    """``[tool.torchwheel]`` of pyproject.toml. Before Python 3.11, setuptools and pip bring a parser along."""
    for name in ("tomllib", "tomli", "setuptools._vendor.tomli", "pip._vendor.tomli"):
        try:
            toml = importlib.import_module(name)
        except ImportError:
            continue
        pyproject = toml.loads(_PYPROJECT.read_text(encoding="utf-8"))
        return dict(pyproject.get("tool", {}).get("torchwheel", {}))
    raise RuntimeError(f"{sys.executable} has no parser for pyproject.toml: install tomli there.")


def _torchwheel_is_installed() -> bool:
    # A folder that happens to have the name is a namespace package, which has no origin.
    spec = importlib.util.find_spec("torchwheel")
    return spec is not None and spec.origin is not None


def _torchwheel() -> Any:
    return importlib.import_module("torchwheel.backend")


def _own_backend_name() -> str:
    return str(_record()["build-backend"])


def _own_backend() -> Any:
    """The tree's own backend object, found as a frontend would find it (PEP 517)."""
    folders = [str(_HERE.parent / folder) for folder in _record()["backend-path"]]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    module, _, attributes = _own_backend_name().partition(":")
    try:
        backend: Any = importlib.import_module(module)
    except Exception as error:
        # A setuptools that is too old for this Python fails with an AttributeError.
        raise OwnBackendMissing(
            f"the tree's own build backend, {module}, cannot be imported by {sys.executable}: {error}.\n"
            "Install the build requirements that pyproject.toml names there, or leave out --no-build-isolation."
        ) from None
    for attribute in filter(None, attributes.split(".")):
        backend = getattr(backend, attribute)
    return backend


def _record() -> dict[str, Any]:
    """What the tree's own build system is, as ``torchwheel adopt`` wrote it down."""
    try:
        # PEP 517's default is setuptools.
        default = {"build-backend": "setuptools.build_meta:__legacy__", "backend-path": []}
        return {**default, **_tool_settings()["adopted"]}
    except KeyError:
        raise RuntimeError(
            f"{_PYPROJECT} has no [tool.torchwheel.adopted], which names the tree's own build backend. "
            "Take it from version control."
        ) from None


def _carry_shim(archive: Path) -> None:
    """Add this shim to an sdist that lacks it: setuptools packs what MANIFEST.in names, not backend-path."""
    partial = archive.with_name(archive.name + ".partial")
    with tarfile.open(archive) as source:
        members = source.getmembers()
        shim = f"{members[0].name.partition('/')[0]}/{_HERE.name}/{Path(__file__).name}"
        if shim in {member.name for member in members}:
            return
        with tarfile.open(partial, "w:gz", format=tarfile.PAX_FORMAT) as target:
            for member in members:
                target.addfile(member, source.extractfile(member) if member.isfile() else None)
            target.add(__file__, shim, filter=_anonymous)
    partial.replace(archive)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
