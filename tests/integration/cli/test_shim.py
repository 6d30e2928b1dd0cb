"""The shim in an adopted tree, built by real frontends with and without torchwheel.

The interpreter of these tests is a fresh one that has everything but torchwheel. Where torchwheel is to be
there, a stand-in on PYTHONPATH tells which hook was called with what.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from build import ProjectBuilder
from pyproject_hooks import BuildBackendHookCaller, HookMissing

from answered import answered
from put import append, put
from torchwheel.cli.adopt import adopt
from torchwheel.system.toml import read_toml
from torchwheel.tree.source_tree import read_tree
from tree.small_trees import write_tree

SHIM = "backend/torchwheel_shim.py"
LEGACY = 'build-backend = "setuptools.build_meta:__legacy__"'
ALL_HOOKS = (
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
)
MANDATORY = {"build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel"}

SETUP_PY = """\
from setuptools import setup
setup(name="torch", version="2.6.0a0", packages=["torch"])
"""
SKBC_PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.0"]
build-backend = "scikit_build_core.build"

[project]
name = "torch"
version = "2.14.1"
"""
SKBC_CMAKE = """\
cmake_minimum_required(VERSION 3.15)
project(torch LANGUAGES NONE)
option(USE_CUDA "Use CUDA" ON)
install(FILES version.txt DESTINATION torch)
"""
OWN_BACKEND = """\
from setuptools.build_meta import build_sdist, build_wheel
class object_with_hooks:
    build_sdist = staticmethod(build_sdist)
    build_wheel = staticmethod(build_wheel)
    @staticmethod
    def get_requires_for_build_wheel(config_settings=None):
        return [f"asked with {config_settings}"]
"""

STAND_IN = """\
import json, pathlib
def __getattr__(name):
    if name not in {hooks!r}:
        raise AttributeError(name)
    def hook(*arguments):
        if name.startswith("get_requires"):
            return [f"{{name}} {{arguments}}"]
        pathlib.Path(arguments[0], "served.json").write_text(json.dumps([name, *arguments]))
        if name == "build_sdist":
            import io, tarfile
            with tarfile.open(pathlib.Path(arguments[0], "torch-1.tar.gz"), "w:gz") as sdist:
                member = tarfile.TarInfo("torch-1/PKG-INFO")
                sdist.addfile(member, io.BytesIO(b""))
            return "torch-1.tar.gz"
        return "served"
    return hook
"""


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose site-packages links to all of this one's but torchwheel."""
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    names = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", vars=names))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "torchwheel" not in entry.name:
            link(packages / entry.name, entry)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    absent = "import importlib.util as u, sys; sys.exit(u.find_spec('torchwheel') is not None)"
    subprocess.run([python, "-I", "-c", absent], check=True)
    return python


def link(place: Path, target: Path) -> None:
    try:
        place.symlink_to(target, target_is_directory=target.is_dir())
    except OSError as error:
        pytest.skip(f"symbolic links cannot be made here: {error}")


class HookFailed(Exception):
    """What a hook, or a frontend, printed before it failed."""


