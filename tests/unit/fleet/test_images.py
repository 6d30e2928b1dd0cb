"""The table of images: its form, and that it agrees with torchwheel's other tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipped_data import PACKAGE, violations
from torchwheel.fleet.planners import find_images
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.versions import at_least, parse_numbers

FILE = PACKAGE / "fleet" / "images.toml"
DATA = read_toml(FILE)


def test_the_table_has_its_form() -> None:
    assert violations(FILE, Path(__file__).with_name("images.schema.json")) == []


@pytest.mark.parametrize("row", DATA["cuda"]["images"], ids=lambda row: row["version"])
def test_an_image_has_a_compiler_and_a_c_library_that_its_cuda_takes(row: dict[str, object]) -> None:
    release = read_toolkits().release(str(row["version"]))
    assert release is not None
    assert str(row["tag"]).startswith(f"{row['version']}.")
    for image in find_images(release.version):
        assert release.gcc_max is not None and parse_numbers(image.gcc)[0] <= release.gcc_max, image
        assert at_least(image.glibc, release.glibc_min)
        assert release.glibc_conflict in (None, "") or not at_least(image.glibc, release.glibc_conflict)
