"""This machine, the Python of this process, and the folders of torchwheel's private cache and environments."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import stat
import sys
import sysconfig
import tempfile
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from packaging.tags import platform_tags
from platformdirs import PlatformDirs

from torchwheel.host.compilers import find_compilers
from torchwheel.host.jobs import usable_cores, usable_memory
from torchwheel.host.machine import Host, this_interpreter, this_python
from torchwheel.reporting.errors import refusal
from torchwheel.system.files import atomic_write, short_digest
from torchwheel.system.paths import exists, is_dir

if sys.platform != "win32":
    import grp
    import pwd

# The folders of pip's and uv's isolated environments.
_ISOLATED = re.compile(
    r"[\\/]pip-build-env-[^\\/]+[\\/](?:overlay|normal)(?:[\\/]|$)|[\\/]builds-v\d+[\\/]\.tmp"
)
_MUSL = re.compile(r"musllinux_(\d+)_(\d+)_")
_HARMLESS = frozenset(" +-./@_~")

CONFIG_VARIABLE = "TORCHWHEEL_CONFIG_DIR"
"""Names the folder of the user's own configuration."""

USED_FOR = "used-for.txt"
"""In a folder of the cache: the path of what it was last used for. The file's time is that of the use."""

_ELSEWHERE = "temporary"
_ROOT = 0
_SEARCHABLE = stat.S_IXGRP | stat.S_IXOTH
_PLAIN_PLACE = Path("/var/tmp")
"""Files there survive a restart: https://refspecs.linuxfoundation.org/FHS_3.0/fhs/ch05s15.html"""


def this_host(environment: Mapping[str, str] | None = None) -> Host:
    """Describe this machine; compilers are searched for only in an environment (``CC``, ``CXX``, ``PATH``)."""
    libc, libc_version = platform.libc_ver()
    has_musl = platform.system() == "Linux" and libc != "glibc"
    # The newest musl whose wheels pip takes here.
    musl = (_MUSL.match(tag) for tag in platform_tags()) if has_musl else ()
    return Host(
        platform_tag=sysconfig.get_platform().replace("-", "_").replace(".", "_"),
        system=platform.system(),
        machine=platform.machine(),
        python=this_python(),
        memory_bytes=usable_memory(),
        cores=usable_cores(),
        compilers=() if environment is None else find_compilers(environment, platform.system()),
        here=True,
        glibc=libc_version if libc == "glibc" else None,
        musl=next((f"{match[1]}.{match[2]}" for match in musl if match), None),
        os_release=platform.release(),
        os_version=platform.version(),
    )


def without_folder(text: str, folder: str, name: str = "~") -> str:
    """Replace a folder in the strings of JSON or TOML by a name: the home folder by ``~``, to hide the user's name.

    Only whole path components match: neither /home/annabel nor /mnt/home/ann is /home/ann. A flag (-I) may precede.
    """
    names = [
        re.escape(json.dumps(part, ensure_ascii=False)[1:-1]) for part in re.split(r"[\\/]", folder) if part
    ]
    if not names:
        return text
    separator = r"(?:/|\\\\)"
    start = r"(?:(?<![^\s\"'=:;,(])|(?<=-[A-Z])|(?<=-isystem))" + (separator if folder[0] in "\\/" else "")
    flags = re.IGNORECASE if names[0].endswith(":") else 0
    return re.sub(start + separator.join(names) + r"(?=[\\/\s\"'=:;,)])", lambda _: name, text, flags=flags)


def home_folder(environment: Mapping[str, str]) -> str:
    """Return the user's home folder, which need not exist; empty if there is none."""
    if os.name == "nt":
        return environment.get("USERPROFILE", "")
    if home := environment.get("HOME"):
        return home
    # A container's user may have no name: docker run -u 12345.
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_dir
    return ""


def home_names(environment: Mapping[str, str]) -> dict[str, str]:
    """The home folder, its real path and the account's, each with ``~`` as its name, to hide the user's name."""
    home = home_folder(environment)
    return dict.fromkeys([home, os.path.realpath(home) if home else "", home_folder({})], "~")


def has_home(environment: Mapping[str, str]) -> bool:
    """Whether the user has a home folder of their own.

    Containers have /nonexistent, / for nameless users, and root's, which others may not enter (``su -m``, ``docker run
    -u`` beside ``ENV HOME=/root``).
    """
    home = home_folder(environment)
    if os.name == "nt":
        return True
    return is_dir(home) and os.access(home, os.W_OK if home == "/" else os.R_OK | os.X_OK)