class Frontend:
    """Calls the hooks of one tree as a frontend does: each in a process of its own."""

    def __init__(self, root: Path, python: Path, environment: Mapping[str, str]) -> None:
        self.root = root
        self._python = python
        kept = {"PATH", "SYSTEMROOT", "TEMP", "TMP", "HOME"}
        self.environment = {key: value for key, value in os.environ.items() if key in kept} | dict(
            environment
        )
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(
        self, command: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        """The runner of pyproject_hooks and of build; what a hook prints goes into the error."""
        environment = {**self.environment, **(extra_environ or {})}
        result = answered(command, cwd=cwd, env=environment)
        if result.returncode != 0:
            raise HookFailed(result.stdout + result.stderr)

    @property
    def hooks(self) -> BuildBackendHookCaller:
        system = read_toml(self.root / "pyproject.toml")["build-system"]
        return BuildBackendHookCaller(
            str(self.root),
            system["build-backend"],
            system.get("backend-path"),
            runner=self.run,
            python_executable=str(self._python),
        )

    @property
    def builder(self) -> ProjectBuilder:
        return ProjectBuilder(self.root, python_executable=str(self._python), runner=self.run)

    def offered(self) -> set[str]:
        """The hooks that ``hasattr`` finds on the backend that pyproject.toml names."""
        system = read_toml(self.root / "pyproject.toml")["build-system"]
        probe = (
            "import sys, importlib, json; sys.path[:0] = json.loads(sys.argv[1]);"
            "module, _, path = sys.argv[2].partition(':'); backend = importlib.import_module(module)\n"
            "for part in filter(None, path.split('.')): backend = getattr(backend, part)\n"
            "print(json.dumps([name for name in json.loads(sys.argv[3]) if hasattr(backend, name)]))"
        )
        folders = [str(self.root / folder) for folder in system.get("backend-path", [])]
        arguments = [json.dumps(folders), system["build-backend"], json.dumps(ALL_HOOKS)]
        command = [str(self._python), "-c", probe, *arguments]
        output = answered(command, cwd=self.root, env=self.environment, check=True)
        return set(json.loads(output.stdout))


def setup_py_tree(root: Path) -> Path:
    write_tree(root)
    (root / "setup.py").write_text(SETUP_PY, encoding="utf-8")
    (root / "torch" / "__init__.py").write_text("", encoding="utf-8")
    (root / "MANIFEST.in").write_text("include version.txt CMakeLists.txt\n", encoding="utf-8")
    return root


def scikit_build_core_tree(root: Path) -> Path:
    write_tree(root, SKBC_PYPROJECT)
    (root / "setup.py").unlink()
    (root / "CMakeLists.txt").write_text(SKBC_CMAKE, encoding="utf-8")
    (root / "torch" / "__init__.py").write_text("", encoding="utf-8")
    return root


TREES = {"setup.py": setup_py_tree, "scikit-build-core": scikit_build_core_tree}


def stand_in(folder: Path, hooks: Sequence[str] = ALL_HOOKS) -> dict[str, str]:
    """The environment in which a torchwheel with these hooks is there."""
    package = folder / "torchwheel"
    put(package / "__init__.py")
    (package / "backend.py").write_text(STAND_IN.format(hooks=set(hooks)), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(params=list(TREES))
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return TREES[request.param](tmp_path / "ein Baum é")


def served(folder: Path) -> list[object]:
    calls: list[object] = json.loads((folder / "served.json").read_text(encoding="utf-8"))
    return calls


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_without_torchwheel_the_tree_builds_as_before(root: Path, bare_python: Path, tmp_path: Path) -> None:
    frontend = Frontend(root, bare_python, {})
    offered = frontend.offered()
    before = Path(frontend.builder.build("wheel", tmp_path / "before"))
    adopt(root)
    after = Path(frontend.builder.build("wheel", tmp_path / "after"))
    assert after.name == before.name
    assert names_in(after) == names_in(before)
    assert frontend.offered() == offered | MANDATORY
    assert frontend.hooks._supported_features() == ["build_editable"]


def test_an_sdist_builds_again(root: Path, bare_python: Path, tmp_path: Path) -> None:
    """It must hold the shim, or no frontend could build from it."""
    adopt(root)
    sdist = Path(Frontend(root, bare_python, {}).builder.build("sdist", tmp_path / "dist"))
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "unpacked", filter="data")
    top = sdist.name.removesuffix(".tar.gz")
    assert names.count(f"{top}/{SHIM}") == 1
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [sdist.name]
    unpacked = Frontend(tmp_path / "unpacked" / top, bare_python, {})
    assert Path(unpacked.builder.build("wheel", tmp_path / "dist")).is_file()


def test_installed_but_not_asked_for_the_tree_builds_as_before(
    root: Path, bare_python: Path, tmp_path: Path
) -> None:
    adopt(root)
    frontend = Frontend(root, bare_python, stand_in(tmp_path / "site"))
    wheel = Path(frontend.builder.build("wheel", tmp_path / "dist"))
    assert wheel.suffix == ".whl"
    assert not (tmp_path / "dist" / "served.json").exists()


@pytest.mark.parametrize(
    ("setting", "variable", "line"),
    [
        ({"target": "rtx5070"}, {}, ""),
        # It says how that is written; setuptools would pass it over.
        ({"torchwheel.target": "rtx5070"}, {}, ""),
        (None, {"TORCHWHEEL_PROFILE": "minimal"}, ""),
        (None, {}, 'arch = ["9.0"]'),
    ],
)
def test_asked_for_a_target_torchwheel_serves(
    bare_python: Path,
    tmp_path: Path,
    setting: dict[str, str | list[str]] | None,
    variable: dict[str, str],
    line: str,
) -> None:
    root = setup_py_tree(tmp_path / "t")
    append(root / "pyproject.toml", f"[tool.torchwheel]\n{line}\n")
    adopt(root)
    frontend = Frontend(root, bare_python, stand_in(tmp_path / "site") | variable)
    out = tmp_path / "out"
    out.mkdir()
    assert frontend.hooks.build_wheel(str(out), setting) == "served"
    assert served(out) == ["build_wheel", str(out), setting, None]
    assert frontend.hooks.build_editable(str(out), setting) == "served"
    assert served(out) == ["build_editable", str(out), setting, None]
    assert frontend.hooks.get_requires_for_build_wheel(setting) == [
        f"get_requires_for_build_wheel ({setting},)"
    ]
    assert frontend.hooks.build_sdist(str(out), setting) == "torch-1.tar.gz"
    with tarfile.open(out / "torch-1.tar.gz") as sdist:
        assert sdist.getnames() == ["torch-1/PKG-INFO", f"torch-1/{SHIM}"]


@pytest.mark.parametrize(
    "table", ["[tool.torchwheel.target.mine]\narch = '9.0'\n", "[tool.torchwheel]\njobs = 3\n"]
)
def test_other_settings_ask_for_no_target(bare_python: Path, tmp_path: Path, table: str) -> None:
    root = setup_py_tree(tmp_path / "t")
    append(root / "pyproject.toml", table)
    adopt(root)
    environment = stand_in(tmp_path / "site") | {"TORCHWHEEL_TARGET": ""}
    frontend = Frontend(root, bare_python, environment)
    assert frontend.hooks.get_requires_for_build_wheel({"jobs": "3"}) == []


@pytest.mark.parametrize(
    ("setting", "variable"), [({"target": "rtx5070"}, {}), (None, {"TORCHWHEEL_TARGET": "rtx5070"})]
)
def test_asked_for_a_target_without_torchwheel(
    root: Path, bare_python: Path, tmp_path: Path, setting: dict[str, str] | None, variable: dict[str, str]
) -> None:
    own = Frontend(root, bare_python, {}).hooks.get_requires_for_build_wheel()
    adopt(root)
    frontend = Frontend(root, bare_python, variable)
    assert frontend.hooks.get_requires_for_build_wheel(setting) == [*own, "torchwheel"]
    assert frontend.hooks.get_requires_for_build_sdist(setting) == ["torchwheel"]
    assert frontend.hooks.get_requires_for_build_editable(setting) == [*own, "torchwheel"]
    with pytest.raises(HookFailed) as caught:
        frontend.hooks.build_wheel(str(tmp_path), setting)
    said = str(caught.value)
    assert ("TorchwheelMissing" in said, read_tree(root).backend in said) == (True, True)


@pytest.mark.parametrize("installed", [True, False])
def test_a_tree_whose_own_backend_is_not_installed(
    bare_python: Path, tmp_path: Path, installed: bool
) -> None:
    root = scikit_build_core_tree(tmp_path / "t")
    adopt(root)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "scikit_build_core.py").touch()
    environment = stand_in(tmp_path / "site") if installed else {"PYTHONPATH": str(tmp_path / "site")}
    frontend = Frontend(root, bare_python, environment)
    for hook in ("prepare_metadata_for_build_wheel", "build_wheel"):
        with pytest.raises(HookFailed) as caught:
            getattr(frontend.hooks, hook)(str(tmp_path))
        said = str(caught.value)
        assert ("OwnBackendMissing" in said, str(bare_python) in said) == (True, True)
    if installed:
        # torchwheel says it among all else that is in the way.
        frontend.hooks.prepare_metadata_for_build_wheel(str(tmp_path), {"target": "cpu"})
        assert served(tmp_path)[0] == "prepare_metadata_for_build_wheel"


