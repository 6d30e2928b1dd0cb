"""Make what a combination describes: folders, a checkout, a toolkit, an interpreter, variables, another user."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.builds import make_tree, snapshot
from field.combinations import RELEASES, TOOLKITS, Combination, find_clangs, find_interpreter, find_toolkits
from field.packages import BUNDLED_PIP, OLD_SETUPTOOLS, UNREACHABLE
from locales import make_locales
from put import append, put
from torchwheel.cli.adopt import adopt
from torchwheel.system.files import short_digest

VERSION = "2.14.1"
DISABLED = ("tests", "openmp", "mpi", "cufile")
"""The last one, since the toolkit from PyPI has cuFile and others may not."""

EPOCH = "1700000000"
CUDA = "13.0"
"""The release of the toolkit from PyPI."""

CONSTRAINED = ("ninja", "<1.13")
"""What the constraints of `installer = "constraints"` say; newer releases exist."""

CXXFLAGS = "-O1 -DTORCH_FIELD"

_NOBODY = 65534

_CLOSED = "closed"
_HOMELESS = ("unset", "closed")

_PLACES = ("/usr/local/bin", "/usr/bin", "/bin")
_HIDE_TOOLKITS = (
    f'for folder in {TOOLKITS}; do [ -L "$folder" ] || mount -t tmpfs none "$folder"; done; exec "$@"'
)


def shaped(parent: Path, name: str, shape: str) -> Path:
    """The path of a folder, made where it is a link.

    Plain, with a blank, other letters, 200 letters long, a link, or with the sign that follows "sign ".
    """
    if shape == "link":
        target = parent / f"{name}.target"
        target.mkdir(parents=True)
        (parent / name).symlink_to(target)
        return parent / name
    if shape.startswith("sign "):
        return parent / f"{name}{shape.removeprefix('sign ')}b"
    return parent / {"blank": f"my {name}", "non-ASCII": f"{name} é 你好", "long": name.ljust(200, "x")}.get(
        shape, name
    )


@dataclass(frozen=True)
class Shared:
    """What all combinations of a session share.

    Attributes:
        folder: where they are made; every user may enter it.
        index: the address of the package index.
        uv: the program, where every user may run it.
        references: the folder of wheels that others are compared with.
    """

    folder: Path
    index: str
    uv: Path
    references: Path

    @functools.cached_property
    def programs(self) -> Path:
        """A folder with the programs of this machine but for compiler caches and nvcc, for PATH."""
        folder = self.folder / "programs"
        folder.mkdir(exist_ok=True)
        for program in (path for place in _PLACES for path in Path(place).iterdir()):
            link = folder / program.name
            if program.name not in ("ccache", "sccache", "nvcc") and not link.is_symlink():
                link.symlink_to(program)
        return folder

    @functools.cached_property
    def locales(self) -> Path:
        """A folder with the locales of the languages, for LOCPATH."""
        folder = self.folder / "locales"
        folder.mkdir()
        make_locales(folder, ("de_DE", "zh_CN"))
        return folder

    @functools.cache  # noqa: B019 (one object lives as long as the session)
    def toolkit(self, level: str) -> Path | None:
        """The toolkit of a level; None for one that is found by itself, and for none."""
        if level in ("system", "PyPI's", "none"):
            return None
        (source, *_) = (path.parent.parent for path in find_toolkits())
        place = shaped(self.folder / "toolkits", f"cuda-{level.replace(' ', '-')}", level)
        if level == "link":
            place.unlink()
            place.symlink_to(source)
        elif not place.exists():
            place.parent.mkdir(exist_ok=True)
            # Without copying a byte, where the disk is the same one.
            if subprocess.run(["cp", "-al", source, place], check=False, capture_output=True).returncode != 0:
                shutil.copytree(source, place, symlinks=True)
            if level == "conda":
                _arrange_like_conda(place)
        return place

    def make_environment(self, folder: Path, python: str, *requirements: str) -> Path:
        """The interpreter of a new virtual environment with these packages."""
        options = ("--no-config", "--quiet")
        clean = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
        }
        subprocess.run([self.uv, "venv", *options, "--python", python, folder], check=True, env=clean)
        if requirements:
            install = (
                "pip",
                "install",
                *options,
                "--python",
                folder,
                "--default-index",
                f"{self.index}/simple",
            )
            subprocess.run([self.uv, *install, *requirements], check=True, env=clean)
        return folder / "bin" / "python"


def _arrange_like_conda(toolkit: Path) -> None:
    """Conda's packages have headers and libraries below targets/ alone, with links to the libraries in lib/.

    Source: https://github.com/conda-forge/cuda-nvcc-feedstock, https://github.com/conda-forge/cuda-cudart-feedstock
    """
    target = toolkit / "targets" / "x86_64-linux"
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    (toolkit / "include").rename(target / "include")
    (toolkit / "lib64").unlink(missing_ok=True)
    (toolkit / "lib").rename(target / "lib")
    (toolkit / "lib").mkdir()
    for library in (target / "lib").iterdir():
        (toolkit / "lib" / library.name).symlink_to(
            Path("..") / "targets" / "x86_64-linux" / "lib" / library.name
        )
    (toolkit / "conda-meta").mkdir()


@dataclass(frozen=True)
class Surroundings:
    """What the front end of a combination runs in.

    Attributes:
        root: the folder of the combination.
        python: the interpreter of the front end's environment.
        tree: the checkout.
        before: the checkout before anything ran; None where builds write into it.
        project: the folder that is built: the checkout, or a wrapper.
        output: where the wheel goes.
        cache: torchwheel's cache folder.
        temporary: TMPDIR.
        settings: what is given after -C.
        variables: the environment.
        prefix: what stands before a command, for another user or for hidden toolkits.
        umask: for new files.
    """

    root: Path
    python: Path
    tree: Path
    before: Mapping[str, tuple[int, int]] | None
    project: Path
    output: Path
    cache: Path
    temporary: Path
    settings: Mapping[str, str]
    variables: Mapping[str, str]
    prefix: tuple[str, ...]
    umask: int


def make_surroundings(combination: Combination, root: Path, shared: Shared) -> Surroundings:
    """Make everything that a combination names, in a new folder."""
    root.mkdir()
    settings = _settings(combination, shared)
    tree = _make_checkout(combination, root)
    project = _make_project(combination, root, tree, settings)
    folders = {name: shaped(root, name, combination[name]) for name in ("output", "tmpdir")}
    cache = shaped(root, "cache", combination["cache"].replace("home", "plain"))
    home = shaped(root, "home", combination["home"].replace("unset", "plain").replace("closed", "plain"))
    for folder in (home, folders["tmpdir"]):
        folder.mkdir(exist_ok=True)
    variables = _variables(combination, shared, root, home, settings)
    variables["TMPDIR"] = str(folders["tmpdir"])
    if combination["cache"] == "home":
        homeless = combination["home"] in _HOMELESS
        cache = plain_place(combination["user"], root) if homeless else home / ".cache" / "torchwheel"
    else:
        variables["TORCHWHEEL_CACHE_DIR"] = str(cache)
    python = _make_environment(combination, root, shared)
    before = None
    if combination["project"] in ("wrapped", "sdist"):
        if combination["checkout"] == "read-only":
            for path in [tree, *tree.rglob("*")]:
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
        before = snapshot(tree)
    prefix: tuple[str, ...] = ()
    if combination["toolkit"] == "none" and find_toolkits():
        prefix += ("unshare", "--mount", "sh", "-c", _HIDE_TOOLKITS, "-")
    if combination["user"] != "own":
        user, group = find_user(combination["user"], root)
        for path in [root, *root.rglob("*")]:
            if combination["checkout"] != "read-only" or tree not in (path, *path.parents):
                os.chown(path, user, group, follow_symlinks=False)
        prefix += ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups")
        _close(root / _CLOSED)
    return Surroundings(
        root,
        python,
        tree,
        before,
        project,
        folders["output"],
        cache,
        folders["tmpdir"],
        settings if combination["settings"] == "-C" else {},
        variables,
        prefix,
        int(combination["umask"], 8),
    )


def _close(folder: Path) -> None:
    """Make a folder of root's alone, with all that is looked for in places that variables name."""
    for name in ("bin/cc", "bin/nvcc", "lib/torch.py", ".config/pip/pip.conf"):
        put(folder / name, "#!/bin/sh\nexit 1\n", 0o755)
    folder.chmod(0o700)


