# ruff: noqa: E501, RUF001 - lines of logs as they were printed, in the typography of their language.
"""The forms in which tools write errors, their classes, and what they catch."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from places import REPOSITORY
from steps import is_linear
from torchwheel.diagnosis import grammar
from torchwheel.diagnosis.grammar import (
    Classified,
    Form,
    Role,
    catalogue_forms,
    classify,
    form_needles,
    read_causes,
    read_classes,
    read_forms,
)
from torchwheel.diagnosis.languages import normalise_line
from torchwheel.diagnosis.libraries import describe

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
PARSER = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


def classified(form: Form) -> list[Classified]:
    """What is said of the lines of a form's example."""
    lines = form.example.split("\n")
    found = [
        classify(
            line,
            lambda: lines,
            lambda below=lines[n + 1 :]: below or ["", "  the message"],
            in_cmake_error=True,
        )
        for n, line in enumerate(lines)
    ]
    return [one for one in found if one is not None]


def ids() -> list[str]:
    return [f"{form.tool}-{form.id or form.role.value}-{n}" for n, form in enumerate(read_forms())]


@pytest.mark.parametrize("form", read_forms(), ids=ids())
def test_every_example_is_of_its_form_and_class_and_is_found_by_a_literal(form: Form) -> None:
    assert (form.role, form.id) in [(one.form.role, one.form.id) for one in classified(form)]
    assert any(needle in form.example for needle in form_needles())


def test_no_form_says_what_another_one_says_of_its_example(monkeypatch: pytest.MonkeyPatch) -> None:
    every = read_forms()
    needless = []
    for form in every:
        found = classified(form)
        monkeypatch.setattr(
            grammar, "read_forms", lambda form=form: [one for one in every if one is not form]
        )
        if classified(form) == found:
            needless.append(form.example)
        monkeypatch.undo()
    assert needless == []


def always_caught(nodes: Iterable[Any], names: Mapping[int, str]) -> set[str]:
    """The names that every match of a parsed expression catches, whichever branch it takes."""
    found: set[str] = set()
    for kind, node in nodes:
        match str(kind):
            case "SUBPATTERN":
                found |= always_caught(node[-1], names) | ({names[node[0]]} if node[0] in names else set())
            case "BRANCH":
                found |= set.intersection(*(always_caught(one, names) for one in node[1]))
            case "MAX_REPEAT" | "MIN_REPEAT" | "ASSERT":
                found |= always_caught(node[-1], names) if node[0] else set()
    return found


def of_others(text: str, given: Iterable[str]) -> bool:
    """Whether the conditions of a text leave it out wherever these captures are given."""
    conditions = re.match(r"(?:\[!?\w+\] )*", text)
    return conditions is not None and not {*re.findall(r"\[!(\w+)\]", conditions[0])}.isdisjoint(given)


def unfilled(form: Form) -> Iterator[str]:
    """The placeholders that a match may leave open; what a condition names brings the others of its text."""
    entry = read_causes()[form.id]
    given = {*form.values, *entry.otherwise}
    for regex in (form.regex, *form.context):
        names = {number: name.rstrip("0123456789") for name, number in regex.groupindex.items()}
        given |= always_caught(PARSER.parse(regex.pattern), names)
    texts = (*entry.title.splitlines(), *entry.means.splitlines(), *entry.change)
    always = (text for text in texts if not (re.match(r"(?:\[!\w+\] )*\[\w", text) or of_others(text, given)))
    for name in (name for text in always for name in PLACEHOLDER.findall(text)):
        if name.removesuffix("_here") not in given:
            yield name


def test_no_answer_has_a_text_that_is_not_filled_in() -> None:
    forms = [form for form in (*read_forms(), *catalogue_forms()) if form.role is Role.ERROR]
    assert [(form.id, form.example, names) for form in forms if (names := [*unfilled(form)])] == []


def test_every_class_has_a_form_but_those_of_a_failure_without_one() -> None:
    of_tracebacks = {"installation-damaged", "setup-failed", "python-library-unfit"}
    without_form = read_classes().keys() - {form.id for form in read_forms()}
    assert without_form == {"build-stopped", "step-says", *of_tracebacks}


