from __future__ import annotations

from settings.loading import Load, Refuse, rendered


def test_every_setting_has_a_variable(load: Load) -> None:
    settings = load(
        environment={
            "TORCHWHEEL_TARGET": "rtx5070",
            "TORCHWHEEL_PROFILE": "minimal",
            "TORCHWHEEL_ARCH": "12.0a",
            "TORCHWHEEL_CUDA": ">=12.8,<13",
            "TORCHWHEEL_CUDA_PATH": "/opt/cuda 12.9",
            "TORCHWHEEL_ENABLE": "gloo,distributed",
            "TORCHWHEEL_DISABLE": "numpy",
            "TORCHWHEEL_DEFINE": "USE_FOO=ON 'FLAGS=-O2 -g'",
            "TORCHWHEEL_ENV": "CC=clang",
            "TORCHWHEEL_JOBS": "3",
            "TORCHWHEEL_VERSION": "2.6.0",
            "TORCHWHEEL_LOCAL_VERSION": "mine",
            "TORCHWHEEL_BUILD_TYPE": "Debug",
            "TORCHWHEEL_BUILD_DIR": "/b",
            "TORCHWHEEL_BUILD_ENV": "current",
            "TORCHWHEEL_SKIP_CHECK": "a,b",
            "TORCHWHEEL_TRACEBACK": "1",
            "TORCHWHEEL_CACHE_DIR": "/cache",
            "TORCHWHEEL_CONFIG_DIR": "/config",
        }
    )
    assert (settings.target, settings.profile, str(settings.arch)) == (("rtx5070",), ("minimal",), "12.0a")
    assert (str(settings.cuda), settings.cuda_path) == (">=12.8,<13", "/opt/cuda 12.9")
    assert (settings.define["USE_GLOO"], settings.define["USE_NUMPY"]) == (True, False)
    assert (settings.define["USE_FOO"], settings.define["FLAGS"]) == ("ON", "-O2 -g")
    assert (dict(settings.env), settings.jobs, settings.version) == ({"CC": "clang"}, 3, "2.6.0")
    assert (settings.local_version, settings.build_type, settings.build_dir) == ("mine", "Debug", "/b")
    assert (settings.build_env, settings.skip_check, settings.traceback) == ("current", ("a", "b"), True)
    assert {item.layer.title for key, item in settings.entries.items() if key in ("jobs", "target")} == {
        "environment"
    }


def test_unknown_and_malformed_variables(refuse: Refuse) -> None:
    environment = {
        "TORCHWHEEL_TARGTE": "rtx5070",
        "TORCHWHEEL_BANANA": "1",
        "TORCHWHEEL_DEFINE": "USE_FOO",
        "TORCHWHEEL_ENV": "'A=b",
        "TORCHWHEEL_JOBS": "x",
        "TORCHWHEEL_EMPTY": "",
    }
    assert rendered(refuse(environment=environment)) == [
        "variable TORCHWHEEL_BANANA: TORCHWHEEL_BANANA is not a variable of torchwheel  [unknown-variable]\n"
        "    fix: unset it; the variables are TORCHWHEEL_TARGET, TORCHWHEEL_PROFILE, TORCHWHEEL_ARCH, "
        "TORCHWHEEL_CUDA, TORCHWHEEL_CUDA_PATH, TORCHWHEEL_CUDA_FROM, TORCHWHEEL_CUDA_MISMATCH, "
        "TORCHWHEEL_ENABLE, TORCHWHEEL_DISABLE, TORCHWHEEL_DEFINE, "
        "TORCHWHEEL_ENV, TORCHWHEEL_JOBS, TORCHWHEEL_VERSION, TORCHWHEEL_LOCAL_VERSION, TORCHWHEEL_BUILD_TYPE, "
        "TORCHWHEEL_BUILD_DIR, TORCHWHEEL_BUILD_ENV, TORCHWHEEL_SKIP_CHECK, TORCHWHEEL_TRACEBACK, "
        "TORCHWHEEL_CACHE_DIR, TORCHWHEEL_CONFIG_DIR",
        'variable TORCHWHEEL_DEFINE: "USE_FOO" is not NAME=VALUE  [malformed-variable]\n'
        "    why: it has no =\n"
        "    fix: separate entries by spaces and quote as for a shell: TORCHWHEEL_DEFINE=USE_NATIVE_ARCH=true",
        'variable TORCHWHEEL_ENV: "\'A=b" is not NAME=VALUE  [malformed-variable]\n'
        "    why: No closing quotation\n"
        "    fix: separate entries by spaces and quote as for a shell: TORCHWHEEL_ENV=CFLAGS=-O2",
        "variable TORCHWHEEL_TARGTE: TORCHWHEEL_TARGTE is not a variable of torchwheel  [unknown-variable]\n"
        "    fix: write TORCHWHEEL_TARGET=rtx5070",
        'variable TORCHWHEEL_JOBS: jobs is "x", which is not a whole number of at least 1  [ill-typed-value]\n'
        "    fix: write a whole number of at least 1, for example TORCHWHEEL_JOBS=8",
    ]
