"""A Debian system below one folder, made with debootstrap and entered with chroot; a foreign one is emulated.

Needs root. It is made once and used again; what lies in it is Debian's and PyPI's, and none of it is kept in git.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from places import REPOSITORY

_SUITE = "trixie"
_QUIETLY = ("-y", "-q", "--no-install-recommends")
_DISTRIBUTIONS = (
    "abi3info", "filelock", "markdown-it-py", "mdurl", "packaging", "pathspec", "platformdirs", "pyelftools",
    "pygments", "pyproject-hooks", "rich", "scikit-build-core", "shtab", "tomlkit",
)  # fmt: skip
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
_PYTHON, _GLIBC_MINOR = "3.13", 41
"""Of Debian trixie, whose glibc is 2.41."""

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Not their usual place: there Debian's own package writes them anew, without what this machine added to them.
_CERTIFICATES_INSIDE = "/etc/this-machine.crt"
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_EMULATORS = {
    # ELF, 64 bits, little-endian, System V or GNU, executable or shared, machine 183:
    # https://www.kernel.org/doc/html/latest/admin-guide/binfmt-misc.html and qemu's scripts/qemu-binfmt-conf.sh
    "arm64": (
        "qemu-aarch64",
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
        r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
    )
}
"""By Debian's architecture: qemu's program, and what the head of its executables and a mask of it are."""


def reason_to_skip() -> str:
    """Why no system can be made here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, for debootstrap and chroot"
    if not Path("/etc/debian_version").is_file() or shutil.which("apt-get") is None:
        return "needs Debian or Ubuntu, for debootstrap"
    return ""


