"""The data file of machine code that PyTorch adds by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.wheel.extras import Extra, extras, is_documented_extra, load_extras


def test_the_shipped_file() -> None:
    assert [(extra.planned.dotted, extra.found.dotted) for extra in extras()] == [("8.6", "8.9")]
    assert all(extra.source for extra in extras())


@pytest.mark.parametrize(
    ("found", "planned", "documented"),
    [
        ("8.9", ["8.6"], True),
        ("8.9", ["8.0", "8.6"], True),
        ("8.9", ["8.0"], False),
        ("8.6", ["8.9"], False),
        ("9.0a", ["9.0"], True),
        ("10.3f", ["10.0"], True),
        ("12.1a", ["12.0"], True),
        ("12.0a", ["9.0"], False),
        ("12.1", ["12.0"], False),
    ],
)
def test_is_documented_extra(found: str, planned: list[str], documented: bool) -> None:
    architectures = [Architecture.from_dotted(text) for text in [found, *planned]]
    code, *wanted = [architecture for architecture in architectures if architecture is not None]
    assert is_documented_extra(code, wanted) is documented


def test_a_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "extras.toml"
    path.write_text(
        '[[extra]]\nplanned = "8.0"\nfound = "8.7"\nsource = "file x"\n'
        '[[extra]]\nplanned = "eight"\nfound = "8.7"\nsource = "file x"\n'
        '[[extra]]\nplanned = "8.0"\nfound = "8.7"\n',
        encoding="utf-8",
    )
    with pytest.raises(TorchwheelError) as caught:
        load_extras(path)
    remedy = 'give it `planned` and `found` as in "8.6", and a `source`, and nothing else'
    assert caught.value.problems == tuple(
        Problem(id="malformed-data-file", what=what, remedy=remedy, origin=str(path))
        for what in (
            "entry 2 of [[extra]] is {'planned': 'eight', 'found': '8.7', 'source': 'file x'}",
            "entry 3 of [[extra]] is {'planned': '8.0', 'found': '8.7'}",
        )
    )
    path.write_text('[[extra]]\nplanned = "8.0"\nfound = "8.7"\nsource = "file x"\n', encoding="utf-8")
    assert load_extras(path) == (Extra(Architecture(8, 0), Architecture(8, 7), "file x"),)
