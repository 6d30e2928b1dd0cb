"""Kernels that a tree's own script would add after the build."""

from __future__ import annotations

import json
from pathlib import Path

from backend.builds import check, clean_environment, make_tree
from backend.builds import torchwheel as command

ID = "native-aot-kernels-missing"


def native_aot_tree(folder: Path, architectures: str = '("sm_120",)') -> Path:
    tree = make_tree("scikit-build-core", folder)
    tools = tree / "tools" / "native_aot"
    tools.mkdir()
    (tools / "build_stage2.py").touch()
    (tools / "export.py").write_text(f"EXPORTABLE_ARCHES = {architectures}\n", encoding="utf-8")
    return tree


def findings(
    tree: Path, tmp_path: Path, *options: str, target: str = "rtx5070", **variables: str
) -> set[str]:
    environment = clean_environment(tmp_path / "cache", **variables)
    words = command("plan", tree, "--target", target, "--json", *options)
    document = json.loads(check(*words, cwd=tmp_path, env=environment))
    return {finding["id"] for finding in document["findings"]}


def test_what_the_tree_exports_for_decides(tmp_path: Path) -> None:
    tree = native_aot_tree(tmp_path / "tree", '("sm_90", "sm_100a")')
    assert ID in findings(tree, tmp_path, target="h100")
    assert ID not in findings(tree, tmp_path, target="rtx5070")
    assert ID not in findings(tree, tmp_path, target="cpu")
    (tree / "tools/native_aot/export.py").write_text("# computed elsewhere\n", encoding="utf-8")
    assert ID in findings(tree, tmp_path, target="rtx5070")
    assert ID not in findings(tree, tmp_path, target="h100")


def test_the_trees_own_switch_silences_it(tmp_path: Path) -> None:
    tree = native_aot_tree(tmp_path / "tree")
    assert ID not in findings(tree, tmp_path, TORCH_NATIVE_AOT="0")
    assert ID not in findings(tree, tmp_path, "-C", "env.NATIVE_AOT=0")
    assert ID in findings(tree, tmp_path, NATIVE_AOT="1")