@pytest.mark.parametrize(
    ("line", "error_class", "captures"),
    [
        ("a.cpp:1:10: schwerwiegender Fehler: numa.h: Datei oder Verzeichnis nicht gefunden", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: erreur fatale: numa.h : Aucun fichier ou dossier de ce type", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: 致命错误：numa.h：没有那个文件或目录", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("a.cpp:1:10: 致命的エラー: numa.h: そのようなファイルやディレクトリはありません", "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "1"}),
        ("c.cpp:(.text+0x5) : référence indéfinie vers « foo() »", "undefined-symbol", {"symbol": "foo()", "file": "c.cpp"}),
        ("/usr/bin/ld: -lnuma が見つかりません: そのようなファイルやディレクトリはありません", "library-missing", {"library": "numa"}),
        ("make: *** 没有规则可制作目标“numa.c”，由“x.o” 需求。 停止。", "missing-input", {"name": "numa.c", "target": "x.o"}),
        ("      Reason:       OOMKilled", "killed", {}),
        ("bash: Zeile 1: nasm: Kommando nicht gefunden.", "command-missing", {"program": "nasm"}),
        ("bash: ligne 3: LD_LIBRARY_PATH : variable sans liaison", "value-unset", {"variable": "LD_LIBRARY_PATH"}),
        ('reducer.obj : error LNK2019: Verweis auf nicht aufgelöstes externes Symbol "public: void __cdecl c10d::f(void)" (?f@c10d@@QEAAXXZ)', "undefined-symbol", {"symbol": "public: void __cdecl c10d::f(void)", "file": "reducer.obj", "object": "obj"}),
        ('a.cpp(3): fatal error C1083: ソース ファイルを開けません。\'numa.h\':No such file or directory', "header-missing", {"header": "numa.h", "file": "a.cpp", "line": "3"}),
        ('/usr/include/aarch64-linux-gnu/bits/math-vector.h(96): error: identifier "__Float32x4_t" is undefined', "headers-unfit", {"file": "/usr/include/aarch64-linux-gnu/bits/math-vector.h", "line": "96", "message": 'identifier "__Float32x4_t" is undefined', "in_host": "/usr/include/aarch64-linux-gnu/bits/"}),
        ("a.cpp:12:10: error: ‘optional’ in namespace ‘c10’ does not name a template type", "library-api-unfit", {"file": "a.cpp", "line": "12", "name": "c10", "message": "'optional' in namespace 'c10' does not name a template type"}),
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", "command-missing", {"language": "CXX", "program": "C++ compiler"}),
        ("exec /bin/sh: exec format error", "wrong-machine", {"file": "/bin/sh", "image": "exec"}),
        ("ld: file not found: @rpath/libc10.dylib for architecture arm64", "library-missing", {"library": "@rpath/libc10.dylib"}),
        ("/usr/bin/ld: error: a.o: can't open: Too many open files", "too-many-processes", {"message": "Too many open files"}),
        ("clang: error: the clang compiler does not support '-march=native'", "unknown-flag", {"tool": "clang", "flag": "-march=native"}),
        ("build/csrc/bind.o: file not recognized: file format not recognized", "wrong-machine", {"file": "build/csrc/bind.o", "object": ".o"}),
        ("##[error]The job running on runner GitHub Actions 12 has exceeded the maximum execution time of 360 minutes.", "interrupted", {"limited": "time"}),
        ("slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", "interrupted", {}),
        ("RuntimeError: Cannot access accelerator device when none is available.", "gpu-not-seen", {"message": "Cannot access accelerator device when none is available."}),
        ("OSError: El archivo de paginación es demasiado pequeño para completar la operación. (os error 1455)", "out-of-memory", {"message": "El archivo de paginación es demasiado pequeño para completar la operación. (os error 1455)", "paging": "1455"}),
        ("q4.o : error LNK2001: 外部シンボル cublasHgemm は未解決です", "undefined-symbol", {"symbol": "cublasHgemm"}),
        ("ld: libs/libc10.so: error adding symbols: file in wrong format", "wrong-machine", {"file": "libs/libc10.so"}),
        (r"╰─▶ failed to rename file from C:\\x to C:\\y: Access is denied. (os error 5)", "permission-denied", {"name": r"C:\\y", "in_use": "failed"}),
        ("##[error]Bash exited with code '137'.", "killed", {}),
        ("srun: error: n01: task 0: Out Of Memory", "killed", {}),
        ("error: Double type is not supported on this platform.", "device-unfit", {"message": "Double type is not supported on this platform"}),
        ("/usr/bin/ld.gold: internal error in do_layout, at object.cc:1939", "program-crashed", {"message": "internal error in do_layout, at object.cc:1939", "compiler": "yes"}),
        ("clang-offload-bundler: Unknown command line argument '--compress'.  Try: 'clang-offload-bundler --help'", "unknown-flag", {"tool": "clang-offload-bundler", "flag": "--compress"}),
        ("ld: error: a.hip.o:(function at::f() const: .text+0x12a): relocation R_X86_64_PC32 out of range: -17592377120700 is not in [-2147483648, 2147483647]", "relocation-unfit", {"relocation": "R_X86_64_PC32"}),
        ("llvm-foreach: No such file or directory", "command-missing", {"program": "llvm-foreach"}),
        ("error: builder for '/nix/store/x-torch-2.11.0.drv' failed due to signal 9 (Killed);", "killed", {}),
        ("ccache: error: Failed to fork: Invalid argument", "too-many-processes", {"message": "Invalid argument"}),
        ("/usr/bin/ld:/home/me/cmake/linker_script.ld:1: syntax error", "tool-error", {"tool": "ld", "message": "/home/me/cmake/linker_script.ld:1: syntax error"}),
        # MSBuild passes on what nvcc says, with its own blank, node and project.
        ('C:\\Users\\M F B\\cuda\\std\\type_traits(4333): error : "cuda" is ambiguous [C:\\dgl.vcxproj]', "headers-unfit", {"file": "C:\\Users\\M F B\\cuda\\std\\type_traits", "line": "4333", "message": '"cuda" is ambiguous [C:\\dgl.vcxproj]', "in_cuda": "\\cuda\\std\\"}),
        ("/bin/sh: 1: :/usr/local/cuda/bin/nvcc: not found", "command-missing", {"program": ":/usr/local/cuda/bin/nvcc"}),
        ("MIOpen(HIP): Warning [BuildOcl] error: cannot find ROCm device library for ABI version 6; provide its path via '--rocm-path'", "compiler-part-missing", {"tool": "the build", "name": "ROCm device library for ABI version 6", "rocm": "ROCm"}),
        ("nvrtc: error: failed to open nvrtc-builtins64_121.dll.", "shared-library-missing", {"library": "nvrtc-builtins64_121.dll"}),
        ("Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file: No such file or directory", "shared-library-missing", {"library": "libnvrtc.so"}),
        ("Memory access fault by GPU node-1 on address 0x7f1c2e000000. Reason: Page not present or supervisor privilege.", "gpu-failed", {"message": "Memory access fault by GPU node-1 on address 0x7f1c2e000000. Reason: Page not present or supervisor privilege.", "illegal": "Memory access fault"}),
        ("icpx: error: unknown argument: '-fsycl-x'", "unknown-flag", {"tool": "icpx", "flag": "-fsycl-x"}),
        ("error: could not create 'build/lib': Permission denied", "permission-denied", {"name": "build/lib"}),
        ("mold: error: a.o:(.eh_frame): relocation R_X86_64_PC32 against f out of range: 1 is not in [2, 3]", "relocation-unfit", {"relocation": "R_X86_64_PC32"}),
        ("wget: unable to resolve host address ‘example.invalid’", "network", {"host": "example.invalid"}),
        ("./configure: line 42: syntax error near unexpected token `('", "script-unfit", {"file": "./configure", "line": "42", "message": "syntax error near unexpected token `('"}),
        ("- ImportError: libnuma.so.1: cannot open shared object file: No such file or directory", "shared-library-missing", {"library": "libnuma.so.1"}),
        ("/usr/bin/ld: cannot find -l:libnvshmem_host.so: No such file or directory", "library-missing", {"exact": ":", "library": "libnvshmem_host.so"}),
        ("sccache: caused by: PCH not supported by nvcc", "launcher-failed", {"tool": "sccache", "message": "PCH not supported by nvcc", "refused": "caused by"}),
        ("ld: unsupported tapi file type '!tapi-tbd' in YAML file '/x/libSystem.tbd' for architecture x86_64", "linker-too-old", {"tapi": "tapi", "file": "/x/libSystem.tbd"}),
        ("AssertionError: spconv is required for this model, please install it first.", "python-module-missing", {"module": "spconv"}),
        ("gmake[3]: *** [CMakeFiles/_C.dir/build.make:156: CMakeFiles/_C.dir/q.o] Interrupt", "interrupted", {}),
        ("/x/torch/include/c10/util/StringUtil.h(68): catastrophic error: out of memory", "out-of-memory", {"message": "out of memory"}),
        ("OSError: ROCM_HOME environment variable is not set. Please set it to your ROCm install root.", "compiler-part-missing", {"tool": "the build", "name": "ROCM_HOME", "rocm_home": "ROCM"}),
        ("AttributeError: /x/libbitsandbytes_cuda114.so: undefined symbol: clion32bit_g32", "undefined-symbol", {"file": "/x/libbitsandbytes_cuda114.so", "loaded": "yes", "symbol": "clion32bit_g32"}),
        ("error: [WinError 2] The system cannot find the file specified", "command-missing", {}),
        ("FileNotFoundError: [WinError 2] 系统找不到指定的文件。", "command-missing", {}),
        # clang for Windows names places as MSVC does.
        ("C:/b/pytorch/MemoryAccess.cuh(240,5): error: reference to __host__ function 'memcpy' in __device__ function", "host-function-in-device-code", {"file": "C:/b/pytorch/MemoryAccess.cuh", "line": "240", "message": "reference to __host__ function 'memcpy' in __device__ function"}),
        ("C:/b/a.cpp(3,5): error: unused variable 'x' [-Werror,-Wunused-variable]", "warning-as-error", {"file": "C:/b/a.cpp", "line": "3", "message": "unused variable 'x'", "flag": "-Wunused-variable"}),
        ("C:/b/a.cpp(3,5): error: use of undeclared identifier 'x'", "source-error", {"file": "C:/b/a.cpp", "line": "3", "message": "use of undeclared identifier 'x'"}),
        ("a.cpp:1:1: error: bad value ('znver5') for '-march=' switch", "compiler-too-old", {"tool": "gcc", "needed": "znver5"}),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "package-refuses", {"message": "FlashAttention only supports Ampere GPUs or newer.", "attention": "FlashAttention"}),
        ("AssertionError: Device compute capability 8.9 or higher required for FP8 execution.", "package-refuses", {"message": "Device compute capability 8.9 or higher required for FP8 execution."}),
        ("RuntimeError: The installed bitsandbytes was compiled without GPU support.", "package-refuses", {"message": "The installed bitsandbytes was compiled without GPU support.", "built": "compiled"}),
        ("pkg_resources.VersionConflict: (torch 1.13 (/x), Requirement.parse('torch>=2.0'))", "package-wants-release", {"message": "(torch 1.13 (/x), Requirement.parse('torch>=2.0'))", "name": "torch", "range": ">=2.0", "spec": ">=2.0"}),
        ("zsh: killed     ninja -C build", "killed", {"program": "ninja -C build"}),
        ("ld: framework not found Metal", "library-missing", {"library": "Metal"}),
        ("lld-link: error: could not open 'numa.lib': no such file or directory", "library-missing", {"library": "numa"}),
        ("configure: error: no acceptable C compiler found in $PATH", "command-missing", {"program": "C compiler"}),
        ("LINK : fatal error LNK1158: cannot run 'rc.exe'", "command-missing", {"program": "rc.exe"}),
        ("LINK : fatal error LNK1000: unknown error at 00007FF6FB5A4241", "program-crashed", {"message": "LNK1000: unknown error at 00007FF6FB5A4241", "compiler": "yes"}),
        ("/usr/bin/env: 'python': No such file or directory", "command-missing", {"program": "python"}),
        ("./a.out: error while loading shared libraries: libfoo.so.1: cannot open shared object file: No such file or directory", "shared-library-missing", {"library": "libfoo.so.1"}),
        ("error: could not delete 'build\\a.pyd': Access is denied", "permission-denied", {"name": "build\\a.pyd", "in_use": "could not delete"}),
        ("PermissionError: [WinError 32] The process cannot access the file because it is being used by another process: 'a.pyd'", "permission-denied", {"name": "a.pyd", "in_use": "WinError 32"}),
        ("subprocess.TimeoutExpired: Command '['nvcc']' timed out after 60 seconds", "python-exception", {"kind": "subprocess.TimeoutExpired", "message": "Command '['nvcc']' timed out after 60 seconds"}),
        ("a.cpp:1:2: error: implicit instantiation of undefined template 'std::vector<int>'", "include-missing", {"file": "a.cpp", "line": "1", "space": "std", "name": "vector", "include": "the one of its own name, as <vector> for std::vector", "header": "vector"}),
        ("Cuda Configuration Error: Cannot find cuda library cudart", "tool-error", {"tool": "Cuda", "message": "Cannot find cuda library cudart"}),
        # A log in the wrong encoding.
        ("q4_matmul.obj : error LNK2001: symbole externe non r\u201asolu cublasHgemm", "undefined-symbol", {"file": "q4_matmul.obj", "object": "obj", "symbol": "cublasHgemm"}),
        ("lltm.obj : error LNK2001: 无法解析的外部符号 __imp_THPVariableClass", "undefined-symbol", {"file": "lltm.obj", "object": "obj", "symbol": "__imp_THPVariableClass"}),
        ("a.h(137): error: expected a comma (the one-argument version of static_assert is not enabled in this mode)", "language-standard", {"file": "a.h", "line": "137", "feature": "the one-argument version of static_assert"}),
        ("Allocator.h:46:8: error: no template named 'unique_ptr' in namespace 'std'", "language-standard", {"file": "Allocator.h", "line": "46", "feature": "unique_ptr"}),
        ("a.cpp:3:8: error: ‘optional’ is not a member of ‘std’", "language-standard", {"file": "a.cpp", "line": "3", "feature": "optional"}),
        ("a.cpp:3:8: Fehler: »optional« ist kein Element von »std«", "language-standard", {"file": "a.cpp", "line": "3", "feature": "optional"}),
        ("a.cpp(3): error C2039: 'optional': is not a member of 'std'", "language-standard", {"file": "a.cpp", "line": "3", "feature": "optional"}),
        ('a.cu(3): error: namespace "std" has no member "is_same_v"', "language-standard", {"file": "a.cu", "line": "3", "feature": "is_same_v"}),
        ('c10/ptr.h(775): error: namespace "std" has no member "strong_ordering"', "language-standard", {"file": "c10/ptr.h", "line": "775", "feature": "strong_ordering"}),
        ("Step #1: /pytorch/jpegcommon.h:7:10: fatal error: 'jpeglib.h' file not found", "header-missing", {"file": "/pytorch/jpegcommon.h", "line": "7", "header": "jpeglib.h"}),
        ('Error\tLNK2019\tunresolved external symbol "void __cdecl c10::f(void)" (?f@c10@@YAXXZ)\tproject\tSource.obj\t1\t', "undefined-symbol", {"symbol": "void __cdecl c10::f(void)"}),
        ("ld: /x/libgomp-52f2fd74.so.1: undefined reference to `clock_gettime@GLIBC_2.17'", "shared-library-version", {"file": "/x/libgomp-52f2fd74.so.1", "version": "GLIBC_2.17", "glibc": "GLIBC_2.17", "library": "the library that this linker finds first"}),
        ("/usr/bin/ld: /opt/rocm/lib/libamdhip64.so.6: undefined reference to `hsa_amd_vmem_map@ROCR_1'", "shared-library-version", {"file": "/opt/rocm/lib/libamdhip64.so.6", "version": "ROCR_1", "own": "ROCR_1", "library": "the library that this linker finds first"}),
        ("g++: error: /x/ext_kernel.o: no such file or directory", "missing-input", {"name": "/x/ext_kernel.o", "linked": "yes"}),
        ("  138 | #error -- this GNU is too new", "source-refuses", {"line": "138", "message": "-- this GNU is too new"}),
        ('a.cuh(503): error: namespace "thrust" has no member "device"', "include-missing", {"file": "a.cuh", "line": "503", "space": "thrust", "name": "device", "include": "<thrust/execution_policy.h>", "header": "thrust/execution_policy.h"}),
        ("a.cpp:3:8: error: ‘sort’ is not a member of ‘std’; did you mean ‘sqrt’?", "include-missing", {"file": "a.cpp", "line": "3", "space": "std", "name": "sort", "include": "<algorithm> (accumulate, iota: <numeric>)", "header": "algorithm"}),
        ("a.cpp(3): error C2039: 'sort': is not a member of 'std'", "include-missing", {"file": "a.cpp", "line": "3", "space": "std", "name": "sort", "include": "<algorithm> (accumulate, iota: <numeric>)", "header": "algorithm"}),
        ("ld: libcaffe2.so: undefined reference to `__atomic_fetch_add_8'", "undefined-symbol", {"file": "libcaffe2.so", "symbol": "__atomic_fetch_add_8"}),
        # Whose file it is, tells more than the message.
        ('/opt/conda/include/cub/device/dispatch/dispatch_histogram.cuh(722): error: identifier "OffsetT" is undefined', "headers-unfit", {"file": "/opt/conda/include/cub/device/dispatch/dispatch_histogram.cuh", "line": "722", "message": 'identifier "OffsetT" is undefined', "in_cuda": "/cub/"}),
        (r"C:/Program Files (x86)/CUDA/v11.8/include\cub/device/dispatch/dispatch_segmented_sort.cuh(338): error: expected an identifier", "headers-unfit", {"file": r"C:/Program Files (x86)/CUDA/v11.8/include\cub/device/dispatch/dispatch_segmented_sort.cuh", "line": "338", "message": "expected an identifier", "in_cuda": "\\cub/"}),
        ("/usr/include/c++/12/bits/shared_ptr.h(123): error: not a class or struct name", "headers-unfit", {"file": "/usr/include/c++/12/bits/shared_ptr.h", "line": "123", "message": "not a class or struct name", "in_host": "/include/c++/"}),
        ("/usr/include/c++/12/bits/stl_vector.h:123:3: error: no match", "source-error", {"file": "/usr/include/c++/12/bits/stl_vector.h", "line": "123", "message": "no match"}),
        ("/x/site-packages/torch/include/c10/util/Half.h:30:3: error: expected a type", "headers-unfit", {"file": "/x/site-packages/torch/include/c10/util/Half.h", "line": "30", "message": "expected a type", "in_torch": "torch"}),
        ('simple_knn.cu(90): error: identifier "FLT_MAX" is undefined', "include-missing", {"file": "simple_knn.cu", "line": "90", "name": "FLT_MAX", "include": "<cfloat> (in C <float.h>)", "header": "cfloat"}),
        ("a.cpp(7): error C2065: 'M_PI': undeclared identifier", "include-missing", {"file": "a.cpp", "line": "7", "name": "M_PI", "include": "<cmath>, on Windows with _USE_MATH_DEFINES defined before it", "header": "cmath"}),
        ("a.h:7:3: error: ‘uint32_t’ does not name a type", "include-missing", {"file": "a.h", "line": "7", "name": "uint32_t", "include": "<cstdint> (in C <stdint.h>)", "header": "cstdint"}),
        ("a.h:7:3: error: use of undeclared identifier 'memcpy'", "include-missing", {"file": "a.h", "line": "7", "name": "memcpy", "include": "<cstring>", "header": "cstring"}),
        ("nvcc fatal   : Value 'c++17' is not defined for option 'std'", "option-unfit", {"tool": "nvcc", "value": "c++17", "flag": "std"}),
        ("nvcc fatal   : 'arch=native': expected a number", "option-unfit", {"tool": "nvcc", "value": "native", "flag": "arch"}),
        ("C:\\CUDA\\v12.8\\include\\cooperative_groups\\details/reduce.h(401): error C2872: 'cuda' : symbole ambigu", "headers-unfit", {"file": "C:\\CUDA\\v12.8\\include\\cooperative_groups\\details/reduce.h", "line": "401", "message": "'cuda' : symbole ambigu", "in_cuda": "\\CUDA\\v12.8\\include\\"}),
        ("nvcc fatal   : redefinition of argument 'compiler-bindir'", "option-unfit", {"tool": "nvcc", "flag": "compiler-bindir", "twice": "redefinition"}),
        ("make: *** No rule to make target 'cuda11x'.  Stop.", "makefile-unfit", {"name": "cuda11x"}),
        ("make: *** 没有规则可制作目标“cuda11x”。 停止。", "makefile-unfit", {"name": "cuda11x"}),
        ("make: *** No rule to make target 'a.c', needed by 'a.o'.  Stop.", "missing-input", {"name": "a.c", "target": "a.o"}),
        ("ModuleNotFoundError: spconv not found. you need to install it by pip.", "python-module-missing", {"module": "spconv"}),
        ("ImportError: cannot import name 'NVRTCMode' from 'cumm.gemm.constants' (/x/cumm/gemm/constants.py)", "python-name-missing", {"name": "NVRTCMode", "module": "cumm", "file": "/x/cumm/gemm/constants.py"}),
        ("gsplat/Common.h:5:10: fatal error: glm/gtc/type_ptr.hpp: No such file or directory", "header-missing", {"file": "gsplat/Common.h", "line": "5", "header": "glm/gtc/type_ptr.hpp"}),
        ('"__cvtu32_mask16", referenced from:', "undefined-symbol", {"symbol": "__cvtu32_mask16"}),
        ("ImportError: cannot import name '_C' from 'detectron2' (/x/detectron2/__init__.py)", "extension-module-missing", {"name": "_C", "module": "detectron2"}),
        ("ModuleNotFoundError: No module named 'mmcv._ext'", "extension-module-missing", {"name": "_ext", "module": "mmcv"}),
        ("ImportError: dlopen(/x/_k2.so, 2): Library not loaded: @rpath/libmkl_core.2.dylib", "shared-library-missing", {"library": "libmkl_core.2.dylib"}),
        ("subprocess.CalledProcessError: Command '['which', 'g++']' returned non-zero exit status 1.", "command-missing", {"program": "g++"}),
        ("lto1: fatal error: bytecode stream in file 'a.o' generated with LTO version 12.0 instead of the expected 11.3", "objects-mixed", {"version": "12.0", "expected": "11.3"}),
        ("RuntimeError:", "python-exception", {"kind": "RuntimeError"}),
        ("Exception: not with this CUDA", "python-exception", {"kind": "Exception", "message": "not with this CUDA"}),
        ("PackagesNotFoundError: The following packages are not available from current channels:", "conda-package-missing", {}),
        ("ImportError: DLL load failed: The operating system cannot run %1.", "shared-library-missing", {"message": "The operating system cannot run %1."}),
        ("distcc[4711] ERROR: compile a.cpp on localhost failed", "tool-error", {"file": "a.cpp", "remote": "localhost"}),
        ('sccache: caused by: Compiler not supported: "nvcc fatal   : Failed to preprocess host compiler properties.\\n"', "launcher-failed", {"tool": "sccache", "message": "nvcc fatal   : Failed to preprocess host compiler properties.", "refused": "caused by"}),
        ("sccache: caused by: cannot find binary path", "launcher-failed", {"tool": "sccache", "message": "cannot find binary path", "refused": "caused by"}),
        ("sccache: error: Timed out waiting for server startup", "launcher-failed", {"message": "Timed out waiting for server startup", "server": "yes"}),
        ("sccache: error: Connection to server timed out", "launcher-failed", {"message": "Connection to server timed out", "server": "yes"}),
        ("caused by: error reading compile response from server", "launcher-failed", {"message": "error reading compile response from server", "server": "yes", "died": "error reading compile response"}),
        ("ERROR 2023-03-03T20:31:14Z: sccache::server: failed to start server: Invalid argument (os error 22)", "launcher-failed", {"message": "failed to start server: Invalid argument (os error 22)", "server": "yes"}),
        ('ccache: error: Could not find compiler "g++-13" in PATH', "command-missing", {"program": "g++-13"}),
        ("clang++-18: error: unable to execute command: Killed", "killed", {"program": "clang++-18"}),
        ("gcc: fatal error: cannot execute ‘cc1plus’: execvp: No such file or directory", "command-missing", {"program": "cc1plus"}),
        ("    unable to execute 'x86_64-linux-gnu-gcc': No such file or directory", "command-missing", {"program": "x86_64-linux-gnu-gcc"}),
        ("error: command 'swig.exe' failed: None", "command-missing", {"program": "swig.exe"}),
        ("Cargo, the Rust package manager, is not installed or is not on PATH.", "command-missing", {"program": "Cargo"}),
        ("subprocess.CalledProcessError: Command '['cmake', '--version']' returned non-zero exit status 1.", "program-broken", {"program": "cmake"}),
        ("AttributeError: module 'distutils' has no attribute '_msvccompiler'. Did you mean: 'ccompiler'?", "python-name-missing", {"module": "distutils", "name": "_msvccompiler"}),
        ("ModuleNotFoundError: No module named 'deepspeed.ops.op_builder'", "python-part-missing", {"module": "deepspeed", "name": ".ops.op_builder"}),
        ("ERROR: Invalid requirement: '--global-option=--cpp_ext'", "packaging-invalid", {"flag": "--global-option=--cpp_ext"}),
        ("error: can't copy 'deepspeed/accelerator': doesn't exist or not a regular file", "file-missing", {"name": "deepspeed/accelerator"}),
        ("  Backend 'setuptools.build_meta:__legacy__' is not available.", "build-backend-missing", {"module": "setuptools.build_meta:__legacy__"}),
        ("clang-11: error: cannot find ROCm installation.  Provide its path via --rocm-path, or pass -nogpulib.", "compiler-part-missing", {"tool": "clang-11", "name": "ROCm installation", "rocm": "ROCm"}),
        ("clang: error: unsupported argument 'libomp' to option 'fopenmp='", "compiler-part-missing", {"tool": "clang", "openmp": "openmp"}),
        ("gcc: error: unrecognized command line option ‘-std=c++14’", "compiler-too-old", {"tool": "gcc", "needed": "-std=c++14"}),
        ("c++: error: -E or -x required when input is from standard input", "unknown-flag", {"tool": "c++", "flag": "-"}),
        ("/x/compiler_compat/ld: build/box.o: unable to initialize decompress status for section .debug_info", "linker-too-old", {"file": "build/box.o"}),
        ("    /usr/bin/ld: cannot find /x/flash_fwd_hdim224_fp16_sm80.o: No such file or directory", "missing-input", {"name": "/x/flash_fwd_hdim224_fp16_sm80.o", "linked": "yes"}),
        ("C:/Temp/tmpl/__triton_launcher.c:7: error: include file 'Python.h' not found", "header-missing", {"file": "C:/Temp/tmpl/__triton_launcher.c", "line": "7", "header": "Python.h"}),
        ("fatal error: 'atomic' file not found", "header-missing", {"header": "atomic"}),
        ("faiss/swigfaiss.i:268: Error: Unable to find 'faiss/impl/platform_macros.h'", "header-missing", {"file": "faiss/swigfaiss.i", "line": "268", "header": "faiss/impl/platform_macros.h"}),
        ("  swig error : Unrecognized option -doxygen", "unknown-flag", {"tool": "swig", "flag": "-doxygen"}),
        ('C:\\VC\\Platform.targets(67,5): error MSB8020: The build tools for v143 (Platform Toolset = \'v143\') cannot be found. [C:\\x.vcxproj]', "visual-studio-incomplete", {"name": "v143"}),
        ('C:\\x.vcxproj(29,3): error MSB4019: The imported project "C:\\Microsoft.Cpp.Default.props" was not found.', "visual-studio-incomplete", {"file": "C:\\Microsoft.Cpp.Default.props"}),
        ("LINK : fatal error LNK1181: cannot open input file '.obj'", "option-unfit", {"tool": "LINK"}),
        ("bias_act.o : fatal error LNK1000: Internal error during IMAGE::Pass1", "program-crashed", {"message": "LNK1000: Internal error during IMAGE::Pass1", "compiler": "yes"}),
        ("dyld: Library not loaded: @rpath/libopenh264.5.dylib", "shared-library-missing", {"library": "libopenh264.5.dylib"}),
        ('MHA.cpp.obj : error LNK2019: unresolved external symbol nvrtcCreateProgram referenced in function "void __cdecl f(void)" (?f@@YAXXZ)', "undefined-symbol", {"file": "MHA.cpp.obj", "object": "obj", "symbol": "nvrtcCreateProgram"}),
        ('Mkl.cpp.obj : error LNK2019: unresolved external symbol i_malloc referenced in function "void __cdecl f(void)" (?f@@YAXXZ)', "undefined-symbol", {"file": "Mkl.cpp.obj", "object": "obj", "symbol": "i_malloc"}),
        ('"___kmpc_critical", referenced from:', "undefined-symbol", {"symbol": "___kmpc_critical"}),
        ("a.cc:28:47: error: too few arguments to function ‘cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int)’", "library-api-unfit", {"file": "a.cc", "line": "28", "name": "cudaE", "message": "too few arguments to function 'cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int)'"}),
        ("LINK : fatal error LNK1181: cannot open input file 'C:\\x\\build\\temp\\nms.obj'", "missing-input", {"name": "C:\\x\\build\\temp\\nms.obj", "linked": "yes"}),
        ('/x/torch/include/pybind11/buffer_info.h(110): error: identifier "Py_buffer" is undefined', "limited-api-too-small", {"file": "/x/torch/include/pybind11/buffer_info.h", "line": "110", "name": "Py_buffer"}),
        ("a.cpp:9:3: error: ‘PyTuple_SET_ITEM’ was not declared in this scope", "limited-api-too-small", {"file": "a.cpp", "line": "9", "name": "PyTuple_SET_ITEM"}),
        ("  ╰─▶ Extra build requirement `torch` was declared with `match-runtime", "tool-error", {"tool": "uv", "message": "Extra build requirement `torch` was declared with `match-runtime"}),
        # Tools of one kind have one form, each in words of its own.
        ("error: Distribution `torch==2.2.0 @ registry+https://x` can't be installed because it doesn't have a source distribution or wheel for the current platform", "requirement-not-found", {"requirement": "torch==2.2.0", "platform": "platform"}),
        ("==> Error: py-torch@1.11 cuda_arch=70 ^cuda@11.5 is unsatisfiable, conflicts are:", "version-conflict", {"requirement": "py-torch@1.11 cuda_arch=70 ^cuda@11.5"}),
        ("ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'requirements.txt'", "file-missing", {"name": "requirements.txt"}),
        ("pyproject_hooks._impl.BackendUnavailable: Cannot import 'backend'", "build-backend-missing", {"module": "backend"}),
        ("Error: Unable to find a match: ninja-build", "system-package-unavailable", {"name": "ninja-build"}),
        ("  openblas-devel (no such package):", "system-package-unavailable", {"name": "openblas-devel"}),
        ("E: Failed to fetch http://archive.ubuntu.com/x.deb  404  Not Found [IP: 10.0.0.1 80]", "network", {"host": "http://archive.ubuntu.com/x.deb"}),
        ("E: Sub-process /usr/bin/dpkg returned an error code (1)", "", {}),
        ("==> Error: ProcessError: Command exited with status 1:", "", {}),
        ("BUILD FAILED", "", {}),
        ("torchwheel: the command ended with exit status 1", "", {}),
        ("ERROR Backend subprocess exited when trying to invoke build_wheel", "", {}),
        ("Backend subprocess exited when trying to invoke build_wheel", "", {}),
        ("E: Some index files failed to download.", "tool-error", {"message": "Some index files failed to download."}),
        ("ERROR: You must give at least one requirement to install", "tool-error", {"message": "You must give at least one requirement to install"}),
        ("error: Multiple top-level packages discovered in a flat-layout: ['csrc', 'mylib'].", "packaging-invalid", {"message": "Multiple top-level packages discovered in a flat-layout: ['csrc', 'mylib']."}),
        ("ValueError: Unable to determine which files to ship inside the wheel using the following heuristics:", "packaging-invalid", {"message": "Unable to determine which files to ship inside the wheel using the following heuristics:", "hatch": "Unable"}),
        ("error: The requested interpreter resolved to Python 3.9.6, which is incompatible with the project's Python requirement: `>=3.10`", "interpreter-unfit", {"message": "The requested interpreter resolved to Python 3.9.6, which is incompatible with the project's Python requirement: `>=3.10`"}),
        ("ERROR: Can not execute `setup.py` since setuptools is not available in the build environment.", "python-module-missing", {"module": "setuptools"}),
        ("error: invalid command 'bdist_wheel'", "python-module-missing", {"module": "wheel"}),
        ("RuntimeError: CUDA binary not found at /x/y/liby_cuda130.so", "extension-module-missing", {"name": "/x/y/liby_cuda130.so"}),
        ("AttributeError: 'NoneType' object has no attribute 'causal_conv1d_fwd'", "extension-module-missing", {"name": "causal_conv1d_fwd"}),
        ("ImportError: dlopen(/x/_C.so, 2): Library not loaded: @rpath/libomp.dylib", "shared-library-missing", {"library": "libomp.dylib"}),
        ("ImportError: DLL load failed while importing _C: The specified module could not be found.", "shared-library-missing", {"library": "_C"}),
        ("RuntimeError: Ninja is required to load C++ extensions", "command-missing", {"program": "Ninja"}),
        ("RuntimeError: flash_attn was not compiled with support for head dimension 256", "package-refuses", {"message": "flash_attn was not compiled with support for head dimension 256", "built": "compiled", "attention": "flash_attn"}),
        ("a.cpp(12): error C2338: static_assert failed: 'int is 64 bits'", "source-refuses", {"file": "a.cpp", "line": "12", "assertion": "C2338", "message": "static_assert failed: 'int is 64 bits'"}),
        ('a.cpp:1:2: error: #error "this needs C++17"', "source-refuses", {"file": "a.cpp", "line": "1", "message": '"this needs C++17"'}),
        ('a.cu(12): error: identifier "foo" is undefined', "source-error", {"file": "a.cu", "line": "12", "message": 'identifier "foo" is undefined'}),
        ("clang: error: no such file or directory: 'b.cpp'", "file-missing", {"name": "b.cpp"}),
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", "killed", {"program": "ld"}),
        ("nvcc error   : 'cudafe++' died with status 0xC0000409", "program-crashed", {"compiler": "yes", "program": "cudafe++", "message": "with status 0xC0000409"}),
        ("ptxas a.ptx, line 20; fatal   : Parsing error near '.foo': syntax error", "assembler-error", {"file": "a.ptx", "line": "20", "message": "Parsing error near '.foo': syntax error"}),
        ("swig error : Unrecognized option -doxygen", "unknown-flag", {"tool": "swig", "flag": "-doxygen"}),
        ("./configure: line 5: aclocal: command not found", "command-missing", {"program": "aclocal"}),
        ("CMake Error: Unknown argument -Wfoo", "cmake-error", {"message": "Unknown argument -Wfoo"}),
        ("OSError: [Errno 30] Read-only file system: '/usr/x'", "permission-denied", {"read_only": "30", "name": "/usr/x"}),
        ("cat: version.txt: No such file or directory", "file-missing", {"name": "version.txt"}),
        ("collect2: fatal error: cannot find 'ld'", "command-missing", {"program": "ld"}),
        ("gmake: Makefile: No such file or directory", "file-missing", {"name": "Makefile"}),
        ("meson.build:3:0: ERROR: Program 'cython' not found or not executable", "command-missing", {"program": "cython"}),
        ("ninja: fatal: posix_spawn: Resource temporarily unavailable", "too-many-processes", {"message": "Resource temporarily unavailable"}),
        ("nvcc fatal   : Cannot find compiler 'cl.exe' in PATH", "command-missing", {"program": "cl.exe"}),
        ("/bin/sh: 1: g++: Argument list too long", "path-too-long", {"command_line": "Argument list too long"}),
        ("clang++: error: unable to execute command: Killed", "killed", {"program": "clang++"}),
        ("a.vcxproj(12,5): error MSB8036: The Windows SDK version 10.0.19041.0 was not found.", "visual-studio-incomplete", {"name": "SDK version 10.0.19041.0"}),
        ("ERROR: Invalid requirement: 'torch=>2': Expected end or semicolon", "packaging-invalid", {"requirement": "'torch=>2': Expected end or semicolon"}),
        # What Python shows of another program's output.
        ("RuntimeError: Error building extension 'x': b'[1/2] c++ -c main.cpp\\nFAILED: main.o\\nmain.cpp:1:23: error: expected \\xe2\\x80\\x98;\\xe2\\x80\\x99\\n'", "source-error", {"file": "main.cpp", "line": "1", "message": "expected ‘;’"}),
        ("RuntimeError: b'running build_ext\\nclang: error: unsupported option \\'-fopenmp\\'\\n'", "compiler-part-missing", {"tool": "clang", "openmp": "openmp"}),
        ("qemu.Vllm: a.cpp:7:10: error: no", "source-error", {"file": "a.cpp", "line": "7", "message": "no"}),
    ],
)  # fmt: skip
def test_lines_of_other_languages_and_of_public_logs(
    line: str, error_class: str, captures: dict[str, str]
) -> None:
    """Threads: pytorch/vision#2724, pytorch/audio#1266, pytorch/pytorch#22898, 33039 and 105719, NVIDIA/cccl#327,
    NVIDIA/MinkowskiEngine#594, facebookresearch/xformers#437, AutoGPTQ/AutoGPTQ#247 and 529, pytorch/extension-cpp#2,
    rusty1s/pytorch_scatter#21, zhanghang1989/PyTorch-Encoding#297, bitsandbytes-foundation/bitsandbytes#221,
    isl-org/StableViewSynthesis#19, Turoad/lanedet#77, OpenNebula/one-apps#290, facebookresearch/pytorch3d#1313, 1614 and
    1743, bitsandbytes-foundation/bitsandbytes#222 and 1073, zju3dv/street_gaussians#71, conda-forge/nvcc-feedstock#34,
    FindDefinition/cumm#9, nerfstudio-project/gsplat#746, pytorch/pytorch#34451, 64154 and 95997, pytorch/vision#6836,
    pytorch/test-infra#1414, mozilla/sccache#176, k2-fsa/k2#1327, facebookresearch/maskrcnn-benchmark#156,
    traveller59/spconv#388, google/pytype#393, faiss-wheels/faiss-wheels#61, 82 and 96, safetensors/safetensors#314,
    StanfordVL/egl_probe#8, sgsdxzy/YuE-exllamav2#2, deepspeedai/DeepSpeed#2060 and 3207, microsoft/onnxruntime#13761
    and 14415, OpenAdaptAI/OpenAdapt#403, ROCm/hip#2086, alibaba/GraphScope#1831, Meteorix/pylcs#7, arch4edu/arch4edu#101,
    ContinuumIO/anaconda-issues#11152, facebookresearch/xformers#809, HerrDehy/SharePublic#1, pytorch/extension-cpp#1,
    osqp/qdldl#43, pytorch/pytorch#9791, 47460 and 121287, NVlabs/stylegan3#115, pytorch/vision#2360, jeffdaily/parasail#91,
    conda-forge/pytorch-cpu-feedstock#503, open-mmlab/OpenPCDet#804, pytorch/extension-cpp#112, NovaSky-AI/SkyRL#1382,
    pytorch/pytorch#22445.
    """
    found = classify(line)
    assert found is not None
    assert (found.form.id, found.captures) == (error_class, captures)


def test_what_cmake_names_below() -> None:
    near = ("CMake Error at third_party/kaldi/CMakeLists.txt:28 (add_library):",)
    below = ("", "    submodule/src/base/kaldi-error.cc")
    found = classify("  Cannot find source file:", lambda: near, lambda: below, in_cmake_error=True)
    assert found is not None
    assert (found.form.id, found.captures) == ("file-missing", {"name": below[1].strip()})


def test_an_exception_that_was_handled_is_no_failure_yet() -> None:
    after = ("", "      During handling of the above exception, another exception occurred:")
    found = classify("urllib.error.HTTPError: HTTP Error 404: Not Found", after=lambda: after)
    assert found is None or found.form.role is Role.NOISE
    found = classify("urllib.error.HTTPError: HTTP Error 404: Not Found")
    assert found is not None
    assert found.form.id == "python-exception"


NOISE = """\
ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.
fatal: not a git repository (or any of the parent directories): .git
WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'
make: [Makefile:3: clean] Error 1 (ignored)
distcc[4711] Warning: failed to distribute a.cpp to 10.0.0.9, running locally instead
distcc[4711] (dcc_build_somewhere) Warning: failed to distribute, running locally instead
distcc[4711] ERROR: nonblocking connect to 10.0.0.9:3632 failed: Connection refused
distcc[4711] ERROR: compile a.cpp on 10.0.0.9 failed
ICECC[4711] 2026-11-22 17:17:55: connect(Error: Connection refused)
ERROR: ld.so: object 'libjemalloc.so.2' from LD_PRELOAD cannot be preloaded (no such file): ignored.
E: Can not write log (Is /dev/pts mounted?) - posix_openpt (19: No such device)
""".splitlines()


def test_what_is_no_failure() -> None:
    found = {line: classify(line) for line in NOISE}
    assert [line for line, one in found.items() if one is None or one.form.role is not Role.NOISE] == []


NOTHING = """\
-- Looking for C++ include error.h - not found
-- Could NOT find MKL (missing: MKL_INCLUDE_DIR)
[12/345] Building CXX object c10/CMakeFiles/c10.dir/util/Exception.cpp.o
[ 45%] Building CXX object error_handler.cpp.o
a.cpp:3:7: warning: unused variable 'x' [-Wunused-variable]
a.cpp:3:7: note: 'x' declared here
a.cpp(12): warning C4996: 'strcpy': This function may be unsafe
tests/test_a.py::test_error PASSED
tests/test_a.py::test_FAILED_case PASSED
-- Performing Test COMPILER_SUPPORTS_FATAL - Failed
Requirement already satisfied: exceptiongroup in ./lib
Traceback (most recent call last):
Program doxygen found: NO
LINK : warning LNK4044: unrecognized option '/Wl,-rpath'; ignored
DEBUG Failed to find a registry wheel for flash-attn; building from source
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
libavutil header files were not found, disabling ffmpeg support
0 errors, 0 warnings
""".splitlines()


def test_what_reports_nothing() -> None:
    assert [line for line in NOTHING if classify(line)] == []


def test_typography() -> None:
    assert normalise_line("/usr/bin/ld : a.o : « foo() »") == "/usr/bin/ld: a.o: 'foo()'"
    assert normalise_line("a:1: 错误：x，y") == "a:1: error: x, y"


def test_a_program_that_a_frame_above_names() -> None:
    """Windows does not say which program it did not find (microsoft/BitNet#73)."""
    frames = [
        '    subprocess.run(["cmake", "--version"], capture_output=True)',
        "    with Popen(*popenargs) as process:",
    ]
    line = "FileNotFoundError: [WinError 2] The system cannot find the file specified"
    found = classify(line, lambda: frames)
    assert found is not None
    assert (found.form.id, found.captures["program"]) == ("command-missing", "cmake")
    assert "program" not in classify(line).captures  # type: ignore[union-attr]


def package(key: str, name: str, system: str = "Linux", family: str = "") -> str:
    return describe({key: name}, system, family).get("package", "")


def test_programs_and_what_brings_them() -> None:
    assert "rocm-llvm" in package("program", "/opt/rocm/llvm/bin/clang++")
    assert package("program", "C:\\tools\\swig.EXE") == (
        "install what brings swig.EXE (Debian, Ubuntu: swig; Fedora: swig; conda: swig; PyPI: swig; a release of the "
        "package that has a wheel for this Python needs none)"
    )
    assert package("program", "my_own") == ""


def test_headers_and_what_brings_them() -> None:
    numa = "Debian, Ubuntu: libnuma-dev; Fedora: numactl-devel; conda: libnuma"
    assert package("header", "numa.h") == f"install what brings numa.h ({numa})"
    for library in ("libnuma.so.1", "NUMA", "/usr/lib/libnuma.a", "numa.lib", "libnuma2-dev"):
        assert package("library", library).endswith(f" ({numa})")
    for key, name in (("header", "my_own.h"), ("library", "memory"), ("library", "_C")):
        assert package(key, name) == ""
    assert package("header", "THC/THC.h").startswith("no torch since 1.11 has THC/THC.h: ")
    for header in ("format", "source_location", "print"):
        assert "compiler" in package("header", header)
        assert "Debian" not in package("header", header)


@pytest.mark.parametrize(
    ("system", "family", "places"),
    [
        ("Linux", "debian", "Debian, Ubuntu: libpng-dev; conda: libpng"),
        ("Linux", "fedora", "Fedora: libpng-devel; conda: libpng"),
        ("Darwin", "", "macOS: `brew install libpng`; conda: libpng"),
        ("Windows", "", "conda: libpng"),
    ],
)
def test_packages_are_those_of_the_system(system: str, family: str, places: str) -> None:
    assert package("header", "png.h", system, family) == f"install what brings png.h ({places})"


@pytest.mark.parametrize(
    ("symbol", "owner", "link"),
    [
        ("_cusparseCreate", "CUDA's cuSPARSE", "-lcusparse"),
        ("cublasLtMatmul", "CUDA's cuBLASLt", "-lcublasLt"),
        ("cuMemAlloc", "the CUDA driver", "-lcuda"),
        ("__imp_THPVariableClass", "PyTorch's Python half", "-ltorch_python"),
        ("void __cdecl c10::f(void)", "PyTorch", "-lc10"),
        ("__atomic_fetch_add_8", "GCC's libatomic", "-latomic"),
        ("__cvtu32_mask16", "the compiler's own intrinsics", "too old"),
        ("nvrtcCreateProgram", "CUDA's run-time compiler", "-lnvrtc"),
        ("___kmpc_critical", "OpenMP", "-fopenmp"),
        ("__declspec(dllimport) omp_get_max_threads", "OpenMP", "-fopenmp"),
        ("std::runtime_error::runtime_error(char const*)", "the C++ standard library", "libstdc++"),
        ("culibosInit", "CUDA's static libraries", "-lculibos"),
        ("_OBJC_CLASS_$_MTLCompileOptions", "Apple's frameworks", "-framework Metal"),
        ("vtable for google::protobuf::Message", "protobuf", "-lprotobuf"),
        ("_ZN2at4cuda9warp_sizeEv", "PyTorch", "-ltorch_cuda"),
        ("_ZN4absl12lts_20230802Ev", "abseil", "absl"),
        ("public: long * __cdecl at::Tensor::data_ptr<long>(void)const ", "PyTorch for Linux and macOS", "int64_t"),
        ("my_ops::forward(at::Tensor const&)", "", ""),
    ],
)  # fmt: skip
def test_a_symbol_is_of_a_library(symbol: str, owner: str, link: str) -> None:
    found = describe({"symbol": symbol})
    assert found.get("owner", "") == owner
    assert link in found.get("link", "")


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("a.h:7:5: error: ‘AVBSFContext’ was not declared in this scope", {"api": "FFmpeg", "gone": "5"}),
        ("a.cc:9:3: error: 'AVStream' {aka 'struct AVStream'} has no member named 'codec'", {"api": "FFmpeg", "gone": "5"}),
        ("a.cpp:1:2: error: 'InferenceMode' is not a member of 'torch'", {"api": "PyTorch", "came": "1.9"}),
        ('C:\\x\\a.cpp(44): error C2039: "get": is not a member of "c10"', {"api": "PyTorch", "gone": "2.2"}),
        ("a.h:28:5: error: ‘AT_CHECK’ was not declared in this scope", {"api": "PyTorch (TH and THC)", "gone": "1.5"}),
        ('a.cu(42): error: identifier "THCudaCheck" is undefined', {"api": "PyTorch (TH and THC)", "gone": "1.11"}),
        ("a.cpp:3:6: error: cannot convert ‘at::DeprecatedTypeProperties’ to ‘at::ScalarType’", {"api": "PyTorch", "gone": "2.6"}),
        ('a.cu(6): error: no suitable conversion function from "const at::DeprecatedTypeProperties" to "c10::ScalarType" exists', {"api": "PyTorch", "gone": "2.6"}),
        ("N.hpp:1:9: error: ‘ncclConfig_t’ {aka ‘struct ncclConfig_v21700’} has no member named ‘commName’", {"api": "NCCL"}),
        ("N.hpp:1:9: error: use of undeclared identifier 'ncclCommWindowRegister'", {"api": "NCCL"}),
        ('/x/include/eigen3/Eigen/src/Core/Half.h(96): error: identifier "x" is undefined', {"api": "Eigen"}),
        ('a.cu(3): error: namespace "Eigen::half_impl" has no member "__half_raw"', {"api": "Eigen"}),
        ("a.cpp:1:2: error: 'class Mine' has no member named 'at'", {}),
        ("a.cpp:1:2: error: 'AVX2_ENABLED' was not declared in this scope", {}),
    ],
)  # fmt: skip
def test_a_name_of_another_release_of_a_library(line: str, known: dict[str, str]) -> None:
    found = classify(line)
    assert found is not None
    assert found.form.id == ("library-api-unfit" if known else "source-error")
    described = describe(found.captures)
    assert {key: described[key] for key in ("api", "gone", "came") if key in described} == known


