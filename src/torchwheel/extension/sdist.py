"""What an sdist of a project with extensions says of itself: the version of the wheel that is made of it.

Front ends refuse a wheel whose version is not its sdist's. So where a target is named, an sdist has the wheel's label
and remembers what that came from; where none is, it has no label, and no more has a wheel that is made of it.
"""

from __future__ import annotations

from collections.abc import Callable

from torchwheel.errors import TorchwheelError
from torchwheel.extension.model import ExtensionProject
from torchwheel.extension.record import WheelRecord
from torchwheel.settings import Settings
from torchwheel.settings.sdist_record import SDIST_FILE, SdistRecord, remembered
from torchwheel.terminal import say
from torchwheel.tree.read import SOURCE_FACTS_FILE, read_source, source_facts_json


def is_labelled(settings: Settings) -> bool:
    """Whether it takes a plan of the wheel to name the sdist: a target is named, and no label in place of the usual."""
    return settings.local_version is None and (bool(settings.target_names) or settings.arch is not None)


def record_if_torch(make: Callable[[], WheelRecord | None]) -> WheelRecord | None:
    """What the wheel is planned to be; None without PyTorch, which is said: an sdist needs none.

    Raises:
        TorchwheelError: nothing can be planned.
    """
    try:
        return make()
    except TorchwheelError as error:
        if any(problem.id != "torch-not-installed" for problem in error.problems):
            raise
        say("there is no PyTorch here, so neither the sdist nor a wheel made of it has a label")
        return None


def sdist_label(settings: Settings, record: WheelRecord | None) -> str:
    """The local version label of an sdist; empty for none."""
    return record.local_version if record else settings.local_version or ""


def sdist_files(
    project: ExtensionProject, version: str, label: str, record: WheelRecord | None
) -> dict[str, bytes]:
    """What torchwheel puts at the top of an sdist of this version: name -> content."""
    settings = remembered(project.settings.entries.values(), record.cuda if record else None)
    if not label:
        settings["local-version"] = ""
    return {
        SDIST_FILE: SdistRecord(version, settings, label).to_json(),
        SOURCE_FACTS_FILE: source_facts_json(read_source(project.folder)[0], ""),
    }
