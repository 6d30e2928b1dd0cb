"""What is masked, what is not, and that what was learned is masked wherever it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchwheel.extension.extension_build import config_for_cmake
from torchwheel.pytorch.releases import build_options
from torchwheel.reporting import masking
from torchwheel.reporting.masking import (
    MASK,
    is_secret_name,
    learn_secrets,
    mask,
    mask_document,
    mask_line,
    mask_value,
)
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import all_keys
from torchwheel.settings.pytorch_env import pytorch_variables

SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", {})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"https://bob:{SECRET}@host/simple", "https://***@host/simple"),
        (f"https://{SECRET}@host/simple", "https://***@host/simple"),
        (
            f"git+https://bob:{SECRET}@host/x.git and ssh://git:{SECRET}@h",
            "git+https://***@host/x.git and ssh://***@h",
        ),
        (f"https://bob:{SECRET}@x@host/", "https://***@host/"),
        (f"https://host/x?a=1&token={SECRET}&b=2", "https://host/x?a=1&token=***&b=2"),
        (f"https://host/x?X-Amz-Signature={SECRET}", "https://host/x?X-Amz-Signature=***"),
        (f"https://host/x?sv=1&sig={SECRET}", "https://host/x?sv=1&sig=***"),
        (f"http://host|bearer-token={SECRET}", "http://host|bearer-token=***"),
        (f"HF_TOKEN={SECRET} make", "HF_TOKEN=*** make"),
        (f"HF_TOKEN='two {SECRET}' make", "HF_TOKEN=*** make"),
        (f"-DMY_PASSWORD:STRING={SECRET} -DX=1", "-DMY_PASSWORD:STRING=*** -DX=1"),
        (f"-C env.my_secret={SECRET}", "-C env.my_secret=***"),
        (f"-C cmake.define.API_KEY={SECRET}", "-C cmake.define.API_KEY=***"),
        (f"curl --password={SECRET}", "curl --password=***"),
        (f"Authorization: Bearer {SECRET}", "Authorization: Bearer ***"),
        (f"{{'Authorization': 'x'}} authorization: {SECRET}", "{'Authorization': 'x'} authorization: ***"),
    ],
)
def test_where_secrets_stand(text: str, masked: str) -> None:
    assert mask(text) == masked
    assert mask(masked) == masked
    assert mask_line(text.encode() + b"\xff") == masked.encode() + (b"" if masked.endswith(MASK) else b"\xff")


@pytest.mark.parametrize(
    "text",
    [
        "https://host:8080/simple?a=1",
        "git@github.com:pytorch/pytorch.git",
        "nvidia/cuda:13.0.1-devel@sha256:0123456789abcdef",
        "sorted(rows, key=lambda row: row.name, sort_key=None)",
        "-DUSE_NCCL=ON -DCMAKE_BUILD_TYPE=Release c10::DispatchKey k = key=3",
        "note: candidate: 'Token parse(Key key)' [with Token = int]",
        "KEYBOARD=us MONKEY=1 COMPASS=n TORCH_CUDA_ARCH_LIST=12.0",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text
    line = text.encode() + b"\xff\n"
    assert mask_line(line) is line


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("env.hf_token", True), ("define.X_PASSWORD", True), ("GPG_KEY", True), ("KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True), ("GITHUB_PAT", True), ("SCCACHE_REDIS_ENDPOINT", True),
        ("CCACHE_REMOTE_STORAGE", True), ("SCCACHE_DIRECT", False), ("CCACHE_DIR", False), ("PATH", False),
        ("DATABASE_PWD", True), ("X_JWT", True), ("NPM_AUTH", True), ("SENTRY_DSN", True), ("PWD", False),
        ("OLDPWD", False), ("GIT_AUTHOR_NAME", False), ("SSH_AUTH_SOCK", False), ("USE_FLASH_ATTENTION", False),
        ("MONKEY", False), ("KEYBOARD", False), ("COMPASS", False), ("compiler-cache", False),
    ],
)  # fmt: skip
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
    assert mask_value(name, "value") == (MASK if secret else "value")


def test_no_variable_of_pytorchs_build_is_taken_for_a_secret() -> None:
    options = [option for component in read_components() for option in component.options]
    names = [*pytorch_variables().rules, *options, *build_options(), *all_keys()]
    assert [name for name in names if is_secret_name(name)] == []


def test_proxies_need_no_scheme() -> None:
    assert mask_value("https_proxy", f"bob:{SECRET}@proxy:3128") == "***@proxy:3128"
    assert mask_value("PIP_PROXY", f"http://bob:{SECRET}@proxy:3128") == "http://***@proxy:3128"
    assert mask_value("PIP_PROXY", "proxy:3128") == "proxy:3128"


def test_documents() -> None:
    document = {
        "key": "target",
        "options": {"API_KEY": SECRET, "URL": f"https://{SECRET}@host", "USE_X": "ON"},
        "layers": [
            {"key": "env.HF_TOKEN", "value": SECRET, "replaced": [{"key": "env.HF_TOKEN", "value": SECRET}]}
        ],
        "environment": [{"name": "X_SECRET", "value": SECRET}, {"name": "X", "value": "1"}],
        "count": 3,
        "none": None,
    }
    masked = mask_document(document)
    assert SECRET not in str(masked)
    assert masked["key"] == "target"
    assert masked["options"] == {"API_KEY": MASK, "URL": "https://***@host", "USE_X": "ON"}
    assert masked["environment"][1] == {"name": "X", "value": "1"}
    assert (masked["count"], masked["none"]) == (3, None)
    assert mask_document(masked) == masked


def test_what_was_learned_is_masked_wherever_it_stands() -> None:
    learn_secrets(
        {
            "HF_TOKEN": "learned-1",
            "PIP_INDEX_URL": "https://bob:learned%2D2@host/simple",
            "define.URL": "https://host/?sig=learned-3",
            "http_proxy": "bob:learned-4@proxy",
            "cmake.args": ["-DX=1", "-DMY_SECRET=learned-5"],
            "X_PASSWORD": "short",
            "SCCACHE_BUCKET": "our-bucket",
            "MAX_JOBS": "12345678",
        }
    )
    learn_secrets({"SSH_KEY": "first-line-of-it\nsecond-line-of-it\n\nend\n"})
    assert mask_line(b"+ second-line-of-it\n") == b"+ ***\n"
    assert mask("first-line-of-it, end") == "***, end"
    said = "learned-1 learned%2D2 learned-2 learned-3xlearned-4 'learned-5'"
    assert mask(said) == "*** *** *** ***x*** '***'"
    assert mask_line(said.encode()) == b"*** *** *** ***x*** '***'"
    for text in ("short", "our-bucket", "12345678"):
        assert mask(text) == text


def test_cmake_keeps_no_secret_of_an_extensions_settings() -> None:
    given = {
        "target": "cpu",
        "env.HF_TOKEN": SECRET,
        "env.URL": f"https://{SECRET}@host",
        "env.CFLAGS": "-O2",
    }
    told = config_for_cmake(Path("/project"), given)["cmake.define.TORCHWHEEL_CONFIG_SETTINGS"]
    assert json.loads(told) == {"target": "cpu", "env.CFLAGS": "-O2"}
