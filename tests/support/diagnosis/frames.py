# ruff: noqa: RUF001 - lines of logs as they were printed.
"""What CI systems, containers, launchers and loggers write in front of every line of a log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

_START = datetime(2026, 11, 27, 8, 9, 58)


def _time(number: int) -> datetime:
    return _START + timedelta(seconds=0.37 * number)


def _iso(number: int) -> str:
    return f"{_time(number):%Y-%m-%dT%H:%M:%S.%f}{number % 10}Z"


FRAMES: dict[str, Callable[[int], str]] = {
    "gh raw": lambda n: _iso(n) + " ",
    "gh run view": lambda n: f"build (3.12, ubuntu-latest)\tBuild wheel\t{_iso(n)} ",
    "gh run view unknown": lambda n: f"wheels\tUNKNOWN STEP\t{_iso(n)} ",
    "teamcity": lambda n: _time(n).strftime("[%H:%M:%S]W:\t ") + "[Step 2/4] ",
    "teamcity i": lambda n: _time(n).strftime("[%H:%M:%S]i:\t\t"),
    "buildkite": lambda n: f"\x1b_bk;t={1700000000000 + n * 31}\x07",
    "buildkite ts": lambda n: _time(n).strftime("[%Y-%m-%dT%H:%M:%SZ] "),
    "drone": lambda n: f"[build:{n + 3}] ",
    "drone secs": lambda n: f"[wheel:{n}] {n}s ",
    "codebuild": lambda n: _time(n).strftime("[Container] %Y/%m/%d %H:%M:%S.%f "),
    "journald": lambda n: _time(n).strftime("Nov 27 %H:%M:%S buildhost build.sh[4711]: "),
    "journald iso": lambda n: _time(n).strftime("%Y-%m-%dT%H:%M:%S+0100 host gitlab-runner[88]: "),
    "kubectl prefix": lambda _: "[pod/torch-build-x7k2p/builder] ",
    "kubectl ts": lambda n: "[pod/torch-build-x7k2p/builder] " + _iso(n) + " ",
    "stern": lambda _: "torch-build-x7k2p builder ",
    "stern plus": lambda _: "+ torch-build-x7k2p › builder ",
    "tekton": lambda _: "[build-wheel : compile] ",
    "nix -L": lambda _: "python3.12-torch> ",
    "nix pname": lambda _: "torch-2.9.1> ",
    "act": lambda _: "[Build wheels/build]   | ",
    "act -1": lambda _: "[CI/linux-3.12-1   ]   | ",
    "jenkins branch": lambda _: "[Linux py312] ",
    "jenkins time": lambda n: _time(n).strftime("[%Y-%m-%dT%H:%M:%S.") + f"{n % 1000:03d}Z] ",
    "jenkins branch+time": lambda n: _time(n).strftime("%H:%M:%S  [gcc-13] "),
    "jenkins pipeline": lambda _: "[Pipeline] ",
    "earthly": lambda _: "               +wheel | ",
    "earthly long": lambda _: "         ./torch+build | ",
    "loguru": lambda n: (
        _time(n).strftime("%Y-%m-%d %H:%M:%S.") + f"{n % 1000:03d} | INFO     | builder.run:stream:{87} - "
    ),
    "loguru levels": lambda n: (
        _time(n).strftime("%Y-%m-%d %H:%M:%S.")
        + f"{n % 1000:03d} | {('INFO    ', 'ERROR   ', 'WARNING ')[n % 3]} | builder.run:stream:{87 + n % 3} - "
    ),
    "parallel tag": lambda _: "torch-cu130\t",
    "parallel tag path": lambda _: "./jobs/linux.sh cu130\t",
    "colcon": lambda n: f"[{1.234 + n * 0.01:.3f}s] ",
    "colcon name": lambda n: f"[{n * 0.1:.1f}s] [torch_ext] ",
    "cri": lambda n: _iso(n) + " stderr F ",
    "docker compose": lambda _: "torch-builder-1  | ",
    "docker compose ts": lambda n: "torch-builder-1  | " + _iso(n) + " ",
    "docker plain": lambda n: f"#24 {11.24 + n * 0.3:.2f} ",
    "docker in gh": lambda n: _iso(n) + f" #24 {11.24 + n * 0.3:.2f} ",
    "docker +pip frame": lambda n: f"#12 {3 + n * 0.1:.3f}   │ ",
    "bazel": lambda n: f"({_time(n):%H:%M:%S}) ",
    "azure": lambda n: _iso(n) + " ##[error]" if n % 7 == 3 else _iso(n) + " ",
    "gitlab ts": lambda n: _iso(n) + " 01O ",
    "gitlab ts e": lambda n: _iso(n) + " 00E ",
    "circle": lambda n: f"{n + 1:5d}  ",
    "cloud build": lambda n: 'Step #3 - "wheel": ',
    "cloud build 2": lambda _: "Step #1: ",
    "terraform": lambda _: "null_resource.build (remote-exec): ",
    "packer": lambda _: "    amazon-ebs.gpu: ",
    "packer ==>": lambda _: "==> amazon-ebs.gpu: ",
    "vagrant": lambda _: "    default: ",
    "ansible": lambda _: "gpu01 | ",
    "pdsh": lambda _: "node042: ",
    "srun -l": lambda _: "0: ",
    "mpirun tag": lambda _: "[1,0]<stderr>:",
    "torchrun": lambda _: "[rank3]: ",
    "torchrun default": lambda _: "[default0]:",
    "ray": lambda _: "(build_remote pid=4711, ip=10.0.0.7) ",
    "vllm": lambda n: _time(n).strftime("(EngineCore_DP0 pid=15638) ERROR 11-27 %H:%M:%S [core.py:842] "),
    "python logging": lambda n: (
        _time(n).strftime("%Y-%m-%d %H:%M:%S,") + f"{n % 1000:03d} - builder - INFO - "
    ),
    "python logging levels": lambda n: (
        _time(n).strftime("%Y-%m-%d %H:%M:%S,")
        + f"{n % 1000:03d} {('INFO', 'ERROR', 'DEBUG')[n % 3]} builder: "
    ),
    "log4j": lambda n: _time(n).strftime("%H:%M:%S.") + f"{n % 1000:03d} [main] INFO  c.e.Build - ",
    "glog": lambda n: _time(n).strftime("I1127 %H:%M:%S.%f  4711 run.cc:88] "),
    "ts -s": lambda n: f"00:00:{n % 60:02d} ",
    "ts default": lambda n: _time(n).strftime("Nov 27 %H:%M:%S "),
    "ts seconds": lambda n: f"{1700000000.123 + n:.6f} ",
    "kernel": lambda n: f"[{12345.678901 + n:12.6f}] ",
    "foreman": lambda n: _time(n).strftime("%H:%M:%S web.1   | "),
    "gradle": lambda _: "> ",
    "quote": lambda _: "> ",
    "msbuild": lambda _: "12>",
    "ninja": lambda n: f"[{n}/345] ",
    "spack": lambda n: f"  >> {n + 849}    ",
    "lerna": lambda _: "@acme/kernels: ",
    "npm-run-all": lambda _: "[build:cu130] ",
    "conda-build": lambda _: "│ │ ",
    "rattler": lambda _: " │ │ ",
    "airflow": lambda n: _time(n).strftime("[%Y-%m-%dT%H:%M:%S.123+0000] {subprocess.py:93} INFO - "),
    "argo": lambda n: "torch-build-hx2: " + _iso(n) + " ",
    "script -t": lambda n: f"{n:08d} | ",
    "syslog pri": lambda n: _time(n).strftime("<14>1 %Y-%m-%dT%H:%M:%S.%fZ host build 4711 - - "),
    "cloudwatch": lambda n: f"{1700000000000 + n * 17}\t",
    "heroku": lambda _: "remote:        ",
    "git remote": lambda _: "remote: ",
    "unknown levels": lambda n: f"[<{('info', 'error', 'warn')[n % 3]}>] ",
    "unknown arrow": lambda _: "builder » ",
    "unknown at": lambda n: f"@{n:04d}@ ",
    "tilt": lambda _: "  kernel-build │ ",
    "skaffold": lambda _: "[builder] ",
    "dagger": lambda n: f"23  : [{n * 0.1:.1f}s] | ",
    "mac": lambda n: _time(n).strftime("2026-11-27 %H:%M:%S.%f+0100  localhost build[77]: (lib) "),
}
"""By what writes them: a function of the line's number."""

JSON_FRAMES: dict[str, Callable[[int, str], dict[str, str]]] = {
    "docker json": lambda n, line: {"log": line + "\n", "stream": "stderr", "time": _iso(n)},
    "structured log": lambda n, line: {"ts": _iso(n), "level": "info", "msg": line},
}


def with_frame(name: str, text: str) -> str:
    """Return a log with a frame before every line."""
    lines = text.splitlines()
    if name in JSON_FRAMES:
        framed = [json.dumps(JSON_FRAMES[name](n, line), ensure_ascii=False) for n, line in enumerate(lines)]
    else:
        framed = [FRAMES[name](n) + line for n, line in enumerate(lines)]
    return "".join(f"{line}\n" for line in framed)
