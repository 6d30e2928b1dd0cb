"""From the wheel that the inner backend made to the one that is handed over."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from torchwheel.engine.replacing import replace_file
from torchwheel.errors import TorchwheelError
from torchwheel.extension.hooks.project import Asked
from torchwheel.extension.model import ExtensionPlan
from torchwheel.extension.proving.expectation import expected_wheel
from torchwheel.extension.proving.naming import python_tags
from torchwheel.extension.proving.proof import verify_extension_wheel
from torchwheel.extension.proving.provenance import extension_provenance
from torchwheel.host.model import Host
from torchwheel.tree.git import head_commit
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.manifest import MANIFEST_NAME, Manifest, manifest_bytes
from torchwheel.wheel.metadata_text import parse_metadata_text
from torchwheel.wheel.relabel import Relabelling, relabel_metadata, relabel_wheel
from torchwheel.wheel.timestamps import source_date


def finish_wheel(
    plan: ExtensionPlan,
    asked: Asked,
    host: Host,
    built: Path,
    wheel_directory: Path,
    metadata_directory: Path | None,
    *,
    editable: bool,
) -> str:
    """Label a wheel, add the build manifest, prove it against the plan, and place it under its final name.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the wheel is not what was planned, or cannot be written. Nothing is handed over then.
    """

    contents = inspect_wheel(built)
    relabelling = relabelling_of(plan, contents.version, contents.tags)
    manifest = Manifest(_provenance(plan, asked, host), contents, source_date(asked.environment))
    members = {MANIFEST_NAME: manifest_bytes(manifest)}
    labelled = built.parent / "labelled"
    labelled.mkdir(exist_ok=True)
    finished = relabel_wheel(built, labelled, relabelling, members, environment=asked.environment)
    expected = expected_wheel(
        plan,
        name=contents.name,
        version=relabelling.version or contents.version,
        interpreter_tag=host.python.interpreter_tag,
        abi_tag=host.python.abi_tag,
        platform_tag=None,
        prepared_metadata=_prepared(metadata_directory),
        editable=editable,
    )
    problems = verify_extension_wheel(finished, expected)
    stopping = [problem for problem in problems if problem.id not in plan.settings.skip_check]
    if stopping:
        raise TorchwheelError(stopping)
    return place(finished, wheel_directory)


def finish_metadata(plan: ExtensionPlan, folder: Path) -> str:
    """Make a prepared ``*.dist-info`` say what the wheel is going to say.

    Returns:
        The folder's new name.
    """

    wheel = parse_metadata_text((folder / "WHEEL").read_bytes())
    version = folder.name.removesuffix(".dist-info").rpartition("-")[2]
    return relabel_metadata(folder, relabelling_of(plan, version, tuple(wheel.values("Tag"))))


def relabelling_of(plan: ExtensionPlan, version: str, tags: tuple[str, ...]) -> Relabelling:
    """What a plan makes of a wheel's version, requirements and tags.

    Args:
        plan: the plan.
        version: the wheel's version; a local label of its own comes before the plan's.
        tags: the wheel's tags.
    """
    return Relabelling(
        version=labelled_version(version, plan.settings.version, plan.local_version),
        requires=plan.requires,
        tag=_tag(plan, tags),
    )


def labelled_version(version: str, requested: str | None, label: str) -> str:
    """A version with a label: ``1.2+own`` and ``cu130.sm120`` make ``1.2+own.cu130.sm120``.

    Args:
        version: the project's own version.
        requested: another version in its place; None for none.
        label: the local version label; empty for none.
    """

    own = Version(version)
    base = requested or own.public
    local = ".".join(part for part in (own.local or "", label) if part)
    return str(Version(f"{base}+{local}" if local else base))


def place(wheel: Path, folder: Path) -> str:
    """Move a finished wheel to where it is wanted; it appears there only when complete.

    Returns:
        Its file name.
    """
    replace_file(folder / wheel.name, wheel)
    return wheel.name


def _tag(plan: ExtensionPlan, tags: tuple[str, ...]) -> str | None:
    """The wheel's tag, where all modules use Python's limited API; None to keep the ones that it has."""
    if not plan.extensions or not all(planned.extension.limited_api for planned in plan.extensions):
        return None

    python_tag, abi_tag = python_tags("", "", limited_api=True)
    platforms = ".".join(dict.fromkeys(tag.rpartition("-")[2] for tag in tags))
    return f"{python_tag}-{abi_tag}-{platforms}"


def _provenance(plan: ExtensionPlan, asked: Asked, host: Host) -> dict[str, object]:
    cxx = host.compiler("cxx")
    toolchain = {
        "python": host.python.version,
        "cxx_compiler": f"{cxx.kind} {cxx.version}".strip() if cxx else None,
        "cuda": plan.toolkit.full_version if plan.toolkit else None,
    }
    return extension_provenance(plan, toolchain=toolchain, commit=head_commit(asked.project))


def _prepared(metadata_directory: Path | None) -> bytes | None:
    """METADATA of a prepared folder: frontends name the ``*.dist-info`` or the folder that holds it."""
    if metadata_directory is None:
        return None
    file = metadata_directory / "METADATA"
    return file.read_bytes() if file.is_file() else None
