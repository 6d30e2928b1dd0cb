"""Single questions to this machine; each answers None, or nothing, where the machine does not tell."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.host.model import Compiler, CompilerKind
from torchwheel.preflight.facts import NOT_INSTALLED, Installed, VisualStudio
from torchwheel.versions import installed_versions, major_minor

_SECONDS_TO_ANSWER = 10
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_OTHER_COMPILER = re.compile(r"(?P<name>g\+\+|clang\+\+)-(?P<version>\d+)")
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_PUBLIC_HOST = "github.com"


def tool(name: str, environment: Mapping[str, str]) -> Installed:
    """A program on ``PATH`` with the version that ``NAME --version`` prints."""
    path = shutil.which(name, path=environment.get("PATH", ""))
    if path is None:
        return NOT_INSTALLED
    match = _VERSION.search(_output([path, "--version"]))
    return Installed(match[0], path) if match else NOT_INSTALLED


def other_compilers(environment: Mapping[str, str]) -> tuple[Compiler, ...]:
    """Versioned C++ compilers on ``PATH``, such as g++-13, newest first."""
    found: dict[str, Compiler] = {}
    for folder in filter(None, environment.get("PATH", "").split(os.pathsep)):
        for path in _programs(Path(folder)):
            match = _OTHER_COMPILER.fullmatch(path.name)
            if match and path.name not in found:
                kind: CompilerKind = "gcc" if match["name"] == "g++" else "clang"
                found[path.name] = Compiler("cxx", kind, str(path), match["version"], path.name)
    return tuple(sorted(found.values(), key=lambda c: (c.kind, -int(c.version))))


def _programs(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if _OTHER_COMPILER.fullmatch(path.name)]
    except OSError:
        return []


def driver(environment: Mapping[str, str]) -> str:
    """The version of NVIDIA's driver: from the kernel's file on Linux, else from nvidia-smi; empty for none."""
    try:
        match = _VERSION.search(_DRIVER_FILE.read_text(encoding="utf-8").partition("\n")[0])
    except OSError:
        match = None
    if match:
        return match[0]
    program = shutil.which("nvidia-smi", path=environment.get("PATH", ""))
    if program is None:
        return ""
    match = _VERSION.search(_output([program, "--query-gpu=driver_version", "--format=csv,noheader"]))
    return match[0] if match else ""


def online(environment: Mapping[str, str]) -> bool | None:
    """Whether a public host name can be resolved; None behind a proxy, which resolves names itself."""
    if any(environment.get(name) for name in _PROXIES):
        return None

    try:
        return bool(socket.getaddrinfo(_PUBLIC_HOST, 443))
    except OSError:
        return False


def python_headers() -> bool:
    """Whether this interpreter's Python.h is there."""

    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def installed_packages(names: Iterable[str]) -> dict[str, str]:
    """Version of each distribution, empty for those that are not installed."""

    installed = installed_versions()
    return {name: installed.get(canonicalize_name(name), "") for name in names}


def free_disk(folder: Path) -> int | None:
    """Free bytes where a folder is, or will be."""
    existing = next((place for place in (folder, *folder.parents) if place.is_dir()), None)
    try:
        return shutil.disk_usage(existing).free if existing else None
    except OSError:
        return None


def visual_studio(environment: Mapping[str, str]) -> VisualStudio:
    """The newest Visual Studio with C++ tools, from Microsoft's vswhere (https://github.com/microsoft/vswhere)."""
    program_files = environment.get("ProgramFiles(x86)") or environment.get("PROGRAMFILES(X86)") or ""
    vswhere = Path(program_files) / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    question = ["-latest", "-products", "*", "-requires", "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"]
    if not program_files or not vswhere.is_file():
        return VisualStudio("", "")
    path = _output([str(vswhere), *question, "-property", "installationPath"]).strip()
    version = _output([str(vswhere), *question, "-property", "installationVersion"]).strip()
    return VisualStudio(path, major_minor(version))


def long_paths() -> bool | None:
    """Whether Windows lets programs use paths of more than 260 characters; None elsewhere."""
    if sys.platform != "win32":
        return None
    import winreg

    place = r"SYSTEM\CurrentControlSet\Control\FileSystem"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0])
    except OSError:
        return False


def _output(command: list[str]) -> str:
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS_TO_ANSWER,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout
