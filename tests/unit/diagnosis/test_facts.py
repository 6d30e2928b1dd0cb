# ruff: noqa: E501, RUF001 - lines of logs as they were printed.
"""Fixes are chosen by what the log shows: the system, who builds, and the tool's own advice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import torchwheel
from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.facts import Facts, read_facts
from torchwheel.diagnosis.fixes import choose, tool_hints
from torchwheel.diagnosis.grammar import read_causes, read_classes
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml
from unit.diagnosis.test_logs import FAILURES, text_of


@pytest.mark.parametrize(
    ("log", "system", "ours"),
    [
        ("C:\\src\\a.cpp(1): fatal error C1083: Cannot open include file: 'x.h'", "Windows", False),
        ("/Users/me/src/a.mm:1:2: error: no", "Darwin", False),
        ("/src/a.cpp:1:2: error: no", "Linux", False),
        ("/usr/lib/python3/nvidia.cublas.lib: error: no", "Linux", False),
        ("pip wheel . -C target=rtx5070\n/src/a.cpp:1:2: error: no", "Linux", True),
        ("torchwheel: building torch\nC:\\src\\a.cpp(1): error C2065: no", "Windows", True),
        ("/home/me/torchwheel/a.cpp:1:2: error: no", "Linux", False),
    ],
)
def test_the_system_and_the_builder(log: str, system: str, ours: bool) -> None:
    assert read_facts(log) == Facts(system, ours)


@pytest.mark.parametrize(
    ("fix", "chosen"),
    [
        ("fewer: `-C jobs=2`", "fewer: `MAX_JOBS=2`"),
        ("`-C env.CC=gcc-13 -C env.CXX=g++-13`", "`CC=gcc-13 CXX=g++-13`"),
        ("`-C define.BLAS=OpenBLAS`", "`CMAKE_ARGS=-DBLAS=OpenBLAS`"),
        ("`-C disable=nccl,gloo`", "`USE_NCCL=0 USE_GLOO=0`"),
        (
            "`-C compiler-cache=none -C env.MODE=nonexistent`",
            "`CMAKE_CUDA_COMPILER_LAUNCHER= MODE=nonexistent`",
        ),
        ("`-C target=rtx5070`", "`TORCH_CUDA_ARCH_LIST=12.0`"),
        ("`-C arch=9.0a` (`arch` in [tool.torchwheel])", "`TORCH_CUDA_ARCH_LIST=9.0a`"),
        ("`torchwheel doctor` says so", None),
        ("`-C profile=minimal`", None),
        ("build for CUDA 13: `-C cuda=13`", None),
        ("`torchwheel inspect WHEEL`", "`torchwheel inspect WHEEL`"),
    ],
)
def test_a_build_that_is_not_torchwheel_s_is_told_what_it_can_set(fix: str, chosen: str | None) -> None:
    assert choose(["x", fix], Facts(ours=False)) == (("x",) if chosen is None else ("x", chosen))
    assert choose(["x", fix], Facts(ours=True)) == ("x", fix)


@pytest.mark.parametrize(
    ("fix", "chosen"),
    [
        ("fewer: `MAX_JOBS=2`", "fewer: `set MAX_JOBS=2` (PowerShell: `$env:MAX_JOBS='2'`)"),
        (
            '`export CUDA_HOME=D:\\cuda ARCHS="8.6 9.0"`',
            "`set CUDA_HOME=D:\\cuda`, `set ARCHS=8.6 9.0` (PowerShell: `$env:CUDA_HOME='D:\\cuda'; $env:ARCHS='8.6 9.0'`)",
        ),
        (
            "`MAX_JOBS=2 pip install apex`",
            "`set MAX_JOBS=2` (PowerShell: `$env:MAX_JOBS='2'`), then `pip install apex`",
        ),
        ("`pip install torch==2.9`", "`pip install torch==2.9`"),
        ("`CUDA_HOME='C:\\A B'`", "`set CUDA_HOME=C:\\A B` (PowerShell: `$env:CUDA_HOME='C:\\A B'`)"),
    ],
)
def test_variables_are_set_as_the_shells_of_the_system_do(fix: str, chosen: str) -> None:
    assert choose(["x", fix], Facts("Windows", ours=False)) == ("x", chosen)
    assert choose(["x", fix], Facts("Linux", ours=False)) == ("x", fix)


def test_no_fixes_of_another_system() -> None:
    fixes = ["`apt install x`", "or y (Windows: LIB)", "macOS: z"]
    assert choose(fixes, Facts("Linux")) == ("`apt install x`", "or y")
    assert choose(["macOS: z", "or, where y, x"], Facts("Linux")) == ("where y, x",)
    assert choose(fixes, Facts("Windows")) == ("y (Windows: LIB)",)
    assert choose(fixes, Facts("Darwin")) == ("y", "macOS: z")


@pytest.mark.parametrize(
    ("log", "family"),
    [("#5 RUN apt-get install -y gcc", "debian"), ("gcc 11.4.1 el9.x86_64, /lib64/", "fedora"), ("/a.c", "")],
)
def test_the_family_of_the_distribution(log: str, family: str) -> None:
    assert read_facts(log).family == family


@pytest.mark.parametrize(
    ("line", "hints"),
    [
        (
            "is not allowed. The experimental flag '--f' can be used to allow this.",
            ["'--f' can be used to allow this"],
        ),
        ("'foo' was not declared in this scope; did you mean 'fop'?", ["did you mean 'fop'?"]),
        (
            "cannot execute tool 'metal'; use: xcodebuild -downloadComponent X",
            ["use: xcodebuild -downloadComponent X"],
        ),
        ("use of undeclared identifier 'x'", []),
        ("This package requires Rust and Cargo to compile extensions. Install it through", []),
        ('failed to run builder command "pip install -e .": exit status: 137', []),
    ],
)
def test_what_a_tool_advises_is_quoted(line: str, hints: list[str]) -> None:
    assert list(tool_hints([line])) == hints


@pytest.mark.parametrize("ours", [True, False])
def test_no_answer_has_an_unfilled_text(ours: bool) -> None:
    logs = [text_of(path) for path in FAILURES] + [
        "error: it broke\n",
        "1: error: it broke\n",
    ]
    unfilled = re.compile(r"line \?|\{[a-z_]+\}|(?:reads?|calls) it (?:asks|calls)|^(?:\d+|error) says")
    for log in logs:
        cause = diagnose([log.encode()], facts=Facts(ours=ours)).cause
        assert cause is not None
        assert not any(map(unfilled.search, (cause.title, cause.means, *cause.change))), cause.entry.id


def test_no_class_has_an_unfilled_text_without_captures() -> None:
    for id, entry in read_classes().items():
        assert not re.search(r"\bto read it\b|calls it calls", entry.means), id


NVCC = "Cuda compilation tools, release 12.6, V12.6.68\nnvcc fatal   : Unsupported gpu architecture 'compute_100a'\n"


@pytest.mark.parametrize(
    ("log", "known", "unknown"),
    [
        (NVCC, {"nvcc_release": "12.6"}, {"list", "listed", "unlisted", "launcher"}),
        (f'TORCH_CUDA_ARCH_LIST="8.7"\n{NVCC}', {"list": "8.7", "unlisted": "yes"}, {"listed"}),
        (f"TORCH_CUDA_ARCH_LIST=8.7;10.0a\n{NVCC}", {"listed": "yes"}, {"unlisted"}),
        (f"sccache nvcc\n{NVCC}", {"launcher": "sccache"}, {"list"}),
        (f"torch==2.9.1\n{NVCC}", {"torch_release": "2.9.1"}, {"list"}),
    ],
)  # fmt: skip
def test_what_the_log_says_of_the_toolkit_chooses_the_fixes(
    log: str, known: dict[str, str], unknown: set[str]
) -> None:
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert known.items() <= cause.known.items()
    assert not unknown & cause.known.keys()
    assert "12.8" in cause.known["able"]
    assert not any("[" in fix for fix in cause.change)


def test_a_copy_of_torchwheel_s_is_shown_as_the_user_s_own_file() -> None:
    stage = "/home/me/.cache/torchwheel/builds/demo-1a2b/source/"
    log = (
        f"torchwheel: building demo\nc++ -I{stage}csrc -c {stage}csrc/a.cpp\n"
        f"{stage}csrc/a.cpp:3:5: error: 'foo' was not declared in this scope\n"
    )
    found = diagnose([log.encode()])
    assert found.cause is not None
    assert found.cause.known["file"] == "csrc/a.cpp"
    assert [line["text"] for line in to_dict(found)["cause"]["excerpt"]][1:] == [
        "c++ -Icsrc -c csrc/a.cpp",
        "csrc/a.cpp:3:5: error: 'foo' was not declared in this scope",
    ]
    assert stage not in render(found)


def test_a_copy_in_a_folder_with_a_blank_is_the_user_s_own_file_too() -> None:
    error = "/home/me/my cache/builds/demo-1a2b/source/csrc/a.cpp:3:5: error: 'foo' was not declared in this scope"
    found = diagnose([f"torchwheel: building demo\n{error}\n".encode()])
    assert found.cause is not None
    assert found.cause.known["file"] == "csrc/a.cpp"
    assert "/home/me" not in render(found)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: Unknown CUDA arch (12.0) or GPU not supported\n",
        "RuntimeError:\nThe detected CUDA version (11.8) mismatches the version that was used to compile\n",
    ],
)
def test_the_torch_that_the_log_names_chooses_a_fix(error: str) -> None:
    plain = diagnose([error.encode()]).cause
    named = diagnose([f"torch==2.6.0+cu126\n{error}".encode()]).cause
    assert plain is not None and named is not None
    assert [fix for fix in named.change if "torch==2.6.0" in fix or "newer than 2.6.0" in fix]
    assert not [fix for fix in plain.change if "torch_release" in fix]


@pytest.mark.parametrize(
    "log",
    [
        "Successfully installed numpy-2.1.0 torch-2.6.0+cu124 triton-3.2.0",
        "Found /x/site-packages/torch-2.6.0+cu124.dist-info",
        "torch              2.6.0+cu124",
    ],
)
def test_the_releases_that_a_log_names(log: str) -> None:
    assert read_facts(log).releases["torch"] == "2.6.0+cu124"


@pytest.mark.parametrize(
    ("log", "id", "fix"),
    [
        ("Hash for torch (2.1.2) from archive torch-2.1.2.whl not found in known hashes", "hash-unfit", "poetry cache"),
        ("  ╰─▶ Cannot solve the request because of: a * cannot be installed\n      └─ a 1 would require\n         └─ b >=2,<3, for which no candidates were found.", "version-conflict", "has b >=2,<3: add"),
        ("  ╰─▶ Cannot solve the request because of: a * cannot be installed: a would require __cuda *", "version-conflict", "CONDA_OVERRIDE_CUDA"),
        ("  Unable to find installation candidates for torch (2.5.1)", "requirement-not-found", "take a Python"),
        ("PackagesNotFoundError: The following packages are not available from current channels:\n\n  - zlib==1.2.13=h5eee18b_0", "conda-package-missing", "`=h5eee18b_0`"),
        ("ModuleNotFoundError: No module named 'triton.language'; 'triton' is not a package", "python-part-missing", "a file triton.py"),
        ("FileNotFoundError: Could not find shared object file for Transformer Engine torch lib.", "extension-module-missing", "transformer_engine[pytorch]"),
        ("C:\\x>python a.py\ntorch._inductor.exc.InductorError: RuntimeError: Compiler: cl is not found.", "command-missing", "Build Tools"),
        ("ImportError: /x/lltm.so: undefined symbol: THPVariableClass", "undefined-symbol", "`import torch` above"),
        ("Traceback (most recent call last):\n  File \"/v/lib/python3.11/site-packages/mamba_ssm/__init__.py\", line 9, in <module>\n    import x\nModuleNotFoundError: No module named 'selective_scan_cuda'", "extension-module-missing", "--no-binary :all: mamba-ssm`"),
        ("Traceback (most recent call last):\n  File \"/v/lib/python3.11/site-packages/quicktex/__init__.py\", line 9, in <module>\n    import x\nModuleNotFoundError: No module named '_quicktex'", "extension-module-missing", "in its tree"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "gpu-failed", "CUDA_LAUNCH_BLOCKING=1"),
        ("RuntimeError: GET was unable to find an engine to execute this computation", "gpu-failed", "unset LD_LIBRARY_PATH"),
        ("ERROR: Wheel 'torch' located at /tmp/torch-2.6.0-cp312-cp312-linux_x86_64.whl is invalid.", "file-damaged", "pip cache purge"),
        ("error: Failed to unzip wheel: torch-2.5.1.whl\n  Caused by: unable to locate the end of central directory record", "file-damaged", "uv cache clean"),
        ("CondaVerificationError: The package for pytorch located at /opt/pkgs/pytorch-2.5.1\nappears to be corrupted.", "file-damaged", "conda clean"),
        ("  × Failed to download `torch==2.1.2`\n  ╰─▶ Failed to download distribution due to network timeout. Try increasing", "network", "UV_HTTP_TIMEOUT"),
        ("  × Failed to download and build `a==4.9.3`\n  ├─▶ request or response body error\n  ╰─▶ operation timed out", "network", "UV_HTTP_TIMEOUT"),
        ("The current project's supported Python range (>=3.8,<4.0) is not compatible with some of the required packages Python requirement:", "interpreter-unfit", "requires-python"),
        ("RuntimeError: Cannot find a working triton installation. Either the package is not installed or it is too old.", "python-module-missing", "triton-windows"),
        ("RuntimeError: Unable to JIT load the op. FP Quantizer is using an untested triton version (3.2.0), only 2.3.1 and 3.0.0 are known to be compatible", "package-wants-release", "install triton, 2.3.1"),
        ("/opt/bin/python: error while loading shared libraries: libpython3.10.so.1.0: cannot open shared object file", "shared-library-missing", "the container's own"),
        ("ImportError: /x/_C.so: undefined symbol: _ZN5torch3jit11parseSchemaERKSsb", "extension-abi-mismatch", "compiled_with_cxx11_abi"),
        ("ValueError: Cannot repair wheel, because required library \"libtorch_cpu.so\" could not be located", "wheel-not-repairable", "--exclude libtorch.so"),
        ("#9 0.181 exec /bin/sh: exec format error", "wrong-machine", "the image is of another processor"),
        ("Traceback (most recent call last):\n  File \"/src/x/test/run.py\", line 3, in <module>\n    import pytest\nModuleNotFoundError: No module named 'pytest'", "python-module-missing", "pip install pytest"),
        ("Traceback (most recent call last):\n  File \"/src/vision/train.py\", line 3, in <module>\n    import torchvision\nModuleNotFoundError: No module named 'torchvision'", "python-module-missing", "pip install torchvision"),
        ("error: Distribution `torch==2.7.0+cu128 @ registry+https://x` can't be installed because it doesn't have a source distribution or wheel for the current platform", "requirement-not-found", "leave +cu128 out"),
        ("OSError: [WinError 127] The specified procedure could not be found", "winerror-126", "two torches"),
        ("ImportError: libmkl_sycl.so.3: cannot open shared object file: No such file or directory", "shared-library-missing", "setvars.sh"),
        ("ImportError: /x/libmkl_sycl_blas.so.4: undefined symbol: _ZN4sycl3_V17handler22setKernelIsCooperativeEb", "undefined-symbol", "an older libsycl"),
        ("Traceback (most recent call last):\n  File \"/m/MinkowskiEngine/__init__.py\", line 46, in <module>\n    import x\nModuleNotFoundError: No module named \'MinkowskiEngineBackend\'", "extension-module-missing", "run from another folder"),
        ("ERROR: Ignored the following versions that require a different python version: 3.3\nERROR: Could not find a version that satisfies the requirement torch==2.7.0 (from versions: none)", "requirement-not-found", "manylinux_2_28"),
        ("Problem with the CMake installation, aborting build. CMake executable is cmake", "program-broken", "cmake --version"),
        ("tcc: error: library 'python3' not found", "library-missing", "the container"),
        ("deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)", "cuda-home-not-set", "CUDA_HOME=…"),
        ("AttributeError: '_OpNamespace' 'apex' object has no attribute 'norm'\n  File \"/v/lib/python3.11/site-packages/apex/__init__.py\", line 9", "extension-module-missing", "git+https://github.com/NVIDIA/apex.git"),
        ("ImportError: /v/lib/python3.11/site-packages/torch_scatter/_C.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKNSt7", "extension-abi-mismatch", "--no-cache-dir torch-scatter`"),
        ("ImportError: generic_type: type \"Net\" referenced unknown base type \"torch::nn::Module\"", "module-unfit", "defines torch::nn::Module comes first"),
        ("CMake Error: File /src/x.h.in does not exist.", "file-missing", "correct the path"),
        ("  /usr/lib/wsl/lib\n/usr/bin/ld: cannot find -lcuda: No such file or directory", "linker-cannot-find-library", "/usr/lib/wsl/lib:"),
        ("  File \"/v/site-packages/triton/runtime/build.py\", line 9\n/usr/bin/ld: cannot find -lcuda: No such file or directory", "linker-cannot-find-library", "ln -s libcuda.so.1"),
        ("!!! Exception during processing !!! CUDA error: no kernel image is available for execution on the device\nTraceback (most recent call last):\n  File \"/v/lib/python3.11/site-packages/painter/a.py\", line 3, in f\nRuntimeError: CUDA error: no kernel image is available for execution on the device\ntorch 2.6.0+cu126, NVIDIA GeForce RTX 2070", "no-kernel-image", "painter`"),
        ("ERROR:root:Fatal exception\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    os.link(a, b)\nOSError: [Errno 18] Invalid cross-device link: '/tmp/a' -> '/home/me/a'", "file-system-failed", "TMPDIR"),
        ("  Caused by: failed to hardlink file from /c/a to /d/a: Invalid cross-device link (os error 18)", "file-system-failed", "UV_LINK_MODE=copy"),
        ("The following packages have unmet dependencies:\n libnccl-dev : Depends: libnccl2 (= 2.18.3-1+cuda12.2) but 2.13.4 is to be installed\nE: Unable to correct problems, you have held broken packages.", "system-package-unavailable", "apt-mark unhold"),
        ("error: Cannot uninstall package; RECORD file not found at: C:\\v\\Lib\\site-packages\\torch-2.2.1.dist-info\\RECORD", "not-removable", "--ignore-installed"),
        ("In file included from /v/torch/extension.h:5,\n                 from csrc/ops.c:1:\n/v/torch/all.h:3:10: fatal error: cassert: No such file or directory", "header-missing", "csrc/ops.c is compiled as C"),
        ("LINK : fatal error LNK1318: Unexpected PDB error; RPC (23) '(0x000006E7)'", "linker-file", "mspdbsrv"),
        ("/t/a.cuh(33): error: identifier \"__nv_bfloat16\" is undefined", "library-api-unfit", "from CUDA 11.0"),
        ("a.h:112:5: error: 'hiprtcCompileProgram' was not declared in this scope", "library-api-unfit", "the ROCm that"),
        ("libcaffe2_hip.so: error: undefined reference to 'hsa_isa_from_name'", "undefined-symbol", "-lhsa-runtime64"),
        ("RuntimeError: cuDNN version mismatch: PyTorch was compiled against 6021 but linked against 5110", "cudnn-runtime-mismatch", "out of LD_LIBRARY_PATH"),
        ("ninja: error: rebuilding 'build.ninja': '/w/torchgen/x.py', needed by 'aten/x.cmake', missing and no known rule to make it", "missing-input", "a fresh build"),
        ("lld-link: error: undefined symbol: __declspec(dllimport) class at::Tensor __cdecl at::native::foo_cuda(class at::Tensor const &)", "undefined-symbol", "USE_FLASH_ATTENTION"),
        ("OSError: /v/site-packages/bitsandbytes/libbitsandbytes_rocm61.so: undefined symbol: _ZNSt3__15ctypeIcE2idE", "undefined-symbol", "leave -stdlib=libc++ out"),
        ("OSError: /v/site-packages/bitsandbytes/libbitsandbytes_rocm62.so: undefined symbol: _Z36__device_stub__kOptimizer32bit1StateI12hip_bfloat16Li2EEvPT_", "undefined-symbol", "--no-cache-dir git+https://github.com/bitsandbytes-foundation/bitsandbytes.git`"),
        ("DS_BUILD_OPS=1 pip install deepspeed\n  building 'deepspeed.ops.comm.deepspeed_ccl_comm_op' extension\n  csrc/cpu/comm/ccl.cpp:8:10: fatal error: oneapi/ccl.hpp: No such file or directory", "header-missing", "DS_BUILD_FUSED_ADAM=1"),
        ("CMake Error in ggml/CMakeLists.txt:\n  CUDA_ARCHITECTURES is set to \"native\", but no GPU was detected.", "no-gpu-and-no-architectures", "CMAKE_ARGS=-DCMAKE_CUDA_ARCHITECTURES=120"),
        ("ImportError: DLL load failed while importing _ext: The specified procedure could not be found.", "dll-load-failed", "another torch or CUDA"),
        ("torch 2.8.0+cu128\nImportError: libcudart.so.13: cannot open shared object file: No such file or directory", "cuda-library-not-found", "its wheel for torch's CUDA, 12.8"),
        ("./main: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file", "cuda-library-not-found", "LD_LIBRARY_PATH=/usr/local/cuda/lib64"),
        ("  File \"/Users/me/a/torch/cuda/__init__.py\", line 3, in _lazy_init\nAssertionError: Torch not compiled with CUDA enabled", "built-without-cuda", "`mps`"),
        ("torch 2.9.1+cu130\nRuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "driver-too-old", "580 or later"),
        ("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment", "driver-not-ready", "modprobe nvidia_uvm"),
        ("xFormers was built for:\n    PyTorch 2.5.1+cu124 with CUDA 1204 (you have 2.6.0+cu126)\nNotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:", "xformers-for-another-torch", "xformers torch==2.6.0+cu126 --index-url"),
    ],
)  # fmt: skip
def test_a_fix_for_what_the_lines_show(log: str, id: str, fix: str) -> None:
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert cause.entry.id == id
    assert fix in " ".join(cause.change)


def test_a_library_for_another_machine_is_named() -> None:
    skipped = "/usr/bin/ld: skipping incompatible /x/libcudart.so when searching for -lcudart"
    log = f"{skipped}\n/usr/bin/ld: cannot find -lcudart\n"
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert (cause.entry.id, cause.known["skipped"]) == ("linker-cannot-find-library", "/x/libcudart.so")


@pytest.mark.parametrize(
    "header", ["Eigen/Core", "CL/opencl", "Python.h", "cuda_runtime.h", "cutlass/cutlass.h"]
)
def test_a_missing_header_has_one_answer_from_three_compilers(header: str) -> None:
    said = (
        f"a.cpp:3:10: fatal error: {header}: No such file or directory",
        f"a.cpp:3:10: fatal error: '{header}' file not found",
        f"a.cpp(3): fatal error C1083: Cannot open include file: '{header}': No such file or directory",
        f'a.cpp(3): catastrophic error: cannot open source file "{header}"',
    )
    causes = [diagnose([f"FAILED: a.o\n{line}\n".encode()], facts=Facts()).cause for line in said]
    assert len({one and (one.entry.id, one.title, one.change) for one in causes}) == 1


FACTS = Path(torchwheel.__file__).parent / "diagnosis" / "facts.toml"


@pytest.mark.parametrize("row", read_toml(FACTS)["fact"], ids=lambda row: row["example"])
def test_what_a_log_says_is_read_and_asked_for(row: dict[str, str]) -> None:
    stated = read_facts(row["example"]).stated
    names = {name.rstrip("234") for name in re.compile(row["regex"]).groupindex}
    assert names & stated.keys()
    texts = "".join(path.read_text() for path in FACTS.parent.rglob("*.*") if path.suffix in {".toml", ".py"})
    assert [name for name in names if not re.search(rf"\[!?{name}\] |\{{{name}\}}|\"{name}\"", texts)] == []


EMBEDDED = ".\\python_embeded\\python.exe"


@pytest.mark.parametrize(
    ("log", "pip", "python"),
    [
        ("Resolved 12 packages in 31ms", "uv pip", "python"),
        ("RUN uv sync --frozen", "uv pip", "python"),
        ("F:\\python_embeded\\a.py", f"{EMBEDDED} -m pip", EMBEDDED),
        ("pip install uvloop", "pip", "python"),
    ],
)
def test_a_command_is_that_of_the_installer_of_the_log(log: str, pip: str, python: str) -> None:
    fixes = ("`pip install -U x`", "`python -c 1`", "`pip install --ignore-installed x`", "`uv pip check`")
    left = "`pip install --ignore-installed x`"
    assert choose(fixes, read_facts(log)) == (
        f"`{pip} install -U x`",
        f"`{python} -c 1`",
        left,
        "`uv pip check`",
    )


SEES = "UserWarning: NVIDIA X with CUDA capability sm_120 is not compatible\nCUDA error: no kernel image is available for execution on the device\n"


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("torch 2.6.0+cu124 in /v/lib/python3.12/a", {"published": "pip install torch==2.7.0 --index-url https://download.pytorch.org/whl/cu128"}),
        ("torch 2.8.0+cu128", {"torch_runs": "2.8.0"}),
        ("torch 2.8.0+cu126", {"published": "pip install torch==2.8.0"}),
        ("C:\\v\\Lib\\a.py\ntorch 2.8.0+cu126", {"published": "pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu129"}),
        ("Linux 5.15.148-tegra", {}),
    ],
)  # fmt: skip
def test_the_official_torch_that_runs_on_a_gpu_is_the_nearest_to_the_log_s(
    said: str, known: dict[str, str]
) -> None:
    cause = diagnose([f"{said}\n{SEES}".encode()]).cause
    assert cause is not None
    answers = {name: cause.known[name] for name in ("published", "torch_runs") if name in cause.known}
    assert (cause.entry.id, cause.known["capability"], answers) == ("no-kernel-image", "12.0", known)


def test_a_gpu_that_the_log_names_has_its_capability() -> None:
    known = read_facts("NVIDIA GeForce GTX 1080 Ti (driver 550)\ntorch 2.8.0+cu128").fill({})
    assert (known["capability"], known["published"]) == (
        "6.1",
        "pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126",
    )


def test_a_wheel_for_another_python_is_said_to_be() -> None:
    refused = "ERROR: torch-2.4.0-cp310-cp310-linux_aarch64.whl is not a supported wheel on this platform."
    other, same = (diagnose([f"/v/lib/python3.{minor}/a\n{refused}".encode()]).cause for minor in (11, 10))
    assert other is not None and same is not None
    assert other.known["other_python"] == "3.10"
    assert "other_python" not in same.known


def test_every_condition_of_a_text_has_a_name_that_is_read_as_one() -> None:
    texts = [
        text for one in read_causes().values() for text in (one.title, *one.means.splitlines(), *one.change)
    ]
    unread = re.compile(r"(?:\[!?[a-z_]+\] )*\[!?(?![a-z_]+\])\w+\] ")
    assert [text for text in texts if unread.match(text)] == []
