"""Ask the index what it has, install it, and say which packages moved since everything last passed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement

from answered import answered
from backend.builds import check, clean_environment
from field.combinations import find_pythons
from places import REPOSITORY
from torchwheel.system.toml import read_toml

FULL = os.environ.get("RELEASES") == "full"
_PASSED = Path(__file__).with_name("passed.txt")
"""The versions with which everything last passed; RECORD=1 writes it."""

_BUILD_TOOLS = ("build", "cmake", "ninja", "scikit-build-core", "setuptools", "wheel")
"""What projects and front ends bring themselves, with its lowest version in the tests' group."""


def find_uv() -> str:
    """The uv of the tests' environment."""
    uv = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    assert uv is not None, "uv is not installed"
    return uv


def pythons() -> dict[str, str]:
    """Version -> interpreter, one of each supported version that this machine has."""
    return {version: found[0] for version, found in find_pythons().items()}


def lowest_requirements() -> list[str]:
    """pyproject.toml's requirements, for `--resolution lowest-direct`."""
    content = read_toml(REPOSITORY / "pyproject.toml")
    tools = [text for text in content["dependency-groups"]["test"] if Requirement(text).name in _BUILD_TOOLS]
    return [*content["project"]["dependencies"], *tools]


@dataclass(frozen=True)
class Index:
    """The package index of this machine's own settings.

    Attributes:
        own: the folder with torchwheel's wheel.
        uv: the program.
        versions: name -> version of all that was asked for so far.
    """

    own: Path
    uv: str
    versions: dict[str, str] = field(default_factory=dict)

    def variables(self, cache: Path, **more: str) -> dict[str, str]:
        """The environment of a build, in which pip and uv see torchwheel's wheel beside what they see here."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}
        # An address, because pip splits at blanks.
        own = self.own.as_uri()
        kept["PIP_FIND_LINKS"] = f"{kept.get('PIP_FIND_LINKS', '')} {own}".strip()
        kept["UV_FIND_LINKS"] = ",".join(filter(None, (kept.get("UV_FIND_LINKS"), own)))
        return clean_environment(cache, **kept, **more)

    def answers(self) -> bool:
        """Whether the index can be asked; torchwheel's least requirement is something that it must have."""
        return self._compile(["packaging"]).returncode == 0

    def resolve(self, requirements: Iterable[str], python: str, *options: str) -> dict[str, str]:
        """Return name -> version of what an installer would take for a version of Python.

        Raises:
            AssertionError: nothing fits together, with uv's explanation and the packages that moved.
        """
        answer = self._compile(requirements, "--python-version", python, *options)
        assert answer.returncode == 0, f"{answer.stderr}\n{self.explain()}"
        lines = [line.partition(" ;")[0].strip() for line in answer.stdout.splitlines() if "==" in line]
        found = dict(line.split("==", 1) for line in lines)
        self.versions.update(found)
        return found

    def _compile(self, requirements: Iterable[str], *options: str) -> subprocess.CompletedProcess[str]:
        command = [
            self.uv,
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--no-python-downloads",
        ]
        return answered(
            [*command, *options, "-"], input="\n".join(requirements) + "\n", env=self.variables(Path())
        )

    def environment(self, folder: Path, python: str, requirements: Sequence[str], *options: str) -> Path:
        """Install requirements in a new environment; the interpreter."""
        environment = self.variables(folder)
        check(self.uv, "venv", "--quiet", "--python", python, str(folder), cwd=folder.parent, env=environment)
        program = folder / "bin" / "python"
        install = (self.uv, "pip", "install", "--quiet", "--python", str(program), *options, *requirements)
        check(*install, cwd=folder.parent, env=environment, timeout=900)
        freeze = (self.uv, "pip", "freeze", "--python", str(program))
        said = check(*freeze, cwd=folder.parent, env=environment)
        self.versions.update(line.split("==", 1) for line in said.splitlines() if "==" in line)
        return program

    def explain(self) -> str:
        """The packages whose version differs from that of the last success."""
        passed = _read_passed()
        moved = [
            f"{name} {passed.get(name, 'was not needed')} -> {version}"
            for name, version in sorted(self.versions.items())
            if passed.get(name) != version
        ]
        return "moved since everything last passed: " + (", ".join(moved) or "no package")

    def record(self) -> None:
        """Print the versions, and write them down if RECORD is set."""
        print("\n" + "\n".join(f"{name}=={version}" for name, version in sorted(self.versions.items())))
        if "RECORD" in os.environ:
            merged: Mapping[str, str] = {**_read_passed(), **self.versions}
            lines = [f"{name}=={version}\n" for name, version in sorted(merged.items())]
            _PASSED.write_text("".join(lines), encoding="utf-8")


def _read_passed() -> dict[str, str]:
    lines = _PASSED.read_text(encoding="utf-8").split() if _PASSED.exists() else []
    return dict(line.split("==", 1) for line in lines)
