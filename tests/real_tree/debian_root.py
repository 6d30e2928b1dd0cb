"""A Debian trixie system below one folder, with the real PyTorch 2.6.0 source and its build dependencies.

Debian's source package is upstream's v2.6.0 with the vendored libraries replaced by Debian's own, so it
compiles offline with ``USE_SYSTEM_LIBS=ON``. There is no ``.git``, and version.txt says 2.6.0a0. Needs root,
debootstrap and about 4 GB; made once (two minutes) and used again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path.home() / ".cache" / "torchwheel-real-tree"
TREE = Path("/src/pytorch")
"""The tree's place as seen from inside."""

_SUITE = "trixie"
_SOURCE_PACKAGE = "pytorch=2.6.0+dfsg-7"
_TOOLS = ("ccache", "mold", "python3-venv", "python3-pip", "git", "ca-certificates")
_FIXED_VERSION_PATCH = "debian/patches/2000-version.patch"


def reason_to_skip() -> str:
    """Why the system cannot be made here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, for debootstrap and chroot"
    if not Path("/etc/debian_version").is_file() or shutil.which("apt-get") is None:
        return "needs Debian or Ubuntu, for debootstrap"
    return ""


def prepare() -> None:
    """Make the system unless it is there."""
    ready = ROOT / "src" / ".ready"
    if ready.exists():
        return
    if shutil.which("debootstrap") is None:
        _run(["apt-get", "update", "-q"])
        _run(["apt-get", "install", "-y", "-q", "debootstrap"])
    mirror = _mirror()
    ROOT.mkdir(parents=True, exist_ok=True)
    if not (ROOT / "etc" / "debian_version").exists():
        _run(["debootstrap", "--variant=buildd", _SUITE, str(ROOT), mirror])
    _give_network(mirror)
    enter(["apt-get", "update", "-q"])
    quiet = ["-y", "-q", "--no-install-recommends"]
    enter(["apt-get", "build-dep", *quiet, "pytorch"])
    enter(["apt-get", "install", *quiet, *_TOOLS])
    _unpack_source()
    ready.touch()


def prepare_cuda() -> None:
    """Install Debian's CUDA 12.4 in the system, unless it is there: 1.9 GB to fetch, 5 GB on disk.

    It takes host compilers up to GCC 13, and the system's is 14. There is no cuDNN and no NCCL.
    """
    prepare()
    if (ROOT / "usr/bin/nvcc").exists():
        return
    mirror = (ROOT / "etc/apt/sources.list").read_text(encoding="utf-8").split()[1]
    components = ROOT / "etc/apt/sources.list.d/non-free.list"
    components.write_text(f"deb {mirror} {_SUITE} contrib non-free\n", encoding="utf-8")
    enter(["apt-get", "update", "-q"])
    enter(["apt-get", "install", "-y", "-q", "--no-install-recommends", "nvidia-cuda-toolkit"])


def enter(
    command: Sequence[str],
    *,
    folder: str = "/",
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> str:
    """Run a command inside the system and return what it printed.

    Args:
        command: its argument list.
        folder: its working folder, as seen from inside.
        environment: variables beyond the few that every command gets.
        log: also keeps the output here.

    Raises:
        AssertionError: it failed; the message ends with its last lines.
    """
    return _run(_inside_command(command, folder, environment), log)


def attempt(
    command: Sequence[str], *, folder: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Like :func:`enter`, for a command that may fail; its errors go into ``stderr``."""
    return subprocess.run(
        _inside_command(command, folder, environment), capture_output=True, text=True, check=False
    )


def _inside_command(command: Sequence[str], folder: str, environment: Mapping[str, str] | None) -> list[str]:
    _mount()
    base = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    variables = [f"{name}={value}" for name, value in {**base, **(environment or {})}.items()]
    return ["chroot", str(ROOT), "env", "-i", "-C", folder, *variables, *command]


def inside(path: Path) -> str:
    """A path below the system's root, as seen from inside."""
    return "/" + path.relative_to(ROOT).as_posix()


def _run(command: Sequence[str], log: Path | None = None) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace")
    if log is not None:
        log.write_text(text, encoding="utf-8")
    tail = "\n".join(text.splitlines()[-40:])
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{tail}"
    return text


def _mirror() -> str:
    """The mirror that this machine itself installs from."""
    chosen = os.environ.get("DEBIAN_MIRROR")
    if chosen:
        return chosen
    listing = _run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    )
    rows = [line.split() for line in listing.splitlines()]
    return next(row[0] for row in rows if row[1:] == ["main"] and "security" not in row[0])


def _give_network(mirror: str) -> None:
    sources = f"deb {mirror} {_SUITE} main\ndeb-src {mirror} {_SUITE} main\n"
    (ROOT / "etc/apt/sources.list").write_text(sources, encoding="utf-8")
    if Path("/etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", ROOT / "etc/resolv.conf")
    certificates = Path("/etc/ssl/certs")
    if certificates.is_dir():
        shutil.copytree(certificates, ROOT / "etc/ssl/certs", symlinks=True, dirs_exist_ok=True)


def _mount() -> None:
    for name, arguments in (("proc", ["-t", "proc", "proc"]), ("dev", ["--bind", "/dev"])):
        point = ROOT / name
        if not os.path.ismount(point):
            _run(["mount", *arguments, str(point)])


def _unpack_source() -> None:
    outside = ROOT / "src"
    outside.mkdir(exist_ok=True)
    for leftover in outside.glob("pytorch*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    enter(["apt-get", "source", "-q", _SOURCE_PACKAGE], folder="/src")
    unpacked = next(path for path in outside.glob("pytorch-2.6.0*") if path.is_dir())
    tree = unpacked.rename(outside / "pytorch")
    shutil.copytree(ROOT / "usr/src/googletest", tree / "third_party/googletest", dirs_exist_ok=True)
    enter(
        ["flatc", "--cpp", "--gen-mutable", "--scoped-enums", "mobile_bytecode.fbs"],
        folder=f"{TREE}/torch/csrc/jit/serialization",
    )
    _undo_what_only_debian_packages_need(tree)


_EDITS = (
    ("CMakeLists.txt", r"(option\(HAVE_SOVERSION .*) ON\)", r"\1 OFF)"),
    (
        "cmake/Dependencies.cmake",
        r'set\(CMAKE_INSTALL_RPATH ""\)',
        r'set(CMAKE_INSTALL_RPATH "${_rpath_portable_origin}")',
    ),
    (
        "cmake/Dependencies.cmake",
        r"set\(CMAKE_INSTALL_RPATH_USE_LINK_PATH FALSE\)",
        r"set(CMAKE_INSTALL_RPATH_USE_LINK_PATH TRUE)",
    ),
)
"""File, pattern, replacement: sonames and missing run paths suit Debian's packages, not wheels."""


def _undo_what_only_debian_packages_need(tree: Path) -> None:
    _run(["patch", "-R", "-s", "-p1", "-d", str(tree), "-i", str(tree / _FIXED_VERSION_PATCH)])
    for file, pattern, replacement in _EDITS:
        path = tree / file
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
        assert count == 1, f"{file}: {pattern} matched {count} times"
        path.write_text(text, encoding="utf-8")
    shutil.rmtree(tree / ".pc", ignore_errors=True)
