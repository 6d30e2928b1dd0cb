"""Wheel variants of a site, chosen by the real uv for GPUs that are described to it."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from fleet.sites import SiteRecipe
from torchwheel.fleet.site import Choices, update_site
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.variant import properties_of
from wheel_samples import agrees_with_record, compressed


def test_a_variant_is_the_wheel_with_another_name(tmp_path: Path) -> None:
    sbom = "torch-2.14.1+cu130.sm120.dist-info/sboms/torchwheel.cdx.json"
    component = {"name": "torch", "version": "2.14.1+cu130.sm120", "purl": "x"}
    text = json.dumps({"metadata": {"component": component}, "serialNumber": "urn:uuid:0"})
    plain = SiteRecipe(more={sbom: text.encode()}).write(tmp_path / "dist")
    update_site(tmp_path / "site", [plain], {}, Choices(variants=True))
    folder = tmp_path / "site/simple/torch"
    made = folder / "torch-2.14.1-py3-none-linux_x86_64-cu130.sm120.whl"
    properties = {"nvidia": {"sm_arch": ["120_real"], "cuda_version_lower_bound": ["13.0"]}}
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {
            "nvidia": {
                "requires": ["nvidia-variant-provider"],
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
            }
        },
        "variants": {"cu130.sm120": properties},
    }
    assert json.loads((folder / "torch-2.14.1-variants.json").read_bytes()) == document
    members, own = compressed(made), compressed(plain)
    libraries = [name for name in own if not name.startswith("torch-")]
    assert {name: members[name][0] for name in libraries} == {name: own[name][0] for name in libraries}
    renamed = tmp_path / "torch-2.14.1-py3-none-linux_x86_64.whl"
    shutil.copyfile(made, renamed)
    assert agrees_with_record(renamed)
    contents = inspect_wheel(made)
    assert (
        contents.metadata.single("Version"),
        contents.torch_version and contents.torch_version.version,
    ) == ("2.14.1", "2.14.1+cu130.sm120")
    with zipfile.ZipFile(made) as archive:
        assert json.loads(archive.read("torch-2.14.1.dist-info/variant.json")) == document
        stated = json.loads(archive.read("torch-2.14.1.dist-info/sboms/torchwheel.cdx.json"))
    component = stated["metadata"]["component"]
    assert (component["version"], component["purl"]) == ("2.14.1", "pkg:pypi/torch@2.14.1")
    assert stated["serialNumber"] not in ("", "urn:uuid:0")


@pytest.mark.parametrize(
    ("code", "tag", "values"),
    [
        (["sm120"], "py3-none-linux_x86_64", ("120_real",)),
        (["sm80", "sm90", "ptx90"], "py3-none-linux_x86_64", ("80_real", "90_real", "90_virtual")),
        (["sm90", "sm90a"], "py3-none-linux_x86_64", ("90_real",)),
        (["sm90a"], "py3-none-linux_x86_64", None),
        (["sm100f"], "py3-none-linux_x86_64", None),
        (["ptx86"], "py3-none-linux_x86_64", None),
        # Orin is 8.7, and runs no code of other GPUs.
        (["sm80"], "cp311-cp311-linux_x86_64", ("80_real",)),
        (["sm80"], "cp311-cp311-linux_aarch64", None),
        (["sm90"], "cp311-cp311-linux_aarch64", ("90_real",)),
    ],
)
def test_what_can_be_said(code: list[str], tag: str, values: tuple[str, ...] | None, tmp_path: Path) -> None:
    contents = inspect_wheel(SiteRecipe(code=code, tag=tag).write(tmp_path))
    properties, why = properties_of(contents, "13.0")
    assert properties == (
        None if values is None else {"sm_arch": values, "cuda_version_lower_bound": ("13.0",)}
    )
    assert bool(why) is (values is None)


def test_code_that_one_library_lacks_is_not_offered(tmp_path: Path) -> None:
    """A GPU needs all libraries, and the properties name what any of them has."""
    more = {"torch/lib/libmore.so": SiteRecipe(code=["sm90"]).library()}
    recipe = SiteRecipe("2.14.1+cu130.sm80.sm90", code=["sm80"], more=more)
    contents = inspect_wheel(recipe.write(tmp_path))
    properties, why = properties_of(contents, "13.0")
    assert properties is None and "8.0" in why and "9.0" in why


def offered(folder: Path, *recipes: SiteRecipe) -> dict[str, str]:
    """The variants of a site by label, and of the others why not."""
    done = update_site(
        folder / "site", [one.write(folder / "dist") for one in recipes], {}, Choices(variants=True)
    )
    return {wheel.label: wheel.no_variant for wheel in done.wheels}


def test_one_build_for_each_torch(tmp_path: Path) -> None:
    def kernels(torch: str, code: str = "sm120") -> SiteRecipe:
        return SiteRecipe(f"1.2+cu130.{code}.torch{torch}", name="my_ops", code=[code])

    found = offered(tmp_path, kernels("2.9"), kernels("2.14"), kernels("2.9", "sm90"))
    newest = "my_ops-1.2+cu130.sm120.torch2.14-py3-none-linux_x86_64.whl"
    assert found == {
        "cu130.sm120.torch2.9": f"an installer cannot tell it from {newest}",
        "cu130.sm120.torch2.14": "",
        "cu130.sm90.torch2.9": "",
    }


def test_a_variant_that_is_no_more_the_best_is_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "site/simple/my-ops"
    for torch in ("2.9", "2.14"):
        offered(tmp_path, SiteRecipe(f"1.2+cu130.sm120.torch{torch}", name="my_ops"))
        assert [path.name for path in folder.glob("*.whl")] == [
            f"my_ops-1.2-py3-none-linux_x86_64-cu130.sm120.torch{torch}.whl"
        ]
