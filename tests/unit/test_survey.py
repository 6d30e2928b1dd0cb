"""What is looked at before a plan is made."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from answered import answered
from backend.builds import GENERATIONS, make_tree, wrapper
from refusals import error_of, ids_of
from toolkit.site_packages import site_packages as nvidia_packages
from torchwheel.host.this import cache_folder, environment_folder, interpreter_in, site_packages, this_host
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, metadata_is_cheap, survey
from torchwheel.toolkit.pypi import requirements_for


@pytest.mark.parametrize("generation", GENERATIONS)
def test_metadata_is_cheap_where_nothing_is_built_for_it(generation: str, tmp_path: Path) -> None:
    tree = make_tree(generation, tmp_path / "tree")
    project = wrapper(tmp_path / "project", tree)
    expected = generation == "scikit-build-core"
    assert (metadata_is_cheap(tree), metadata_is_cheap(project)) == (expected, expected)


@pytest.mark.parametrize(
    "table",
    [
        "[tool.torchwheel]\nsource = '~/tree'\n",
        "[tool.torchwheel]\nsource = '../tree'\njbos = 3\n",
        "[tool.torchwheel]\nsource = '../nowhere'\n"
        "[[tool.torchwheel.when]]\nmarker = \"python_version >= '3'\"\nsource = '../tree'\n",
    ],
)
def test_metadata_is_cheap_wherever_the_source_stands(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree("scikit-build-core", tmp_path / "tree")
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(table, encoding="utf-8")
    monkeypatch.setenv("USERPROFILE" if sys.platform == "win32" else "HOME", str(tmp_path))
    assert metadata_is_cheap(project)


def test_a_project_that_cannot_be_read_promises_nothing(tmp_path: Path) -> None:
    assert metadata_is_cheap(tmp_path) is False
    (tmp_path / "pyproject.toml").write_text("[tool", encoding="utf-8")
    assert metadata_is_cheap(tmp_path) is False
    (tmp_path / "pyproject.toml").write_text("[tool.torchwheel]\nsource = 'nowhere'\n", encoding="utf-8")
    assert metadata_is_cheap(tmp_path) is False


def test_a_free_threaded_python_has_environments_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's, and what `make altinstall` puts into /usr/local, have the prefix of the other."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    host, kept = this_host(), []
    for abi in (host.python.abi_tag, f"{host.python.interpreter_tag}t"):
        other = replace(host, python=replace(host.python, abi_tag=abi))
        monkeypatch.setattr("torchwheel.survey.this_host", lambda other=other: other)
        environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": ""}
        request = BuildRequest(tree, {"target": "cpu", "build-env": "managed"}, environment)
        kept.append(survey(request).environment)
    assert None not in kept
    assert len(set(kept)) == 2


def test_packages_lie_where_venv_puts_them(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = answered([interpreter_in(folder), "-c", program], check=True)
    assert site_packages(folder) == Path(answer.stdout.strip())


@pytest.mark.skipif(sys.platform != "linux", reason="the packages of Linux")
@pytest.mark.parametrize("kept", ["the tree's requirements", "packages alone"])
def test_a_toolkit_from_packages_in_a_kept_environment_is_found(tmp_path: Path, kept: str) -> None:
    """From CUDA 13 on PyPI's packages bring a whole toolkit with nvcc."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    cache = tmp_path / "cache"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    folder = {
        "packages alone": environment_folder(cache, requirements_for("13.0"), tag),
        "the tree's requirements": environment_folder(cache, ["scikit-build-core>=1.0"], tag),
    }[kept]
    packages = nvidia_packages(site_packages(folder))

    def found(source: str) -> list[tuple[str, Path]]:
        request = BuildRequest(
            tree,
            {"target": "rtx5070", "build-env": "managed", "cuda-from": source},
            {"TORCHWHEEL_CACHE_DIR": str(cache), "PATH": "", "PIP_CONFIG_FILE": os.devnull},
        )
        return [(item.toolkit.version, item.site_packages) for item in survey(request).toolkits.packaged]

    assert found("auto") == found("pypi") == [("13.0", packages)]
    assert found("system") == []
    (packages / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD").unlink()
    assert found("pypi") == []


def test_the_cache_folder_is_the_variable_s_or_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(tmp_path))
    assert cache_folder({"TORCHWHEEL_CACHE_DIR": "/cache"}) == Path("/cache")
    assert cache_folder({"TORCHWHEEL_CACHE_DIR": "~/x"}) == tmp_path / "x"
    assert cache_folder(dict(os.environ, TORCHWHEEL_CACHE_DIR="")).name == "torchwheel"


