"""No command prints a secret that a setting holds, whether the setting is right or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.builds import make_tree
from cli.running import Run
from torchwheel.reporting import masking
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings.known_keys import Where, all_keys, keys_for

SECRET = "hunter2-opensesame"
VALUES = (f"https://bob:{SECRET}@host/simple?token={SECRET}", f"X_TOKEN={SECRET} --password={SECRET}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree("scikit-build-core", tmp_path_factory.mktemp("secrets") / "tree")


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", {})


@pytest.mark.parametrize("key", list(keys_for(Where.COMMAND)))
@pytest.mark.parametrize("way", ["-C", "variable", "project"])
def test_no_setting_is_printed_with_a_secret(
    key: str, way: str, tree: Path, here: Path, torchwheel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ".MY_SECRET" if all_keys()[key].table else ""
    for value in VALUES:
        project, words = tree, []
        if way == "-C":
            words = ["-C", f"{key}{entry}={value}"]
        elif way == "variable":
            monkeypatch.setenv(all_keys()[key].variable, f"MY_SECRET={value}" if entry else value)
        else:
            project = here
            text = f"[tool.torchwheel]\nsource = '{tree}'\n{key}{entry} = '{value}'\n"
            (here / "pyproject.toml").write_text(text, encoding="utf-8")
        for form in (["--explain"], ["--json"]):
            try:
                done = torchwheel("plan", project, *words, *form, "--platform", "manylinux_2_28_x86_64")
                said = done.out + done.err
            except TorchwheelError as error:
                # A value of "traceback" that is none asks for one.
                said = str(error)
            assert said.strip()
            assert SECRET not in said


def test_a_traceback_has_no_secret(tree: Path, here: Path, torchwheel: Run) -> None:
    with pytest.raises(Exception) as caught:
        torchwheel("plan", tree, "-C", f"jobs=https://bob:{SECRET}@host", "-C", "traceback=true")
    assert SECRET not in str(caught.value)