def with_home_and_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a build's programs; users without a home get one in torchwheel's cache folder.

    ccache needs one, and pip and ccache create whatever folder HOME names. Without PATH (``env -i``) the system's own
    is used, as by shells.
    """
    # Python's default on Windows begins with the current folder, which may be an untrusted tree.
    complete = {**environment} if os.name == "nt" else {"PATH": os.defpath, **environment}
    if has_home(environment):
        return complete
    cache = str(cache_folder(environment))
    return {**complete, "HOME": os.path.join(cache, "home"), "TORCHWHEEL_CACHE_DIR": cache}  # noqa: PTH118


def base_interpreter() -> str:
    """The interpreter that this environment was created from; this one outside environments."""
    return getattr(sys, "_base_executable", None) or sys.executable


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of builds and environments.

    It is :func:`asked_cache_folder`, or one with a plain path if build tools might misread a character of that.
    """
    asked = asked_cache_folder(environment)
    return asked if sys.platform == "win32" or not odd_characters(asked) else _plain_folder() or asked


def odd_characters(path: PurePath) -> str:
    """Return the characters of a path that may break build tools, sorted; tests build with each of the others."""
    # Combining marks are safe too, because Apple's file systems decompose ü.
    harmless = (sign for sign in str(path) if sign.isalnum() or unicodedata.category(sign).startswith("M"))
    return "".join(sorted({*str(path)} - _HARMLESS - {*harmless}))


def _plain_folder(*, make: bool = True) -> Path | None:
    """Return this user's own folder under a temporary folder that survives a restart; None if there is none."""
    if sys.platform == "win32":
        return None
    folder = _PLAIN_PLACE / f"torchwheel-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            if make:
                folder.mkdir(0o700)
        # Not stat(), because somebody may have put a link there.
        status = folder.lstat()
    except OSError:
        return None
    # Everybody may write to the parent folder, so somebody else could have created this one.
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if own else None


def temporary_folders() -> Path | None:
    """Return the folder of builds' temporary files that lie elsewhere; None if there is none."""
    plain = _plain_folder(make=False)
    return plain and plain / _ELSEWHERE


def temporary_folder(beside: Path) -> Path:
    """Return the folder for a build's temporary files: ``beside``, or one of the same build with a plain path.

    ``nvcc --threads`` passes the paths of its temporary files to a shell without quotes, so a blank in them breaks the
    compile (seen with nvcc 13.0).
    """
    if sys.platform == "win32" or not (" " in str(beside) or odd_characters(beside)):
        return beside
    plain = _plain_folder()
    return plain / _ELSEWHERE / short_digest([str(beside)]) if plain else beside