def test_an_own_backend_that_fails_at_its_import(bare_python: Path, tmp_path: Path) -> None:
    """As setuptools 65 does with Python 3.12, by an AttributeError."""
    root = setup_py_tree(tmp_path / "t")
    adopt(root)
    put(tmp_path / "site" / "setuptools.py", "import os\nos.no_such_name\n")
    frontend = Frontend(root, bare_python, stand_in(tmp_path / "site"))
    with pytest.raises(HookFailed) as caught:
        frontend.hooks.build_wheel(str(tmp_path))
    assert "torchwheel_shim.OwnBackendMissing: the tree's own build backend, setuptools.build_meta" in str(
        caught.value
    )
    assert "module 'os' has no attribute 'no_such_name'" in str(caught.value)
    frontend.hooks.build_editable(str(tmp_path), {"target": "cpu"})
    assert served(tmp_path)[0] == "build_editable"


@pytest.mark.parametrize(
    ("record", "asks"),
    [
        ('{"version": "1+cpu", "settings": {}}', True),
        ('{"version": "1", "settings": {"arch": "9.0"}}', True),
        ('{"version": "1", "settings": {}}', False),
        ("{", True),
    ],
)
def test_an_sdist_that_was_made_for_a_target_asks_for_it(
    bare_python: Path, tmp_path: Path, record: str, asks: bool
) -> None:
    root = setup_py_tree(tmp_path / "t")
    own = Frontend(root, bare_python, {}).hooks.get_requires_for_build_wheel()
    adopt(root)
    (root / ".torchwheel-sdist.json").write_text(record, encoding="utf-8")
    frontend = Frontend(root, bare_python, {})
    assert frontend.hooks.get_requires_for_build_wheel() == [*own, *(["torchwheel"] if asks else [])]
    if asks:
        with pytest.raises(HookFailed, match=r"TORCHWHEEL_ARCH, \.torchwheel-sdist\.json\.\n"):
            frontend.hooks.build_wheel(str(tmp_path))
        Frontend(root, bare_python, stand_in(tmp_path / "site")).hooks.build_wheel(str(tmp_path))
        assert served(tmp_path) == ["build_wheel", str(tmp_path), None, None]


