"""What doctor knows of a machine beyond ``host.Host``: frozen data, the same for this machine and a described one.

Throughout, None means that nobody has looked; what was looked for and is not there is ``NOT_INSTALLED``, False or
an empty tuple. Rules are silent where they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.model import Compiler, Host
from torchwheel.host.visual_studio import VisualStudio
from torchwheel.preflight.toolkit_facts import ToolkitFacts


@dataclass(frozen=True)
class Installed:
    """A program or library.

    Attributes:
        version: its version; empty if it is not installed.
        path: where it is; may be empty. Of a library that is not installed, the file that is missing of it.
    """

    version: str
    path: str = ""

    @property
    def there(self) -> bool:
        return bool(self.version)


NOT_INSTALLED = Installed("")


@dataclass(frozen=True)
class HostFacts:
    """A machine.

    Attributes:
        host: system, processor, memory and Python; its compilers with their full versions.
        compilers_known: whether ``host.compilers`` is all there is, or else nobody looked.
        toolkits: the CUDA toolkits, best first.
        other_compilers: further C++ compilers on ``PATH``, such as g++-13.
        driver: version of NVIDIA's driver; empty if there is none.
        libraries: ``cudnn``, ``nccl`` and ``openblas``, as far as looked for.
        tools: ``cmake``, ``ninja`` and ``git``, as far as looked for.
        python_headers: whether Python.h is there.
        packages: installed Python distributions that matter, by canonical name; missing ones with an empty
            version.
        build_folder: the folder that builds are kept in.
        free_disk_bytes: what is free there.
        environment: the environment variables that matter.
        online: whether a public host name can be resolved.
        visual_studio: on Windows the newest one, ``VisualStudio("", "")`` if there is none.
        long_paths: on Windows whether paths may exceed 260 characters.
        obstacles: folders that cannot be written to -> why.
        unanswered: what was asked and not answered, as ``the version of /usr/bin/g++`` -> why.
    """

    host: Host
    compilers_known: bool = True
    toolkits: tuple[ToolkitFacts, ...] | None = None
    other_compilers: tuple[Compiler, ...] = ()
    driver: str | None = None
    gpus: tuple[DetectedGpu, ...] | None = None
    libraries: Mapping[str, Installed] = field(default_factory=dict)
    tools: Mapping[str, Installed] = field(default_factory=dict)
    python_headers: bool | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    build_folder: str = ""
    free_disk_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    online: bool | None = None
    visual_studio: VisualStudio | None = None
    long_paths: bool | None = None
    obstacles: Mapping[str, str] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)


def version_of(program: str | None) -> str:
    """What is asked of a program, as :attr:`HostFacts.unanswered` names it."""
    return f"the version of {program}"
