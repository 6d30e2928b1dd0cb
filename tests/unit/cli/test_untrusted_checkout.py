"""``plan`` and ``doctor`` run no program that a checkout's own git configuration names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.running import Run
from places import HOSTS
from put import put
from tree.small_trees import SCIKIT_BUILD_CORE_PYPROJECT, commit_all, git, write_tree

# Every key whose value git runs: git-config(1), gitattributes(5), githooks(5). "evil=x.y" is a name of the checkout's.
KEYS = """
alias.status alias.ls-files browser.NAME.cmd core.alternateRefsCommand core.askPass core.editor core.fsmonitor
core.gitProxy core.pager core.sshCommand credential.helper diff.NAME.command diff.NAME.textconv diff.external
difftool.NAME.cmd filter.NAME.clean filter.NAME.process filter.NAME.smudge gpg.program gpg.openpgp.program
gpg.ssh.defaultKeyCommand gpg.ssh.program guitool.NAME.cmd hook.NAME.command imap.tunnel instaweb.httpd
interactive.diffFilter man.NAME.cmd merge.NAME.driver mergetool.NAME.cmd pager.ls-files pager.status
remote.origin.receivepack remote.origin.uploadpack sendemail.ccCmd sendemail.smtpServer sendemail.toCmd
sequence.editor submodule.NAME.update tar.NAME.command trailer.NAME.cmd trailer.NAME.command
uploadpack.packObjectsHook web.browser
"""
NAMES = ("evil", "evil=x.y", "evil.clean=")


@pytest.fixture(params=["by ssh", "by a helper"])
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A partial clone that lacks an object, with everything that can name a program."""
    tree = write_tree(tmp_path / "tree", SCIKIT_BUILD_CORE_PYPROJECT)
    attributes = "".join(f"* filter={name} diff={name} merge={name}\n" for name in NAMES)
    (tree / ".gitattributes").write_text(attributes, encoding="utf-8")
    commit_all(tree)
    missing = git(tree, "rev-parse", "HEAD^{tree}")
    (tree / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    (tree / "version.txt").write_text("2.14.1\n", encoding="utf-8")
    ran = tmp_path / "ran"
    program = put(tmp_path / "program", f"#!/bin/sh\necho run >> '{ran}'\nexit 1\n", 0o755)
    hooks = tree / ".git" / "evil-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
        shutil.copy(program, hooks / name)
    # In an included file, which is the checkout's own as well.
    config = tree / ".git" / "included"
    fixed = {
        "core.repositoryFormatVersion": "1",
        "core.hooksPath": str(hooks),
        "extensions.partialClone": "origin",
        "hook.evil.event": "post-index-change",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://host.invalid/x",
    }
    if request.param == "by a helper":
        fixed["remote.origin.vcs"] = str(program)
    named = [(key.replace("NAME", name), f"'{program}'") for key in KEYS.split() for name in NAMES]
    for key, value in (*fixed.items(), *named):
        subprocess.run(["git", "config", "--file", config, key, value], check=True)
    with (tree / ".git" / "config").open("a", encoding="utf-8") as own:
        own.write(f"[include]\n\tpath = {config.as_posix()}\n[extensions]\n\tpartialClone = origin\n")
        own.write("[core]\n\trepositoryFormatVersion = 1\n")
    return tree


@pytest.mark.skipif(os.name == "nt", reason="its program is a shell script")
@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_no_program_that_a_checkout_names_is_run(
    command: str, tree: Path, tmp_path: Path, torchwheel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, ran = tmp_path / "trace", tmp_path / "ran"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    result = torchwheel(command, tree, "--target", "cpu", "--host", HOSTS / "dgx-spark.toml", "--json")
    assert result.status in (0, 2), result.err
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    children = [event["argv"] for event in events if event["event"] == "child_start"]
    assert [child for child in children if child[0] != "git"] == []
    assert not ran.exists()
    # The checkout was read at all.
    assert {"start", "exit"} <= {event["event"] for event in events}
    # Each of them works: git itself runs the filter.
    subprocess.run(["git", "status"], cwd=tree, check=False, capture_output=True)
    assert ran.exists()
