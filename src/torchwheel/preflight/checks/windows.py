"""What only Windows needs: Visual Studio, and the environment of its x64 developer prompt."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.formatting import compiler_text
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine

_DOWNLOAD = "https://visualstudio.microsoft.com/visual-cpp-build-tools/"


@checks_machine("no-visual-studio")
def there_is_one(scene: Scene) -> Answer:
    """Either cl.exe is on PATH already, or an installation can be found."""
    studio, compiler = scene.host.visual_studio, scene.host.host.compiler("cxx")
    if scene.host.host.system != "Windows" or (studio is None and compiler is None):
        return None
    if compiler is not None and compiler.found:
        return Fine({"found": compiler_text(compiler)})
    if studio is not None and studio.path:
        return Fine({"found": f"Visual Studio {studio.version} ({studio.path})"})
    return Broken({}, _DOWNLOAD)


@checks_machine("no-developer-environment")
def x64_environment(scene: Scene) -> Answer:
    """vcvars64.bat says what it set up in VSCMD_ARG_TGT_ARCH."""
    studio = scene.host.visual_studio
    if scene.host.host.system != "Windows" or (studio is not None and not studio.path):
        return None
    target = scene.environment.get("VSCMD_ARG_TGT_ARCH", "").lower()
    wanted = "arm64" if scene.host.host.machine == "ARM64" else "x64"
    if target == wanted:
        return Fine()
    found = f"VSCMD_ARG_TGT_ARCH is {target}" if target else "VSCMD_ARG_TGT_ARCH is not set"
    folder = studio.path if studio else r"C:\Program Files\Microsoft Visual Studio\2022\BuildTools"
    return Broken({"found": found}, rf'"{folder}\VC\Auxiliary\Build\vcvars64.bat"')
