from __future__ import annotations

import pytest

from torchwheel.settings.components import read_components


def test_the_components_that_users_are_promised() -> None:
    promised = (
        "distributed nccl system-nccl gloo mpi tensorpipe flash-attention mem-efficient-attention fbgemm "
        "mslk kineto cupti xnnpack nnpack qnnpack mkldnn tests cuda cudnn cusparselt cudss cufile magma "
        "nvshmem numa nvrtc itt mps xpu rocm openmp ccache native-arch precompiled-headers numpy vulkan gflags "
        "glog lazy-cuda-linalg bundle-ptxas split-cuda caffe2 pthreadpool"
    )
    assert set(promised.split()) <= set(read_components().by_name)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("NCCL", "nccl"),
        ("flash_attention", "flash-attention"),
        ("flash-attn", "flash-attention"),
        ("onednn", "mkldnn"),
        ("FBGEMM_GENAI", "mslk"),
    ],
)
def test_find_takes_any_spelling(spelled: str, name: str) -> None:
    found = read_components().find(spelled)
    assert found is not None
    assert found.name == name


def test_find_and_nearest_and_options() -> None:
    assert read_components().find("ncll") is None
    assert read_components().nearest("ncll") == "nccl"
    assert read_components().nearest("flash-atention") == "flash-attention"
    assert read_components().nearest("zzzz") is None
    owner = read_components().of_option("CAFFE2_USE_PTHREADPOOL")
    assert owner is not None
    assert (owner.name, owner.options) == ("pthreadpool", ("USE_PTHREADPOOL", "CAFFE2_USE_PTHREADPOOL"))
    assert read_components().of_option("USE_NOTHING") is None


def test_alternatives_in_dependencies() -> None:
    assert read_components().by_name["nccl"].depends_on == (("cuda", "rocm"),)
    assert read_components().by_name["nvshmem"].depends_on == (("cuda",), ("distributed",))