@dataclass(frozen=True)
class DebianSystem:
    """A Debian trixie system.

    Attributes:
        root: the folder that is its root.
        foreign: Debian's name of its architecture where that is not this machine's, such as ``arm64``.
    """

    root: Path
    foreign: str = ""

    def make(self, *packages: str) -> None:
        """Make the system with these packages, unless it is there."""
        ready = self.root / "var" / ".made"
        if self.foreign:
            _register_emulator(self.foreign)
        if ready.exists():
            return
        _need_program("debootstrap", "debootstrap")
        mirror = _mirror()
        self.root.mkdir(parents=True, exist_ok=True)
        # debootstrap keeps its own folder there until it is done.
        if (self.root / "debootstrap").exists() or not (self.root / "etc/debian_version").exists():
            arguments = [f"--arch={self.foreign}", "--foreign"] if self.foreign else []
            run(["debootstrap", "--variant=minbase", *arguments, _SUITE, str(self.root), mirror])
            if self.foreign:
                run(["chroot", str(self.root), "/debootstrap/debootstrap", "--second-stage"])
        self._give_network(mirror)
        self.install("git", "python3-pip", "python3-venv")
        if self.foreign:
            # Writing bytecode is half of what installing costs in emulation, and Python does without.
            compiler = self.root / "usr/bin/py3compile"
            compiler.unlink()
            compiler.symlink_to("true")
        self.install(*packages)
        ready.touch()

    def install(self, *packages: str) -> None:
        """Install packages of Debian."""
        self.enter(["apt-get", "update", "-q"])
        self.enter(["apt-get", "install", *_QUIETLY, *packages])

    def add_components(self, *components: str) -> None:
        """Let packages be installed from further components of the archive, such as ``non-free``."""
        folder = self.root / "etc/apt/sources.list.d"
        mirror = (self.root / "etc/apt/sources.list").read_text(encoding="utf-8").split()[1]
        line = f"deb {mirror} {_SUITE} {' '.join(components)}\n"
        (folder / f"{'-'.join(components)}.list").write_text(line, encoding="utf-8")

    def unpack_packages(self, *packages: str) -> None:
        """Unpack packages of Debian in the system, without what they depend on and without setting them up."""
        folder = self.root / "root/packages"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.enter(["apt-get", "update", "-q"])
        self.enter(["apt-get", "download", "-q", *packages], folder=self.inside(folder))
        for package in folder.glob("*.deb"):
            run(["dpkg-deb", "--extract", str(package), str(self.root)])

    def install_build_dependencies(self, package: str) -> None:
        """Install what a source package of Debian needs to be built, without its documentation and tests."""
        self.enter(["apt-get", "build-dep", *_QUIETLY, "--arch-only", "-P", "nodoc,nocheck", package])

    def install_torchwheel(self, environment: str, *options: str) -> str:
        """Install this repository's wheel in a new virtual environment.

        Args:
            environment: its folder, as seen from inside.
            options: further ones for ``python -m venv``.

        Returns:
            The environment's ``torchwheel`` command, as seen from inside.
        """
        self.enter(["python3", "-m", "venv", "--clear", *options, environment])
        pip = [f"{environment}/bin/python", "-m", "pip", "install", "-q", "--no-compile", "--no-index"]
        names = [self.inside(path) for path in self._own_wheels()]
        self.enter([*pip, "--no-deps", "--ignore-installed", *names])
        return f"{environment}/bin/torchwheel"

    def make_environment(self, environment: str, *requirements: str) -> str:
        """Make a virtual environment with torchwheel, pip and further distributions, without what these ask for.

        Args:
            environment: its folder, as seen from inside.
            requirements: as for pip.

        Returns:
            The environment's interpreter, as seen from inside.
        """
        self.enter(["python3", "-m", "venv", "--clear", "--without-pip", environment])
        (packages,) = self.outside(environment).glob("lib/python3.*/site-packages")
        self.unpack(packages, "--no-deps", "pip", *map(str, self._own_wheels()), *requirements)
        return f"{environment}/bin/python"

    def unpack(self, folder: Path, *arguments: str) -> None:
        """Unpack distributions for the system's Python into a folder, by this machine's pip.

        It knows the registry, and an emulated pip takes longer over a connection than a registry waits.

        Args:
            folder: it need not be there.
            arguments: requirements and options for ``pip install``.
        """
        machine = "aarch64" if self.foreign else platform.machine()
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, _GLIBC_MINOR + 1)]
        # Older wheels are named so; pip does not take it for manylinux_2_17.
        platforms += [f"--platform=manylinux2014_{machine}", f"--platform=linux_{machine}"]
        options = ["--no-compile", "--only-binary=:all:", f"--python-version={_PYTHON}", f"--target={folder}"]
        run([*_PIP, "install", "--upgrade", *options, *platforms, *arguments])

    def _own_wheels(self) -> list[Path]:
        """torchwheel's own wheel and what it needs, all pure Python, so that they fit the Python inside."""
        folder = self.root / "root" / "wheels"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run([*_PIP, "download", "--no-deps", "-d", str(folder), *_DISTRIBUTIONS])
        run([*_PIP, "wheel", "--no-deps", "-w", str(folder), str(REPOSITORY)])
        return sorted(folder.glob("*.whl"))

    def enter(
        self, command: Sequence[str], *, folder: str = "/", environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a command inside the system and return what it printed.

        Args:
            command: its argument list.
            folder: its working folder, as seen from inside.
            environment: variables beyond the few that every command gets.

        Raises:
            AssertionError: it failed; the message ends with its last lines.
        """
        return run(self._inside_command(command, folder, environment))

    def attempt(
        self, command: Sequence[str], *, folder: str = "/", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Like :meth:`enter`, for a command that may fail; its errors go into ``stderr``."""
        inside = self._inside_command(command, folder, environment)
        return subprocess.run(inside, capture_output=True, encoding="utf-8", errors="replace", check=False)

    def show(self, command: Sequence[str], *, folder: str, environment: Mapping[str, str]) -> int:
        """Like :meth:`attempt`, for a command of hours: the terminal gets what it prints. Returns its exit status."""
        return subprocess.call(self._inside_command(command, folder, environment))

    def inside(self, path: Path) -> str:
        """A path below the system's root, as seen from inside."""
        return "/" + path.relative_to(self.root).as_posix()

    def outside(self, path: str) -> Path:
        """A path as seen from inside, as this machine sees it."""
        return self.root / path.lstrip("/")

    def _inside_command(
        self, command: Sequence[str], folder: str, environment: Mapping[str, str] | None
    ) -> list[str]:
        self._mount()
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "PIP_CERT": _CERTIFICATES_INSIDE,
        }
        variables = [f"{name}={value}" for name, value in {**base, **(environment or {})}.items()]
        return ["chroot", str(self.root), "env", "-i", "-C", folder, *variables, *command]

    def _mount(self) -> None:
        for name, arguments in (("proc", ["-t", "proc", "proc"]), ("dev", ["--bind", "/dev"])):
            point = self.root / name
            if not os.path.ismount(point):
                run(["mount", *arguments, str(point)])

    def _give_network(self, mirror: str) -> None:
        sources = f"deb {mirror} {_SUITE} main\ndeb-src {mirror} {_SUITE} main\n"
        (self.root / "etc/apt/sources.list").write_text(sources, encoding="utf-8")
        if Path("/etc/resolv.conf").exists():
            shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        if _CERTIFICATES.exists():
            shutil.copy(_CERTIFICATES, self.outside(_CERTIFICATES_INSIDE))


def run(command: Sequence[str]) -> str:
    """Run a command of this machine and return what it printed.

    Raises:
        AssertionError: it failed; the message ends with its last lines.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace")
    tail = "\n".join(text.splitlines()[-40:])
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{tail}"
    return text


def _need_program(program: str, package: str) -> str:
    """The path of a program, which is installed if it is not there."""
    if shutil.which(program) is None:
        run(["apt-get", "update", "-q"])
        run(["apt-get", "install", "-y", "-q", package])
    path = shutil.which(program)
    assert path is not None, f"{package} brought no {program}"
    return path


def _mirror() -> str:
    """The mirror that this machine itself installs from."""
    chosen = os.environ.get("DEBIAN_MIRROR")
    if chosen:
        return chosen
    listing = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"])
    rows = [line.split() for line in listing.splitlines()]
    return next(row[0] for row in rows if row[1:] == ["main"] and "security" not in row[0])


def _register_emulator(architecture: str) -> None:
    """Let the kernel run another architecture's programs through qemu, unless it already does."""
    name, magic, mask = _EMULATORS[architecture]
    emulator = _need_program(f"{name}-static", "qemu-user-static")
    if not (_BINFMT / "register").exists():
        run(["mount", "-t", "binfmt_misc", "none", str(_BINFMT)])
    if not (_BINFMT / name).exists():
        # F: the kernel opens qemu now, so it is found in every chroot. O and C: a set-user-ID program keeps its rights.
        (_BINFMT / "register").write_text(f":{name}:M::{magic}:{mask}:{emulator}:OCF", encoding="ascii")