def test_asked_for_only_in_pyproject_without_torchwheel_the_tree_builds_as_before(
    bare_python: Path, tmp_path: Path
) -> None:
    root = setup_py_tree(tmp_path / "t")
    pyproject = root / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8") + '[tool.torchwheel]\ntarget = "a100"\n'
    pyproject.write_text(text, encoding="utf-8")
    adopt(root)
    frontend = Frontend(root, bare_python, {})
    assert frontend.hooks.get_requires_for_build_wheel() == []
    assert Path(frontend.builder.build("wheel", tmp_path / "dist")).is_file()


def test_an_empty_folder_of_the_name_is_not_torchwheel(bare_python: Path, tmp_path: Path) -> None:
    root = setup_py_tree(tmp_path / "t")
    adopt(root)
    (tmp_path / "site" / "torchwheel").mkdir(parents=True)
    frontend = Frontend(root, bare_python, {"PYTHONPATH": str(tmp_path / "site")})
    assert frontend.hooks.get_requires_for_build_wheel({"target": "a100"}) == ["torchwheel"]


WITHOUT_METADATA = set(ALL_HOOKS) - {
    "prepare_metadata_for_build_wheel",
    "prepare_metadata_for_build_editable",
}
WITHOUT_EDITABLE = set(ALL_HOOKS) - {"build_editable", "get_requires_for_build_editable"}