def find_user(level: str, root: Path) -> tuple[int, int]:
    """User and group of a level.

    Container platforms run images as a number that no user database has, in group 0; each combination has its own one.
    """
    return (
        (_NOBODY, _NOBODY) if level == "another" else (20000 + int(short_digest([str(root)]), 16) % 10000, 0)
    )


def plain_place(level: str, root: Path) -> Path:
    """Where torchwheel has the cache of a user of a level, if the one that is asked for cannot be had."""
    return Path("/var/tmp", f"torchwheel-{find_user(level, root)[0]}")


def _settings(combination: Combination, shared: Shared) -> dict[str, str]:
    settings = {"target": combination["target"], "package-version": VERSION, "disable": ",".join(DISABLED)}
    if combination["toolkit"] == "none":
        settings["cuda-from"] = "system"
    elif combination["toolkit"] == "PyPI's":
        settings |= {"cuda-from": "pypi", "cuda": CUDA}
    elif toolkit := shared.toolkit(combination["toolkit"]):
        settings["cuda-path"] = str(toolkit)
    if combination["front-end"] == "torchwheel" and combination["environment"] == "isolated":
        settings["build-env"] = "managed"
    return settings


def _make_checkout(combination: Combination, root: Path) -> Path:
    """The tree as a checkout of git, or as an archive unpacks it; adopted where the combination says so."""
    release = RELEASES[combination["release"]]
    tree = shaped(root, "tree", combination["checkout"])
    if tree.is_symlink():
        tree.resolve().rmdir()
    make_tree(release["generation"], tree.resolve())
    pyproject = tree / "pyproject.toml"
    requires = json.dumps([*release["requires"], *release.get("pinned", ())])
    text, count = re.subn(
        r"^requires = \[.*\]$",
        lambda _: f"requires = {requires}",
        pyproject.read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert count == 1
    if backend := release.get("backend"):
        text, count = re.subn(r'^build-backend = ".*"$', f'build-backend = "{backend}"', text, flags=re.M)
        assert count == 1
        setup = tree / "setup.py"
        # What upstream's setup.py does since it has this backend, which leaves the tree out of sys.path.
        line = "from __future__ import annotations\n"
        first = f"{line}\nimport os\nimport sys\n\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n"
        setup.write_text(setup.read_text(encoding="utf-8").replace(line, first, 1), encoding="utf-8")
    pyproject.write_text(text, encoding="utf-8")
    if combination["project"].startswith("adopted"):
        adopt(tree)
    return tree


def _make_project(combination: Combination, root: Path, tree: Path, settings: Mapping[str, str]) -> Path:
    """What is built: the adopted tree, or a wrapper around the tree."""
    table = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())
    table = f"\n[tool.torchwheel]\n{table if combination['settings'] == 'TOML' else ''}"
    if combination["project"].startswith("adopted"):
        project = tree
        append(tree / "pyproject.toml", table)
    else:
        project = root / "project"
        project.mkdir()
        system = '[build-system]\nrequires = ["torchwheel"]\nbuild-backend = "torchwheel.backend"\n'
        source = f"source = {json.dumps(str(tree), ensure_ascii=False)}\n"
        (project / "pyproject.toml").write_text(system + table + source, encoding="utf-8")
    if combination["source-control"] == "git":
        git = ["git", "-C", tree, "-c", "user.name=field", "-c", "user.email=field@example.org"]
        subprocess.run([*git[:3], "init", "--quiet"], check=True)
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", "all of it"], check=True)
    return project