@contextmanager
def temporary_variables(beside: Path, chosen: Collection[str]) -> Iterator[dict[str, str]]:
    """Create a build's :func:`temporary_folder`, and yield the variables that name it.

    The path of the user's folder may contain characters that tools misread: with a ``'`` CMake does not find OpenMP.
    A folder elsewhere names the build that it belongs to, and is removed at the end.
    """
    folder = temporary_folder(beside)
    # One process of a build may start another.
    removes = folder != beside and not exists(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if removes:
        atomic_write(folder / USED_FOR, str(beside.parent))
    try:
        yield {name: str(folder) for name in ("TEMP", "TMP", "TMPDIR") if name not in chosen}
    finally:
        if removes:
            shutil.rmtree(folder, ignore_errors=True)


def asked_cache_folder(environment: Mapping[str, str]) -> Path:
    """Return ``TORCHWHEEL_CACHE_DIR``, else the user's cache folder; without a home, a folder with a plain path."""
    if chosen := environment.get("TORCHWHEEL_CACHE_DIR"):
        return expand_home(chosen).absolute()
    if sys.platform == "win32":
        # Windows limits paths to 260 characters, so no "torchwheel\\Cache".
        return PlatformDirs("tw", appauthor=False, opinion=False).user_cache_path
    if folder := _user_folder(environment, "XDG_CACHE_HOME", ".cache", "Library/Caches") or _plain_folder():
        return folder
    raise refusal("no-cache-folder", origin=_PLAIN_PLACE)


def config_folder(environment: Mapping[str, str]) -> Path | None:
    if chosen := environment.get(CONFIG_VARIABLE):
        return expand_home(chosen).absolute()
    if sys.platform == "win32":
        return PlatformDirs("torchwheel", appauthor=False).user_config_path
    return _user_folder(environment, "XDG_CONFIG_HOME", ".config", "Library/Application Support")


def _user_folder(environment: Mapping[str, str], variable: str, usual: str, on_macos: str) -> Path | None:
    """torchwheel's folder below the one that a variable names, else below the home.

    Source: https://specifications.freedesktop.org/basedir-spec/latest/, for macOS platformdirs.
    """
    if Path(named := environment.get(variable, "")).is_absolute():
        return Path(named, "torchwheel")
    if not has_home(environment):
        return None
    return Path(home_folder(environment), on_macos if sys.platform == "darwin" else usual, "torchwheel")


def expand_home(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises without a home


def environment_folder(cache: Path, requires: Iterable[str], abi_tag: str) -> Path:
    digest = short_digest([sys.base_prefix, *sorted(requires)])
    return cache / "environments" / f"{abi_tag}-{digest}"


def interpreter_in(folder: Path | None) -> str:
    """The path of the interpreter in an environment's folder; this one if None."""
    if folder is None:
        return this_interpreter()
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def scripts_folder(interpreter: str) -> Path:
    return Path(interpreter).parent


def site_packages(folder: Path) -> Path:
    """The folder of pure Python packages in an environment created by venv."""
    # Debian's Python has another default. Since 3.11 there is a scheme for venv.
    usual = "nt" if sys.platform == "win32" else "posix_prefix"
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else usual
    return Path(sysconfig.get_path("purelib", scheme, {"base": str(folder)}))


def import_folders(environment: Path | None) -> list[Path]:
    """The folders that an environment's Python imports from; this one's if None."""
    # pip's isolated environment is only folders on sys.path.
    return [Path(folder) for folder in sys.path] if environment is None else [site_packages(environment)]


def is_isolated() -> bool:
    return any(map(is_of_isolated, [sys.prefix, *(place for place in sys.path if "site-packages" in place)]))


def is_of_isolated(folder: str) -> bool:
    """Whether a folder belongs to an environment that a frontend creates anew for every build.

    pip's and uv's are recognised by their names; other frontends, such as pypa/build, use the temporary folder.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    return bool(_ISOLATED.search(folder)) or temporary in Path(folder).resolve().parents


def make_private(folder: Path) -> None:
    """Create a folder that only this user can enter; an existing one stays as it is."""
    # The first write into it reports a failure.
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700)


def other_writers(folder: Path) -> str:
    """Describe who else can change a folder's content, or that of a folder directly in it.

    A group without other members is ignored, such as the user private groups of Debian and Red Hat. On Windows
    nothing is checked, because the user's profile has its own access list. Empty for nobody, and a missing folder.
    """
    if sys.platform == "win32":
        return ""
    with suppress(OSError):
        status = folder.stat()
        if found := _describe_writers(folder, status):
            return found
        # Otherwise nobody else can reach the folders in it.
        for entry in os.scandir(folder) if status.st_mode & _SEARCHABLE else ():
            if entry.is_dir() and (found := _describe_writers(folder / entry.name, entry.stat())):
                return found
    return ""


if sys.platform != "win32":

    def _describe_writers(folder: Path, status: os.stat_result) -> str:
        if status.st_uid not in (os.geteuid(), _ROOT):
            return f"{folder} belongs to {_user_name(status.st_uid)}"
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        if status.st_mode & stat.S_IWOTH:
            return f"everybody may write to {folder} (mode {mode})"
        if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
            return f"the group {_group_name(status.st_gid)} may write to {folder} (mode {mode})"
        return ""

    def _is_own_group(group: int) -> bool:
        """Whether a group has no members but this user and root."""
        user = _user_name(os.geteuid())
        try:
            entry = grp.getgrgid(group)
        except KeyError:
            # A container's user without a name, with a group of the same number.
            return group in (_ROOT, os.geteuid())
        return group == _ROOT or (entry.gr_name == user and set(entry.gr_mem) <= {user})

    def _user_name(number: int) -> str:
        with suppress(KeyError):
            return pwd.getpwuid(number).pw_name
        return str(number)

    def _group_name(number: int) -> str:
        with suppress(KeyError):
            return grp.getgrgid(number).gr_name
        return str(number)
