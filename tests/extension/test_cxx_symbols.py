"""C++ namespaces in symbols, compared with what c++filt makes of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from torchwheel.extension.stable.cxx_symbols import NamedEntity, entities_of, global_name

NAMESPACES = ("at", "c10", "torch")

ITANIUM = {
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE": [
        ("c10::detail::torchCheckFail", True)
    ],
    "_ZNK2at6Tensor3addERKS0_": [("at::Tensor::add", True)],
    "_ZN2at6TensorD1Ev": [("at::Tensor", True)],
    "_ZTVN5torch8autograd4NodeE": [("torch::autograd::Node", True)],
    "_ZTIN3c105ErrorE": [("c10::Error", True)],
    "_ZGVZN3c106detail3oneEvE3two": [("c10::detail::one", True)],
    "_ZNKSt6vectorIN2at6TensorESaIS1_EE4sizeEv": [("at::Tensor", False)],
    "_ZN4mine3ptrEN3c1013intrusive_ptrIN2at10TensorImplEEE": [
        ("c10::intrusive_ptr", False),
        ("at::TensorImpl", False),
    ],
    "_ZN4mine4halfEN3c104HalfE": [("c10::Half", False)],
    "_ZN4mine2at3runEv": [],
    "_Z16THPVariable_WrapRKN2at6TensorE": [("at::Tensor", False)],
    "_ZNSt6vectorIiSaIiEE9push_backERKi": [],
    "_ZSt4cout": [],
    "_ZN" + "9" * 5_000: [],
    "aoti_torch_get_dim": [],
}

MSVC = {
    "?torchCheckFail@detail@c10@@YAXPEBD0I0@Z": [("c10::detail::torchCheckFail", True)],
    "?add@Tensor@at@@QEBA?AV12@AEBV12@@Z": [("at::Tensor::add", True)],
    "??1Tensor@at@@QEAA@XZ": [("at::Tensor", True)],
    "??_7Tensor@at@@6B@": [("at::Tensor", True)],
    "?take@mine@@YAXAEBVTensor@at@@@Z": [("at::Tensor", False)],
    "?half@mine@@YAXUHalf@c10@@@Z": [("c10::Half", False)],
    "?type@mine@@YAXW4ScalarType@c10@@@Z": [("c10::ScalarType", False)],
    "??$make@VTensor@at@@@mine@@YAXXZ": [("at::Tensor", False)],
    "?run@mine@@YAXXZ": [],
    "PyErr_Clear": [],
}


@pytest.mark.parametrize("symbol", [*ITANIUM, *MSVC])
def test_entities(symbol: str) -> None:
    expected = {**ITANIUM, **MSVC}[symbol]
    assert entities_of(symbol, NAMESPACES) == tuple(NamedEntity(*pair) for pair in expected)


@pytest.mark.parametrize("symbol", [symbol for symbol, found in ITANIUM.items() if found])
def test_cxxfilt_shows_the_same_names(symbol: str) -> None:
    program = shutil.which("c++filt")
    if program is None:
        pytest.skip("there is no c++filt on PATH")
    shown = subprocess.run([program, symbol], capture_output=True, text=True, check=True, timeout=60).stdout
    for entity in entities_of(symbol, NAMESPACES):
        assert entity.name in shown


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("THPVariableClass", "THPVariableClass"),
        ("_Z17THPVariable_CheckPv", "THPVariable_Check"),
        ("?THPVariable_Check@@YA_NPEAX@Z", "THPVariable_Check"),
        ("_ZN2at6TensorD1Ev", "_ZN2at6TensorD1Ev"),
        ("?run@mine@@YAXXZ", "?run@mine@@YAXXZ"),
    ],
)
def test_global_name(symbol: str, expected: str) -> None:
    assert global_name(symbol) == expected
