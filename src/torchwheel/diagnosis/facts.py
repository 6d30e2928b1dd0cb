"""Facts of a log by which fixes are chosen: system, installer, toolkit, torch, GPU, and whether torchwheel builds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.diagnosis.libraries import describe
from torchwheel.hardware.arch import HowItRuns
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.pytorch.releases import (
    PytorchRelease,
    published_builds,
    published_builds_that_run,
    read_releases,
)
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_releases import compiled_by
from torchwheel.versions import at_least, cpython_abi

_WINDOWS = re.compile(r"(?<![\w/])[A-Z]:\\\w|\bMSVC\b|\bLNK\d{4}\b|\berror C\d{4}\b|\.(?:exe|dll|lib)\b")
_MACOS = re.compile(
    r"/Users/|/private/var/|MacOSX\d|CommandLineTools|\bxcrun\b|\bmacosx\b|\bdarwin\b|Apple clang|\.dylib\b"
)
_LINUX = re.compile(r"(?<![\w.])/(?:home|usr|opt|root|mnt)/|linux-gnu|\.so\b")
_DEBIAN = re.compile(r"\bapt(?:-get)?\b|(?i:ubuntu|debian)|-linux-gnu/|/dist-packages/")
_FEDORA = re.compile(
    r"\b(?:dnf|yum)\b|(?i:fedora|centos|red ?hat|rocky ?linux|almalinux)|\.el\d|/lib64/|gcc-toolset"
)
_OURS = re.compile(
    r"(?m)^(?:.{0,80}[ |>\]])?torchwheel(?: (?:build|extension|get)\b|: )|-C (?:target|arch|cuda|jobs)="
)
_STATED = Path(__file__).with_name("facts.toml")
_RELEASE = re.compile(
    r"(?:Using cached|Downloading|Found existing installation:) (?:\S{1,200}/)?(?P<name>[A-Za-z][\w.-]{0,80}?)"
    r"[- ](?P<release>\d[\w.+!]{0,40}?)(?:-(?:cp|py)\d|\.tar|\.zip|\s|$)"
    r"|(?P<name2>[A-Za-z][\w.-]{0,60})(?:==| [Vv]ersion: |\.__version__ *= *)(?P<release2>\d[\w.+!]{0,40})"
    r"|^Requirement already satisfied: (?P<name3>[A-Za-z][\w.-]{0,60}).{0,300}\((?P<release3>\d[\w.+]{0,40})\)$"
    r"|^(?P<name4>[A-Za-z][\w.-]{1,60}) {2,40}(?P<release4>\d[\w.+]{0,40})$"
    r"|(?<= )(?P<name6>[A-Za-z][\w-]{2,40}) v?(?P<release6>\d{1,4}\.\d{1,3}\.\d[\w.]{0,20})(?=[,;)]|$)"
    r"|(?<=[ /\\])(?P<name5>[A-Za-z]\w[\w.-]{0,60}?)-(?P<release5>\d[\w.+]{0,40}?)"
    r"(?:\.dist-info|$|(?= [A-Za-z][\w.-]{0,60}-\d))",
    re.MULTILINE,
)
"""Which release of a package a log names; the last of each counts."""
_SUCCESS = re.compile(r"Successfully installed ([^\n]{1,4000})|^ \+ (\S{1,80}==\S{1,40})$", re.MULTILINE)
_PACKAGE = re.compile(r"(?<!\S)[A-Za-z][\w.-]{0,80}?(?=-\d|==)")
# PyPI's torch is the CPU build on Windows, and never the one for ROCm or XPU.
_UPDATE = {"torch": "torch with the command that https://pytorch.org/get-started/locally/ gives for this GPU"}
_PACKAGES_OF = frozenset({"building", "module", "raised_in", "caller"})
_NUMBER = re.compile(r"(?:sm_|compute_)?(\d{1,2})(\d[af]?)")
# A folder that begins the text may have blanks in its name, but no other path and no option; another one begins a word,
# since it would be tried from each of its letters otherwise.
_STAGE = re.compile(
    r"^(?:/|[A-Za-z]:[/\\])(?:(?! [-/])[^'\"]){0,400}?[/\\]builds[/\\][^/\\]{1,200}[/\\]source[/\\]"
    r"|(?<![^\s'\"])(-[A-Za-z]?)?[^\s'\"]*[/\\]builds[/\\][^\s/\\]+[/\\]source[/\\]"
)


@dataclass(frozen=True)
class Facts:
    """What a log shows of the machine and of who builds.

    Attributes:
        ours: whether torchwheel builds, so that its settings are a fix.
        releases: of packages, by their normalised names.
        installed: names of what was installed while the log was written.
        family: the Linux distribution's, ``debian`` or ``fedora``; empty if the log shows neither.
        shown: the part of the log that shows the commands, and so which fixes were applied.
    """

    system: str = "Linux"
    ours: bool = True
    family: str = ""
    stated: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    installed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    shown: str = field(default="", compare=False, repr=False)

    def fill(self, captures: Mapping[str, str]) -> dict[str, str]:
        """Return the captures with the facts beside them, and with the user's own files in place of their copies."""
        own = {name: self.own_path(text) for name, text in captures.items()}
        known = {**own, **self.stated, **describe(own, self.system, self.family)}
        known[f"on_{self.system.lower()}"] = "yes"
        for name in _PACKAGES_OF & known.keys():
            release = self.releases.get(canonicalize_name(known[name]), "")
            known[f"{name}_here"] = f"{known[name]} {release}".rstrip()
        if "raised_in" in known:
            known["update"] = _UPDATE.get(known["raised_in"], f"`pip install -U {known['raised_in']}`")
        tag, python = captures.get("python", ""), self.stated.get("python_here")
        if python and tag.startswith("cp") and tag != cpython_abi(python):
            known["other_python"] = f"{tag[2]}.{tag[3:]}"
        if (name := known.get("distribution", "")) and canonicalize_name(name) in self.installed:
            known["pip_has"] = f"{name} {self.releases.get(canonicalize_name(name), '')}".rstrip()
        if capability := _architecture(captures.get("of_torch", "")) or self.capability:
            known.update(self._torch_for(capability), capability=capability.dotted)
        arch = captures.get("arch", "")
        known.update(self._values(arch), **self._torch_of_cuda(captures.get("toolkit", "")))
        if architecture := _architecture(arch):
            known["able"] = compiled_by(architecture).partition(": -C" if not self.ours else "\n")[0]
            if "and later" not in known["able"]:
                known["past"] = "yes"
            elif self.torch_cuda:
                # torch's own builder refuses another major version.
                known["able"] += f"; this torch takes CUDA {self.torch_cuda.partition('.')[0]} alone"
            if "list" in self.stated:
                is_listed = architecture.dotted in re.split(r"[;, +]+", self.stated["list"])
                known["listed" if is_listed else "unlisted"] = "yes"
        return known

    @property
    def capability(self) -> Architecture | None:
        gpu = read_gpus().find(self.stated.get("gpu", ""))
        return gpu.compute_capability if gpu else None

    def _values(self, arch: str) -> dict[str, str]:
        """Return what to write in commands, computed from what the log states."""
        cuda = self.torch_cuda
        found = {"torch_build": "cpu" if "torch_cpu" in self.stated else ""}
        # CUDA compiles for the RTX 50 from 12.8 on.
        if not at_least(cuda or self.stated.get("nvcc_release", "99"), "12.8"):
            found["older_cuda"] = "yes"
        if image := self.stated.get("runtime_image"):
            found["devel_image"] = re.sub(r"-(?:runtime|base)(?![^:]*:)", "-devel", image)
        if gfx := arch if arch.startswith("gfx") else self.stated.get("gfx"):
            for row in (row for row in shipped_toml(_STATED)["amd"] if gfx in row["numbers"]):
                found |= {key: row[key] for key in row.keys() & {"like", "like_version", "index"}}
        if cuda:
            on_windows = rf"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{cuda}"
            found["cuda_home"] = on_windows if self.system == "Windows" else f"/usr/local/cuda-{cuda}"
            found.update(torch_cuda=cuda, torch_build=f"cu{cuda.replace('.', '')}")
        return found

    def _torch_for(self, capability: Architecture) -> dict[str, str]:
        """Return the official torch that runs on a GPU, the nearest to the one of this log; or that this one does."""
        for release, platform, tag in self._nearest_releases():
            runs = published_builds_that_run(release, platform, tag, capability)
            # PTX that is older than the GPU leaves kernels out.
            builds = [one.build for one in runs if one.verdict and one.verdict.how is not HowItRuns.PTX_JIT]
            own = "cu" + self.stated.get("torch_label", "")
            if own in (one.label for one in builds) and self.stated.get("torch_release") == release.version:
                return {"torch_runs": release.version}
            if builds:
                return {"published": builds[0].command}
        return {}

    def _torch_of_cuda(self, toolkit: str) -> dict[str, str]:
        """Return the official torch for the major version of a toolkit, the nearest to the one of this log."""
        major = f"cu{toolkit.partition('.')[0]}"
        for release, platform, tag in self._nearest_releases() if toolkit[:1].isdigit() else ():
            for build in published_builds(release, platform, tag):
                if build.label.startswith(major):
                    return {"same_major": build.command}
        return {}

    def _nearest_releases(self) -> Iterator[tuple[PytorchRelease, str, str | None]]:
        """Yield the releases, the nearest to the torch of this log first, each with its platform and Python's tag."""
        machine = "aarch64" if "arm" in self.stated else "x86_64"
        platform = {"Windows": "win_amd64", "Linux": f"linux_{machine}"}.get(self.system)
        if platform is None or "jetson" in self.stated:
            return
        python, versions = self.stated.get("python_here"), read_releases().versions
        own = self.stated.get("torch_release")
        at = versions.index(own) if own in versions else len(versions) - 1
        for number in sorted(range(len(versions)), key=lambda number: abs(number - at)):
            yield read_releases().by_version[versions[number]], platform, python and cpython_abi(python)

    @property
    def torch_cuda(self) -> str:
        """The CUDA of torch; empty if the log does not tell."""
        label = self.stated.get("torch_label", "")
        return f"{label[:-1]}.{label[-1]}" if label else self.stated.get("torch_cuda", "")

    @property
    def all_releases(self) -> Mapping[str, str]:
        """The releases of packages, and those of torch, CUDA and Python by these names."""
        cuda = self.torch_cuda or self.stated.get("nvcc_release", "")
        named = {"torch": self.stated.get("torch_release", ""), "python": self.stated.get("python_here", "")}
        return {**self.releases, "cuda": cuda, **{name: text for name, text in named.items() if text}}

    def own_path(self, text: str) -> str:
        """Name files of the stage, torchwheel's copy of the tree, as those of the tree itself."""
        return _STAGE.sub(r"\1", text) if self.ours else text


