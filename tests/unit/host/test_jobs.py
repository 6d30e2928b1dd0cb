"""How many compilers run at once, on machines from a small container to a large server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipped_data import violations
from torchwheel.host import jobs as module
from torchwheel.host.jobs import Jobs, job_figures, jobs_for, memory_kinds

GIB = 1 << 30
DESKTOP = 33_378_976 * 1024


def cpu(memory: int | None, cores: int | None) -> Jobs:
    return jobs_for(memory, cores, cuda=False)


def with_cuda(memory: int | None, cores: int | None, architectures: int = 1) -> Jobs:
    return jobs_for(memory, cores, cuda=True, flash_attention=True, architectures=architectures)


def test_a_small_container() -> None:
    memory = "4.0 GiB of memory is"
    assert cpu(4 * GIB, 2) == Jobs(
        1, None, None, 1, f"{memory} enough for 1 job: a compile takes up to 2.0 GiB"
    )
    assert with_cuda(4 * GIB, 2) == Jobs(
        1, 1, 1, 1, f"{memory} little: an attention kernel alone may take 5.0 GiB"
    )


def test_a_desktop_of_24_cores_and_32_gb() -> None:
    memory = "31.8 GiB of memory is enough for"
    assert cpu(DESKTOP, 24) == Jobs(14, None, None, 14, f"{memory} 14 jobs: a compile takes up to 2.0 GiB")
    assert with_cuda(DESKTOP, 24) == Jobs(
        14, 9, 2, 8, f"{memory} 8 jobs: an attention kernel takes up to 5.0 GiB and 2 of them run at once"
    )
    assert cpu(DESKTOP, 14).reason.startswith("14 cores; ")
    for several in (2, 5):
        assert with_cuda(DESKTOP, 24, architectures=several) == Jobs(
            14, 9, 2, 6, f"{memory} 6 jobs: an attention kernel takes up to 8.0 GiB and 2 of them run at once"
        )


def test_a_tree_without_a_pool_may_compile_attention_kernels_in_every_job() -> None:
    jobs = jobs_for(DESKTOP, 24, cuda=True, flash_attention=True, architectures=1, attention_pool=False)
    reason = "31.8 GiB of memory is enough for 5 jobs: an attention kernel takes up to 5.0 GiB"
    assert jobs == Jobs(14, 9, 5, 5, reason)


def test_flash_attention_means_nothing_without_cuda() -> None:
    assert jobs_for(DESKTOP, 24, cuda=False, flash_attention=True, architectures=0) == cpu(DESKTOP, 24)


def test_gb10_whose_gpu_shares_the_memory() -> None:
    assert with_cuda(119 * GIB, 20) == Jobs(
        20, 20, 10, 20, "20 cores; 119.0 GiB of memory would be enough for 29 jobs"
    )


def test_unknown_memory() -> None:
    assert cpu(None, 8) == Jobs(8, None, None, 8, "8 cores; the memory is not known")
    assert with_cuda(None, 8) == Jobs(8, 8, 2, 8, "8 cores; the memory is not known")
    assert with_cuda(None, 1) == Jobs(1, 1, 1, 1, "1 core; the memory is not known")
    jobs = jobs_for(None, 8, cuda=True, flash_attention=True, architectures=1, attention_pool=False)
    reason = "8 cores; the memory is not known, and any job may be an attention kernel"
    assert jobs == Jobs(8, 8, 2, 2, reason)


def test_nothing_known() -> None:
    reason = "neither memory nor cores are known, so one job at a time"
    assert cpu(None, None) == Jobs(1, None, None, 1, reason)
    assert with_cuda(None, None) == Jobs(1, 1, 1, 1, reason)


def test_what_is_asked_for_wins() -> None:
    def asked(count: int) -> Jobs:
        return jobs_for(DESKTOP, 24, cuda=True, flash_attention=True, architectures=1, requested=count)

    assert asked(1) == Jobs(14, 9, 1, 1, "1 job requested")
    assert asked(18) == Jobs(
        14,
        9,
        2,
        18,
        "18 jobs requested, though 31.8 GiB of memory is enough for 8 jobs: an attention kernel takes up to "
        "5.0 GiB and 2 of them run at once",
    )


def test_the_figures_have_the_form_of_their_schema() -> None:
    data = Path(module.__file__).with_name("jobs.toml")
    assert violations(data, Path(__file__).with_name("jobs.schema.json")) == []


memories = st.integers(min_value=1, max_value=2**41)
cores = st.integers(min_value=1, max_value=512)


@given(memory=memories, count=cores, architectures=st.integers(1, 8), pool=st.booleans())
def test_the_dearest_mix_of_jobs_fits_into_the_memory(
    memory: int, count: int, architectures: int, pool: bool
) -> None:
    figures = job_figures()
    jobs = jobs_for(
        memory, count, cuda=True, flash_attention=True, architectures=architectures, attention_pool=pool
    )
    assert 1 <= jobs.max_jobs <= count
    kernel = figures["attention" if architectures == 1 else "attention-several"]
    kernels = jobs.flash_attention
    assert kernels is not None
    assert 1 <= kernels <= jobs.max_jobs
    taken = kernels * kernel + (jobs.max_jobs - kernels) * figures["cuda"]
    assert taken <= memory * 0.9 or jobs.max_jobs == 1


@given(memory=memories, count=cores, more=st.integers(0, 2**38), architectures=st.integers(1, 8))
def test_more_memory_never_means_fewer_jobs(memory: int, count: int, more: int, architectures: int) -> None:
    less_memory, more_memory = (with_cuda(amount, count, architectures) for amount in (memory, memory + more))
    assert less_memory.cxx <= more_memory.cxx
    assert less_memory.flash_attention is not None
    assert more_memory.flash_attention is not None
    assert less_memory.flash_attention <= more_memory.flash_attention


def test_where_compilers_wait_for_their_memory_there_are_as_many_as_cores() -> None:
    def waiting(memory: int | None, cores: int | None, requested: int | None = None) -> Jobs:
        return jobs_for(
            memory, cores, cuda=True, flash_attention=True, architectures=1, requested=requested, waiting=True
        )

    budget = DESKTOP - DESKTOP // 10
    reason = "24 cores; each compiler waits until its part of 28.6 GiB of memory is free"
    assert waiting(DESKTOP, 24) == Jobs(24, 24, 2, 24, reason, budget)
    small = waiting(8 * GIB, 32)
    assert (small.cxx, small.cuda, small.flash_attention, small.max_jobs, small.running) == (7, 6, 1, 32, 7)
    # Where all fit, where the user says how many, and where nothing is known, nobody waits.
    assert waiting(119 * GIB, 20) == with_cuda(119 * GIB, 20)
    assert waiting(DESKTOP, 24, 18).budget is None
    assert waiting(None, 24) == with_cuda(None, 24)
    assert waiting(DESKTOP, None) == with_cuda(DESKTOP, None)


def test_what_a_command_takes_follows_from_what_it_compiles() -> None:
    def takes(command: str, architectures: int = 1) -> float:
        kinds = memory_kinds(architectures)
        return next(amount for pattern, amount in kinds if re.search(pattern, command)) / GIB

    kernel = "/src/aten/src/ATen/native/transformers/cuda/flash_attn/kernels/flash_fwd_hdim64_bf16_sm80.cu"
    assert takes(f"/cuda/bin/nvcc -c {kernel} -o x.cu.o") == 5
    assert takes(f"ccache /cuda/bin/nvcc -c {kernel} -o x.cu.o", 2) == 8
    assert takes("nvcc -c third_party/flash-attention/csrc/flash_bwd_hdim32_fp16_sm80.cu -o x.o") == 5
    assert takes("/cuda/bin/nvcc -c aten/src/ATen/native/cuda/Copy.cu -o Copy.cu.o") == pytest.approx(1.1)
    assert takes("/cuda/bin/nvcc -c aten/src/ATen/native/cuda/RowwiseScaledMM.cu -o R.cu.o") == 5
    assert (
        takes("/usr/bin/c++ -c aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp -o a.o") == 1
    )
    linked = f"caffe2/{kernel}.o"
    for name in ("cpu", "cuda"):
        link = f"/usr/bin/c++ -shared -Wl,-soname,libtorch_{name}.so -o lib/libtorch_{name}.so {linked}"
        assert takes(link) == pytest.approx(2.2)
    assert takes("/usr/bin/c++ -shared -o lib/libtorch_python.so a.cpp.o") == 1
    for archive in (
        "/usr/bin/ar qc lib/libx.a a.o",
        "/opt/cmake -E rm -f libx.a",
        "gcc-ar qc x.a",
        "llvm-ranlib x.a",
    ):
        assert takes(archive) == 0, archive
