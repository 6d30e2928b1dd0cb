"""The catalogue's entries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shipped_data import violations
from torchwheel import preflight
from torchwheel.diagnosis import scanner
from torchwheel.diagnosis.failures import Phase, read_catalogue
from torchwheel.diagnosis.grammar import catalogue_forms, read_causes
from torchwheel.diagnosis.grammar import form_needles as grammar_needles
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.reporting.masking import mask
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import Where, keys_for
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.versions import at_least

FILES = sorted(Path(scanner.__file__).with_name("catalogue").glob("*.toml"))


def test_the_shipped_catalogue_is_large_and_covers_every_phase_of_a_build() -> None:
    entries = list(read_catalogue())
    assert len(entries) >= 60
    used = {entry.phase for entry in entries}
    assert used == set(Phase) - {Phase.PACKAGE, Phase.BUILD}


def test_few_needles_keep_the_search_fast() -> None:
    needles = {form.needle for form in catalogue_forms()}
    assert len(needles) <= 118
    assert len(needles | set(grammar_needles())) <= 302


@pytest.mark.parametrize("glibc", ["2.41", "2.42"])
def test_the_cuda_for_a_newer_glibc_is_the_one_that_doctor_names(glibc: str) -> None:
    able = (
        release.version
        for release in read_toolkits()
        if release.glibc_conflict is None or not at_least(glibc, release.glibc_conflict)
    )
    entry = next(entry for entry in read_catalogue() if entry.id == "glibc-math-conflict")
    assert f"for glibc {glibc} CUDA {next(able)} or later" in entry.change[-1]


def test_the_gcc_that_crashes_is_the_one_that_doctor_knows() -> None:
    entry = next(entry for entry in read_catalogue() if entry.id == "gcc-internal-error")
    traps = read_toml(Path(preflight.__file__).with_name("traps.toml"))["compiler"]
    crashes = [trap for trap in traps if trap["kind"] == "gcc" and "internal error" in trap["why"]]
    assert {trap["source"] for trap in crashes} <= set(entry.links)
    assert crashes


def test_no_word_of_an_answer_is_masked() -> None:
    texts = [text for entry in read_causes().values() for text in (entry.title, entry.means, *entry.change)]
    assert [mask(text) for text in texts] == texts


def test_settings_named_in_the_advice_exist() -> None:
    named = {
        (entry.id, key)
        for entry in read_catalogue()
        for text in (*entry.change, entry.means)
        for key in re.findall(r"-C ([\w.-]+)(?==|`)", text)
    }
    assert {(id, key) for id, key in named if key.partition(".")[0] not in keys_for(Where.COMMAND)} == set()


def test_components_and_targets_named_in_the_advice_exist() -> None:
    advice = " ".join(text for entry in read_catalogue() for text in (*entry.change, entry.means))
    named = {name for names in re.findall(r"-C disable=([\w,-]+)", advice) for name in names.split(",")}
    assert "flash-attention" in named
    assert {name for name in named if read_components().find(name) is None} == set()
    targets = set(re.findall(r"-C target=(\w+)", advice)) - {"cpu", "native"}
    assert targets == {"gb10"}
    assert {name for name in targets if read_gpus().find(name) is None} == set()


def test_links_point_to_one_thread_or_page() -> None:
    for entry in read_catalogue():
        for link in entry.links:
            if link.startswith("https://github.com/"):
                assert re.fullmatch(
                    r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+"
                    r"|https://github\.com/pytorch/pytorch/blob/(?:v\d+\.\d+\.\d+|main)/\S+",
                    link,
                ), (entry.id, link)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_has_the_form_of_its_schema(path: Path) -> None:
    assert violations(path, Path(__file__).with_name("catalogue.schema.json")) == []


def test_an_id_occurs_once() -> None:
    ids = [entry.id for entry in read_catalogue()]
    assert [id for id in ids if ids.count(id) > 1] == []


def test_the_entries_are_those_of_the_files_in_their_order() -> None:
    written = [table["id"] for path in FILES for table in read_toml(path)["entry"]]
    assert [entry.id for entry in read_catalogue()] == written


# A repeated group that itself ends in a repetition, such as (a+)+: the shape behind exponential time.
NESTED_QUANTIFIER = re.compile(r"(?<!\\)[*+}]\)[*+{]")
UNBOUNDED = re.compile(r"(?<!\\)(?:\.|\[[^\]]+\])[*+]")
MOST_UNBOUNDED = 4


def faults(regex: str) -> list[str]:
    """What makes a regular expression unfit for logs of any size."""
    return [
        *(["matches the empty string"] if re.search(regex, "") else []),
        *(["repeats a group that ends in a repetition"] if NESTED_QUANTIFIER.search(regex) else []),
        *(["has many unbounded repetitions"] if len(UNBOUNDED.findall(regex)) > MOST_UNBOUNDED else []),
    ]


def test_no_pattern_can_take_exponential_time_or_matches_everything() -> None:
    found = {
        (form.id, regex.pattern): faults(regex.pattern)
        for form in catalogue_forms()
        for regex in (form.regex, *form.context, *form.details)
    }
    assert {place: what for place, what in found.items() if what} == {}


@pytest.mark.parametrize("regex", ["(it broke)?", "(a+)+b", "a.*b.*c.*d.*e.*f"])
def test_such_patterns_are_found(regex: str) -> None:
    assert len(faults(regex)) == 1