def read_facts(log: str) -> Facts:
    windows, macos = len(_WINDOWS.findall(log)), len(_MACOS.findall(log))
    # One such name alone, as of the Python module nvidia.cublas.lib, is none beside paths of Linux.
    is_windows = windows > macos and (windows > 1 or not _LINUX.search(log))
    system = "Windows" if is_windows else "Darwin" if macos else "Linux"
    debian, fedora = len(_DEBIAN.findall(log)), len(_FEDORA.findall(log))
    family = "" if system != "Linux" or debian == fedora else "debian" if debian > fedora else "fedora"
    stated = {
        name.rstrip("234"): text.strip(" ,;")
        for match in (form.search(log) for form in stated_forms())
        for name, text in (match.groupdict() if match else {}).items()
        if text
    }
    if "thor" in stated:
        # It takes what is made for servers (SBSA), as no earlier Jetson does.
        stated.pop("jetson", None)
    installed = frozenset(
        canonicalize_name(match[0])
        for text in _SUCCESS.finditer(log)
        for match in _PACKAGE.finditer(text[1] or text[2])
    )
    named = (filter(None, match.groups()) for match in _RELEASE.finditer(log))
    releases: Mapping[str, str] = {canonicalize_name(name): release for name, release in named}
    return Facts(system, _OURS.search(log) is not None, family, stated, releases, installed)


def _architecture(number: str) -> Architecture | None:
    match = _NUMBER.fullmatch(number)
    return Architecture.of(f"{match[1]}.{match[2]}") if match else None


@cache
def stated_forms() -> tuple[re.Pattern[str], ...]:
    """Read the forms in which logs say something of the machine and of the tools (``facts.toml``)."""
    return tuple(re.compile(row["regex"], re.MULTILINE) for row in shipped_toml(_STATED)["fact"])
