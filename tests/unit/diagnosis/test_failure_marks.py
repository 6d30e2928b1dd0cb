# ruff: noqa: RUF001 - lines of logs as they were printed.
"""Lines that say no more than that something failed are never called clean, and those of a success are."""

from __future__ import annotations

import pytest

from torchwheel.diagnosis.failures import Outcome
from torchwheel.diagnosis.scanner import diagnose

MARKS = """\
FAILED: a.o
FAILED: [code=1] a.o
ninja: build stopped: subcommand failed.
make: *** [Makefile:2: all] Error 1
gmake[3]: *** [x.o] Fehler 2
*** Error code 1
*** [all] Error code 1
make: stopped in /usr/ports/science/py-pytorch
jom: C:\\x\\Makefile [all] Error 2
10>C:\\x\\type_traits(4333): error : "cuda" is ambiguous [C:\\x\\dgl.vcxproj]
Step #1: /x/a.h:7:10: fatal error: 'jpeglib.h' file not found
==> qemu.Vllm: a.cpp:7:1: error: no
make: *** [Makefile:2: all] Hangup
scons: *** [a.o] Error 1
cl : error D8016: '/Ox' and '/RTC1' command-line options are incompatible
a.cpp(3): error C2039: 'x': is not a member of 'std'
a.obj : error LNK2019: nicht aufgelöstes externes Symbol
NMAKE : fatal error U1077: 'cl.exe' : return code '0x2'
LINK : fatal error LNK1120: 3 unresolved externals
a.vcxproj(1,1): error MSB6006: "cmd.exe" exited with code 1.
Build FAILED.
Killed
zsh: killed     ninja
./build.sh: line 3:  4711 Segmentation fault      ./a.out
./build.sh: line 3:  4711 Terminated              ninja
error: command 'nvcc' failed with exit code 139
error: command '/usr/bin/gcc' failed with exit status 137
The command '/bin/sh -c pip wheel .' returned a non-zero code: 1
process "/bin/sh -c make" did not complete successfully: exit code: 2
AssertionError
StopIteration
subprocess.TimeoutExpired: Command '['nvcc']' timed out after 60 seconds
KeyboardInterrupt
Fatal Python error: Segmentation fault
error: subprocess-exited-with-error
ERROR Backend subprocess exited when trying to invoke build_wheel
  × Failed to build `demo @ file:///x`
error: Failed to prepare distributions
CondaBuildException: Build failed
error    libmamba Could not solve for environment specs
Error:   × Script failed with status 1
Error: Process completed with exit code 1.
-- Configuring incomplete, errors occurred!
ERROR:root:Error occurred while running command: Command '['cmake']' returned non-zero exit status 2.
Failed to compile. cc_cmd: ['tcc.exe', 'a.c']
Backend subprocess exited when trying to invoke build_wheel
PEP517 build of a dependency failed
Error compiling Cython file:
error[E0433]: failed to resolve: use of undeclared crate or module `foo`
thread 'main' panicked at build.rs:10:5
E: Unable to locate package libcudnn8
E: Sub-process /usr/bin/dpkg returned an error code (1)
dpkg: error processing package nvidia-dkms-535 (--configure):
Because torch (2.1.0) requires Python >=3.8, version solving failed.
==> Error: ProcessError: Command exited with status 1:
error: builder for '/nix/store/abc-torch.drv' failed with exit code 1;
xcrun: error: invalid active developer path (/Library/Developer/CommandLineTools)
configure: error: no acceptable C compiler found in $PATH
./configure: line 5: aclocal: command not found
onnx.proto: File not found.
[ERROR] Please install nvcc first
BUILD FAILED
The system cannot find the path specified.
""".splitlines()


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    "before", ["", "Successfully built markupsafe\n"], ids=["alone", "after another package"]
)
def test_a_mark_of_failure_is_never_clean(mark: str, before: str) -> None:
    assert diagnose([f"{before}compiling\n{mark}\n".encode()]).outcome is Outcome.FAILED


def test_what_failed_before_a_build_that_went_well_is_none() -> None:
    lines = "\n".join(mark for mark in MARKS)
    assert diagnose([f"{lines}\nSuccessfully built torch-2.14.1.whl\n".encode()]).outcome is Outcome.SUCCEEDED


def test_an_error_of_pip_s_resolver_after_a_success_is_none() -> None:
    log = (
        b"Successfully built demo\n"
        b"ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\n"
        b"torchvision 0.20 requires torch==2.5, but you have torch 2.6 which is incompatible.\n"
        b"Successfully installed demo-1.0\n"
    )
    assert diagnose([log]).outcome is Outcome.SUCCEEDED
