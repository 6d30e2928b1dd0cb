"""Whatever stands in a pyproject.toml or after -C: settings, or an error that names the place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.extension.options import read_extension_tables
from torchwheel.host.machine import described_host
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings import load_settings
from torchwheel.settings.known_keys import TABLE_HEADER, all_keys
from torchwheel.settings.project import read_project
from torchwheel.settings.schema import tool_schema

HOST = described_host("win_amd64", python_version="3.12.1")

NAMES = st.sampled_from(
    [*all_keys(), *TABLE_HEADER, "when", "default-target", "extension", "adopted", "X", "jbos"]
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-2, 9),
    st.floats(0, 2),
    st.sampled_from(
        ["x", "8", "12.9", ">=12.8", "Debug", "auto", "nccl", "USE_X", "rtx5070", "cpu", "a;b 'ü\""]
    ),
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, JUNK, max_size=5))
def test_any_table_is_read_or_refused(table: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        document = tomlkit.dumps({"tool": {"torchwheel": table}})
        (Path(folder) / "pyproject.toml").write_text(document, encoding="utf-8")
        try:
            load_settings(Path(folder), None, {}, HOST, Path(folder))
            if "extension" in table:
                read_extension_tables(read_project(Path(folder)))
        except TorchwheelError as error:
            assert all(problem.what and problem.remedy and problem.origin for problem in error.problems)
        else:
            jsonschema.validate(table, tool_schema(), jsonschema.Draft7Validator)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.one_of(NAMES, st.text(max_size=8), NAMES.map(lambda name: f"{name}.USE_X")),
        st.one_of(st.text(max_size=8), st.booleans(), st.lists(st.text(max_size=4), max_size=3)),
        max_size=5,
    )
)
def test_any_config_settings_are_read_or_refused(config: dict[str, Any]) -> None:
    try:
        load_settings(None, config, {}, HOST, Path("/nowhere"))
    except TorchwheelError as error:
        assert all(problem.what and problem.remedy and problem.origin for problem in error.problems)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from(
                ["CMAKE_ARGS", "MAX_JOBS", "TORCH_CUDA_ARCH_LIST", "PYTORCH_BUILD_VERSION", "USE_ X"]
            ),
            st.from_regex(r"(USE|BUILD|CMAKE|TORCHWHEEL)_[A-Z_]{0,6}", fullmatch=True),
        ),
        st.text(max_size=12),
        max_size=5,
    )
)
def test_any_environment_is_read_or_refused(environment: dict[str, str]) -> None:
    try:
        load_settings(None, None, environment, HOST, Path("/nowhere"))
    except TorchwheelError as error:
        assert all(problem.what and problem.remedy and problem.origin for problem in error.problems)
