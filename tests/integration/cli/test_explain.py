"""``torchwheel explain``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from cli.running import Run
from torchwheel.cli.explain import known_ids
from torchwheel.preflight.registry import read_rules

RULE = """\
CUDA_HOME: CUDA 12.4 in /usr/local/cuda-12.4 cannot compile for sm_120 (12.0)
[toolkit-lacks-architecture]

sm_120 is compiled by CUDA 12.8 and later

Each CUDA release compiles for a range of architectures: sm_120 from 12.8 on,
sm_70 up to 12.9.

What to change:
  install such a toolkit and name it with -C cuda-path=, or leave 12.0 out of
     the architectures
  To build in spite of it: -C skip-check=toolkit-lacks-architecture

More:
  {source}
"""


def test_a_rule(program: Run) -> None:
    (rule,) = (rule for rule in read_rules().values() if rule.id == "toolkit-lacks-architecture")
    assert rule is not None
    result = program("explain", rule.id)
    assert (result.status, result.err) == (0, "")
    assert result.out == RULE.format(source=rule.source)


def test_every_id_is_explained(torchwheel: Run) -> None:
    for id in known_ids():
        result = torchwheel("explain", id)
        assert (result.status, result.err) == (0, "")
        assert f"[{id}]" in result.out