@pytest.mark.parametrize(
    ("generation", "name", "file"),
    [("setup.py", "torch-nightly", "torch_nightly"), ("scikit-build-core", "torch", "torch")],
)
def test_the_wheel_is_called_what_setup_py_is_told_to_call_it(
    generation: str, name: str, file: str, tmp_path: Path
) -> None:
    """Else the proof would fail after the whole compile."""
    variables = {"PATH": "", "TORCHWHEEL_CACHE_DIR": str(tmp_path), "TORCH_PACKAGE_NAME": "torch-nightly"}
    tree = make_tree(generation, tmp_path / "tree")
    for settings, environment in (
        ({"target": "cpu", "package-version": "2.14.1"}, variables),
        (
            {"target": "cpu", "package-version": "2.14.1", "env.TORCH_PACKAGE_NAME": "torch-nightly"},
            {"PATH": ""},
        ),
    ):
        plan = make_plan(survey(BuildRequest(tree, settings, environment)))
        assert (plan.tree.name, plan.wheel_name.partition("-cp")[0]) == (name, f"{file}-2.14.1+cpu")


def test_an_environment_is_kept_for_what_pip_is_told_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``PIP_CONSTRAINT=numpy<2`` the NumPy 2 of an earlier build would be compiled against."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}

    def kept(**more: str) -> Path:
        environment = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), **variables, **more}
        folder = survey(BuildRequest(tree, {"target": "cpu", "build-env": "managed"}, environment))
        assert folder.environment is not None
        return folder.environment

    # pip takes a blank in PIP_CONSTRAINT for the end of a path.
    monkeypatch.chdir(tmp_path)

    def written(name: str, text: str) -> str:
        Path(name).write_text(text, encoding="utf-8")
        return name

    old, new, again = (written(*c) for c in (("a", "numpy<2\n"), ("b", "numpy<3\n"), ("c", "numpy<2\n")))
    named = (old, new, "absent", f"{old} {new}")
    folders = [kept(), *(kept(PIP_CONSTRAINT=text) for text in named)]
    assert len(set(folders)) == len(folders)
    assert kept(PIP_CONSTRAINT=again) == kept(PIP_CONSTRAINT=old)
    assert kept(PIP_CONSTRAINT="") == kept()

    # A file of constraints may name another one, and pip's own configuration one of both.
    outer = written("outer", "-c nested\n--constraint=gone\n")
    before = [kept(PIP_CONSTRAINT=outer) for text in ("numpy<2\n", "numpy<3\n") if written("nested", text)]
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    sections = (
        "[install]\nconstraint = {}\n",
        "[global]\npre = true\n",
        "[global]\nindex-url = x\n",
        "no section",
    )
    for text in sections:
        written(".config/pip/pip.conf", text.format(old))
        before.append(kept())
    named = {"PIP_CONFIG_FILE": written("own.conf", "[global]\nonly-binary = :all:\n")}
    before += [kept(**named), kept(**named, PIP_ONLY_BINARY="numpy"), kept(PIP_PRE="1")]
    number = [before.index(folder) for folder in before]
    assert number == [0, 1, 2, 3, 4, 4, 6, 7, 8]
    assert before[2] == kept(PIP_CONSTRAINT=old)
    assert before[4] == folders[0]
    without = kept(PIP_CONFIG_FILE=os.devnull)
    written(".config/pip/pip.conf", "[global]\npre = true\n")
    assert without == kept(PIP_CONFIG_FILE=os.devnull)


def test_the_automatic_environment_does_not_move_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on what is installed at the moment; a build elsewhere would compile everything again."""
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    monkeypatch.setattr("torchwheel.survey.is_isolated", lambda: False)

    def plans(**config: str) -> list[Plan]:
        request = BuildRequest(
            tree, {"target": "cpu", **config}, {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
        )
        made = []
        for met in (True, False):
            monkeypatch.setattr("torchwheel.survey.requirements_met", lambda requires, met=met: met)
            made.append(make_plan(survey(request)))
        return made

    current, kept = plans()
    assert (current.folders.environment is None, kept.folders.environment is None) == (True, False)
    assert current.python_executable != kept.python_executable
    assert current.folders.root == kept.folders.root
    one, other = (plans(**{"build-env": word})[0] for word in ("current", "managed"))
    assert one.folders.root != other.folders.root == kept.folders.root


def test_a_wrapper_that_names_no_source_is_told_the_key(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.torchwheel]\ntarget = 'cpu'\n", encoding="utf-8")
    (problem,) = error_of(survey, BuildRequest(tmp_path, {}, {})).problems
    assert (problem.id, problem.origin) == ("source-not-named", str(tmp_path / "pyproject.toml"))
    assert "source = " in problem.remedy


@pytest.mark.parametrize(
    "text", ["", "[tool.ruff]\nline-length = 80\n", "[[tool.torchwheel.extension]]\nname='a'\n"]
)
def test_another_project_is_not_taken_for_a_wrapper(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert ids_of(survey, BuildRequest(tmp_path, {"target": "cpu"}, {})) == ["not-pytorch"]