def test_every_line_costs_bounded_time() -> None:
    """Patterns are tried on lines of the longest length, made of what they repeat."""
    pieces = ("a", " ", "a ", "a:1:", ": ", "'", '"a', "-l", "ld: ", "error ", "(.text+0x0): ", "\\", "x/", "[", "«")  # fmt: skip
    for piece in pieces:
        assert is_linear(lambda size, piece=piece: classify(piece * (size // len(piece))), 500), piece


def test_data_is_canonical() -> None:
    folder = REPOSITORY / "src/torchwheel/diagnosis/grammar"
    for file in folder.glob("*.toml"):
        text = file.read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert "\t" not in text


@pytest.mark.parametrize(
    "line",
    [
        "a.cpp:1:10: schwerwiegender Fehler: numa.h: Datei oder Verzeichnis nicht gefunden",
        "a.cpp:1:10: erreur fatale : numa.h : Aucun fichier ou dossier de ce type",
        "a.cpp:1:10: 致命错误：numa.h：没有那个文件或目录",
        "a.cpp:1:10: fatal error: numa.h: No such file or directory",
    ],
)
def test_the_words_of_errors_in_english(line: str) -> None:
    assert normalise_line(line) == "a.cpp:1:10: fatal error: numa.h: No such file or directory"