def _make_environment(combination: Combination, root: Path, shared: Shared) -> Path:
    """The environment that the front end runs in."""
    front_end, release = combination["front-end"], RELEASES[combination["release"]]
    packages = {
        "pip, oldest": [f"pip=={BUNDLED_PIP[combination['python']]}"],
        "pip": ["pip"],
        "build": ["build"],
        "uv": [],
        "torchwheel": ["pip"],
    }[front_end]
    if combination["project"] == "sdist":
        packages.append("build")
    if front_end == "torchwheel" or combination["environment"] != "isolated":
        packages.append("torchwheel")
    if combination["environment"] == "current":
        packages += [*release["requires"], *release.get("pinned", ())]
    elif combination["environment"] == "old setuptools":
        packages += [f"setuptools=={OLD_SETUPTOOLS[combination['python']]}", "wheel"]
        packages += [name for name in release["requires"] if not name.startswith("setuptools")]
    python = find_interpreter(combination)
    assert python is not None
    return shared.make_environment(root / "venv", python, *dict.fromkeys(packages))


def _variables(
    combination: Combination, shared: Shared, root: Path, home: Path, settings: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the front end; nothing of this process's own is in it."""
    places = (
        [str(shared.programs)] if "none" in (combination["ccache"], combination["toolkit"]) else [*_PLACES]
    )
    if combination["ccache"] == "on PATH" and str(shared.programs) in places:
        places.append(str(_only(root / "ccache-only", "ccache")))
    variables = {
        "PATH": os.pathsep.join([str(root / "venv" / "bin"), *places]),
        "LC_ALL": combination["locale"],
        **({"LOCPATH": str(shared.locales)} if "_" in combination["locale"] else {}),
        "LANGUAGE": combination["locale"][:2] if "_" in combination["locale"] else "",
        "MAX_JOBS": "2",
        "UV_CACHE_DIR": str(
            root / "uv-cache" if combination["user"] != "own" else shared.folder / "uv-cache"
        ),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if combination["searched"] == "closed":
        variables["PATH"] = os.pathsep.join([str(root / _CLOSED / "bin"), variables["PATH"]])
        # pip 26.3 itself ends where it may not enter such a folder; torchwheel leaves PYTHONPATH out for its own pip.
        if combination["front-end"] in ("uv", "torchwheel") and combination["project"] != "sdist":
            variables["PYTHONPATH"] = str(root / _CLOSED / "lib")
    if combination["home"] == "closed":
        variables["HOME"] = str(root / _CLOSED)
    if combination["home"] in _HOMELESS:
        # Else these would write into the home that the user database names.
        variables |= {"PIP_CACHE_DIR": str(root / "pip-cache"), "CCACHE_DIR": str(root / "ccache")}
        configuration = root / "configuration"
        variables["XDG_CONFIG_HOME"] = str(configuration)
    else:
        variables["HOME"] = str(home)
        configuration = home / ".config"
    variables |= _installer_variables(combination, shared.index, root, configuration)
    if combination["settings"] == "variables":
        own = {key: value for key, value in settings.items() if key != "version"}
        variables |= {f"TORCHWHEEL_{key.upper().replace('-', '_')}": value for key, value in own.items()}
        variables |= {"PYTORCH_BUILD_VERSION": VERSION, "PYTORCH_BUILD_NUMBER": "1"}
    if combination["compiler"] == "CXXFLAGS":
        variables["CXXFLAGS"] = CXXFLAGS
    elif clang := find_clangs().get(combination["compiler"]):
        variables |= name_compiler(clang)
    if combination["conda"] == "active":
        prefix = shared.toolkit("conda") if combination["toolkit"] == "conda" else root / "conda"
        (root / "conda" / "conda-meta").mkdir(parents=True)
        variables |= {"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": "base"}
    if combination["epoch"] == "set":
        variables["SOURCE_DATE_EPOCH"] = EPOCH
    return variables


def name_compiler(clang: str) -> dict[str, str]:
    """The variables that choose a clang++ and its clang."""
    return {"CC": clang.replace("++", ""), "CXX": clang}


def _only(folder: Path, program: str) -> Path:
    """A folder with one program, for PATH."""
    folder.mkdir()
    (folder / program).symlink_to(shutil.which(program) or program)
    return folder


def _installer_variables(
    combination: Combination, index: str, root: Path, configuration: Path
) -> dict[str, str]:
    """How pip and uv are told of the index: variables, their own files, with constraints, through a proxy."""
    level, address = combination["installer"], f"{index}/simple"
    proxy = index if "proxy" in level else ""
    if proxy:
        address = f"http://{UNREACHABLE}/simple"
    constraints = root / "constraints.txt"
    if "constraints" in level:
        constraints.write_text("".join(CONSTRAINED) + "\n", encoding="utf-8")
    # pip refuses it with --no-build-isolation.
    isolated = combination["environment"] == "isolated"
    if level.startswith("files"):
        pip, uv = [f"index-url = {address}"], [f'index = [{{url = "{address}", default = true}}]']
        if proxy:
            pip += [f"proxy = {proxy}", f"trusted-host = {UNREACHABLE}"]
            uv += [f'http-proxy = "{proxy}"']
        if "constraints" in level:
            pip += [
                f"constraint = {constraints}",
                *([f"build-constraint = {constraints}"] if isolated else []),
            ]
            uv += [
                f"{name} = {json.dumps([''.join(CONSTRAINED)])}"
                for name in ("constraint-dependencies", "build-constraint-dependencies")
            ]
        for name, lines in {"pip/pip.conf": ["[global]", *pip], "uv/uv.toml": uv}.items():
            put(configuration / name, "\n".join(lines) + "\n")
        return {}
    variables = {"PIP_INDEX_URL": address, "UV_DEFAULT_INDEX": address}
    if "constraints" in level:
        names = ["PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"]
        names += ["PIP_BUILD_CONSTRAINT"] if isolated else []
        variables |= dict.fromkeys(names, str(constraints))
    if proxy:
        variables |= {"PIP_TRUSTED_HOST": UNREACHABLE, "HTTP_PROXY": proxy, "http_proxy": proxy}
    return variables
