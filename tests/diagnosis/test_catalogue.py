"""The catalogue's entries, and what is said of malformed ones."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from torchwheel.diagnosis import Phase, catalogue, load_catalogue
from torchwheel.diagnosis.error_lines import error_forms
from torchwheel.errors import TorchwheelError
from torchwheel.hardware.catalogue import gpus
from torchwheel.settings.components import components

SETTINGS = re.compile(
    r"arch|build-dir|build-type|cuda|cuda-path|define\.\w+|disable|enable|env\.\w+|jobs|profile|target|version"
)

ENTRY = """
[[entry]]
id = "broken"
title = "it broke"
phase = "compile"
rank = 3
patterns = [{ needle = "broke", regex = "it broke" }]
means = "It broke."
change = ["mend it"]
links = ["https://example.org/1"]
"""


def problems_of(folder: Path, text: str) -> list[str]:
    (folder / "one.toml").write_text(text, encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        load_catalogue(folder)
    assert {problem.id for problem in caught.value.problems} == {"malformed-diagnosis"}
    assert {problem.origin for problem in caught.value.problems} == {str(folder / "one.toml")}
    return [problem.what for problem in caught.value.problems]


def test_the_shipped_catalogue_is_large_and_covers_every_phase_of_a_build() -> None:
    entries = list(catalogue())
    assert len(entries) >= 60
    used = {entry.phase for entry in entries}
    assert used == set(Phase) - {Phase.PACKAGE}


def test_few_needles_keep_the_search_fast() -> None:
    needles = {pattern.needle for entry in catalogue() for pattern in entry.patterns} | set(error_forms())
    assert len(needles) <= 80


def test_settings_named_in_the_advice_exist() -> None:
    named = {
        (entry.id, key)
        for entry in catalogue()
        for text in (*entry.change, entry.means)
        for key in re.findall(r"-C ([\w.-]+)(?==|`)", text)
    }
    assert {(id, key) for id, key in named if not SETTINGS.fullmatch(key)} == set()


def test_components_and_targets_named_in_the_advice_exist() -> None:
    advice = " ".join(text for entry in catalogue() for text in (*entry.change, entry.means))
    named = {name for names in re.findall(r"-C disable=([\w,-]+)", advice) for name in names.split(",")}
    assert "flash-attention" in named
    assert {name for name in named if components().find(name) is None} == set()
    targets = set(re.findall(r"-C target=(\w+)", advice)) - {"cpu", "native"}
    assert targets == {"gb10", "gtx1080", "rtx5070"}
    assert {name for name in targets if gpus().find(name) is None} == set()


def test_links_point_to_one_thread_or_page() -> None:
    for entry in catalogue():
        for link in entry.links:
            if link.startswith("https://github.com/"):
                assert re.fullmatch(
                    r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+"
                    r"|https://github\.com/pytorch/pytorch/blob/(?:v\d+\.\d+\.\d+|main)/\S+",
                    link,
                ), (entry.id, link)


NASTY = [
    "undefined reference to `" * 80,
    "nvcc fatal   : " * 130,
    'unresolved external symbol "' + "c10d:" * 380,
    "CreateProcess: " + "a" * 1980,
    "error: " + "third_party/XNNPACK" * 100,
    " " * 2000,
    "'" * 2000,
    "FAILED: " + "/flash_" * 280,
    "CalledProcessError: " + "'clone'" * 280,
]


def test_no_pattern_takes_long_on_hostile_lines() -> None:
    regexes = {
        regex
        for entry in catalogue()
        for regex in (*(pattern.regex for pattern in entry.patterns), *entry.context, *entry.details)
    } | {regex for regexes in error_forms().values() for regex in regexes}
    for regex in regexes:
        for line in NASTY:
            start = time.process_time()
            regex.search(line)
            assert time.process_time() - start < 0.25, regex.pattern


def test_find_and_nearest() -> None:
    entry = catalogue().find("no-kernel-image")
    assert entry is not None
    assert entry.phase is Phase.RUNTIME
    assert catalogue().find("no-kernel-images") is None
    assert catalogue().nearest("no-kernel-images") == "no-kernel-image"
    assert catalogue().nearest("xyzzy") is None


def test_a_file_of_one_entry_loads(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(ENTRY, encoding="utf-8")
    (entry,) = load_catalogue(tmp_path)
    assert (entry.id, entry.rank, entry.context, dict(entry.applies)) == ("broken", 3, (), {})
    assert entry.links == ("https://example.org/1",)


def test_an_id_may_occur_once(tmp_path: Path) -> None:
    assert problems_of(tmp_path, ENTRY + ENTRY) == [
        f"the id 'broken' occurs twice; it is also in {tmp_path / 'one.toml'}"
    ]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = ENTRY.replace('"broken"', '"Broken Thing"').replace("https://", "http://") + ENTRY.replace(
        'it broke" }]', '(" }]'
    )
    assert problems_of(tmp_path, text) == [
        "entry Broken Thing: the id is not in kebab case",
        "entry Broken Thing: the link 'http://example.org/1' is no https address",
        "entry broken: the pattern '(': is not a regular expression: "
        "missing ), unterminated subpattern at position 0",
    ]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("rank = 3", "rank = 4", "entry broken: 'rank' has the wrong form"),
        ("rank = 3", "rank = true", "entry broken: 'rank' has the wrong form"),
        ('phase = "compile"', 'phase = "cook"', "entry broken: 'phase' has the wrong form"),
        ('means = "It broke."\n', "", "entry broken: the key 'means' is missing"),
        ("means =", "meaning = 1\nmeans =", "entry broken: the key 'meaning' is unknown"),
        ('links = ["https://example.org/1"]', "links = []", "entry broken: 'links' has the wrong form"),
        ('needle = "broke", ', "", "entry broken: 'patterns' has the wrong form"),
        (
            'needle = "broke"',
            'needle = "bro"',
            "entry broken: the pattern 'it broke': the needle 'bro' is shorter than 4 characters",
        ),
        (
            'needle = "broke"',
            'needle = "brökö"',
            "entry broken: the pattern 'it broke': the needle 'brökö' holds other characters than ASCII",
        ),
        (
            '"it broke" }',
            '"(it broke)?" }',
            "entry broken: the pattern '(it broke)?': matches the empty string",
        ),
        (
            '"it broke" }',
            '"(a+)+b" }',
            "entry broken: the pattern '(a+)+b': repeats a group that ends in a repetition, "
            "which can take exponential time",
        ),
        (
            '"it broke" }',
            '"a.*b.*c.*d.*e.*f" }',
            "entry broken: the pattern 'a.*b.*c.*d.*e.*f': has more than 4 unbounded repetitions; "
            "write .{0,200} for .*",
        ),
        (
            'title = "it broke"',
            'title = "{part} broke"',
            "entry broken: the messages use {part}, which not every pattern captures",
        ),
        (
            "links =",
            'applies = { pytorch = "new" }\nlinks =',
            "entry broken: applies.pytorch = 'new' is no limit",
        ),
        (
            "links =",
            'applies = { platform = "amiga" }\nlinks =',
            "entry broken: applies.platform = 'amiga' is no limit",
        ),
        ("[[entry]]", "[entry]", "the file has no [[entry]] tables"),
    ],
)
def test_malformed_entries(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert ENTRY.count(old) == 1
    assert problems_of(tmp_path, ENTRY.replace(old, new)) == [what]


def test_a_capture_may_have_a_text_for_its_absence(tmp_path: Path) -> None:
    text = (
        ENTRY.replace('"it broke"\nphase', '"{part} broke"\nphase') + 'otherwise = { part = "something" }\n'
    )
    (tmp_path / "one.toml").write_text(text, encoding="utf-8")
    (entry,) = load_catalogue(tmp_path)
    assert dict(entry.otherwise) == {"part": "something"}