@pytest.mark.parametrize(
    ("tree", "torchwheel_has", "asked", "expected"),
    [
        ("setup.py", None, False, set(ALL_HOOKS)),
        ("setup.py", set(ALL_HOOKS), True, WITHOUT_METADATA),
        ("setup.py", MANDATORY, False, MANDATORY),
        ("scikit-build-core", None, False, set(ALL_HOOKS)),
        ("scikit-build-core", WITHOUT_METADATA, True, WITHOUT_METADATA),
        ("scikit-build-core", WITHOUT_EDITABLE, True, WITHOUT_EDITABLE),
    ],
)
def test_a_hook_is_offered_where_it_can_be_honoured(
    bare_python: Path,
    tmp_path: Path,
    tree: str,
    torchwheel_has: set[str] | None,
    asked: bool,
    expected: set[str],
) -> None:
    root = TREES[tree](tmp_path / "t")
    adopt(root)
    environment = {"TORCHWHEEL_TARGET": "a100"} if asked else {}
    if torchwheel_has is not None:
        environment |= stand_in(tmp_path / "site", sorted(torchwheel_has))
    assert Frontend(root, bare_python, environment).offered() == expected


def test_metadata_comes_from_the_backend_that_serves(bare_python: Path, tmp_path: Path) -> None:
    root = scikit_build_core_tree(tmp_path / "t")
    adopt(root)
    frontend = Frontend(root, bare_python, stand_in(tmp_path / "site"))
    out = tmp_path / "out"
    out.mkdir()
    assert frontend.hooks.prepare_metadata_for_build_wheel(str(out)) == "torch-2.14.1.dist-info"
    settings = {"target": "a100"}
    assert frontend.hooks.prepare_metadata_for_build_wheel(str(out), settings) == "served"
    assert served(out) == ["prepare_metadata_for_build_wheel", str(out), settings]
    assert frontend.hooks.prepare_metadata_for_build_editable(str(out), settings) == "served"
    assert served(out) == ["prepare_metadata_for_build_editable", str(out), settings]


def test_a_backend_of_the_trees_own_with_few_hooks(bare_python: Path, tmp_path: Path) -> None:
    """As ``backend-path`` and ``module:object`` name it, with the optional hooks left out."""
    root = setup_py_tree(tmp_path / "t")
    put(root / "tools" / "own_backend.py", OWN_BACKEND)
    adopt(root)
    pyproject = root / "pyproject.toml"
    own = 'build-backend = "own_backend:object_with_hooks"\nbackend-path = ["tools"]'
    text = pyproject.read_text(encoding="utf-8")
    assert LEGACY in text
    pyproject.write_text(text.replace(LEGACY, own), encoding="utf-8")
    frontend = Frontend(root, bare_python, {})
    assert frontend.offered() == MANDATORY
    assert frontend.hooks.get_requires_for_build_sdist() == []
    assert frontend.hooks.get_requires_for_build_wheel({"x": "y"}) == ["asked with {'x': 'y'}"]
    assert frontend.hooks.get_requires_for_build_wheel({"target": "a100"}) == [
        "asked with None",
        "torchwheel",
    ]
    with pytest.raises(HookMissing):
        frontend.hooks.prepare_metadata_for_build_wheel(str(tmp_path), _allow_fallback=False)
    assert Path(frontend.builder.build("wheel", tmp_path / "dist")).is_file()


def test_pip_builds_an_adopted_tree(bare_python: Path, tmp_path: Path) -> None:
    root = setup_py_tree(tmp_path / "t")
    adopt(root)
    frontend = Frontend(root, bare_python, {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path / "dist")]
    frontend.run([str(bare_python), "-m", "pip", "wheel", str(root), *options])
    assert [path.name for path in (tmp_path / "dist").iterdir()] == ["torch-2.6.0a0-py3-none-any.whl"]
    with pytest.raises(HookFailed, match="this build asks for a target, and torchwheel"):
        frontend.run([str(bare_python), "-m", "pip", "wheel", str(root), "-C", "target=a100", *options])
