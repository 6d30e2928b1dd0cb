"""The CMake language, every form of argument and junk; options and limits in CMake files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from put import put
from steps import is_linear
from torchwheel.tree.cmake_options import Command, Option, parse_commands, read_declarations


def test_every_way_to_declare_an_option(tmp_path: Path) -> None:
    put(
        tmp_path / "CMakeLists.txt",
        """\
option(USE_A "Use A")
option(
  USE_B  # over several lines
  "Use B" ON)
cmake_dependent_option(USE_NCCL "Use NCCL" ON
                       "USE_CUDA OR USE_ROCM;UNIX;NOT APPLE" OFF)
set(CMAKE_CXX_STANDARD 17 CACHE STRING "The C++ standard.")
set(LIST a b CACHE STRING "two values")
set(FIXED on CACHE BOOL "not for users" FORCE)
set(HIDDEN on CACHE INTERNAL "not for users")
set(PLAIN on)
option(${COMPUTED} "no name to set" ON)
cmake_dependent_option(USE_BROKEN "too few" ON)
""",
    )
    put(tmp_path / "cmake/External/x.cmake", 'option(USE_X "Use X" OFF)\noption(USE_A "later" ON)\n')
    declared = read_declarations(tmp_path)
    top = "CMakeLists.txt"
    assert dict(declared.options) == {
        "CMAKE_CXX_STANDARD": Option("CMAKE_CXX_STANDARD", "STRING", "The C++ standard.", "17", "", top, 7),
        "LIST": Option("LIST", "STRING", "two values", "a;b", "", top, 8),
        "USE_A": Option("USE_A", "BOOL", "Use A", "OFF", "", top, 1),
        "USE_B": Option("USE_B", "BOOL", "Use B", "ON", "", top, 2),
        "USE_NCCL": Option(
            "USE_NCCL", "BOOL", "Use NCCL", "ON", "USE_CUDA OR USE_ROCM;UNIX;NOT APPLE", top, 5
        ),
        "USE_X": Option("USE_X", "BOOL", "Use X", "OFF", "", "cmake/External/x.cmake", 1),
    }


def test_of_several_declarations_the_one_that_holds_everywhere_counts(tmp_path: Path) -> None:
    put(
        tmp_path / "CMakeLists.txt",
        """\
if(APPLE)
  set(USE_DISTRIBUTED OFF CACHE STRING "in a block")
endif()
option(USE_DISTRIBUTED "everywhere" ON)
if(DEFINED ENV{TH_BINARY_BUILD})
  cmake_dependent_option(USE_CUFILE "binary" OFF "USE_CUDA AND NOT $ENV{TH_BINARY_BUILD}" OFF)
else()
  cmake_dependent_option(USE_CUFILE "usual" OFF "USE_CUDA" OFF)
endif()
if(NOT MOBILE)
  set(BLAS "MKL" CACHE STRING "also usual")
else()
  set(BLAS "Eigen" CACHE STRING "unusual")
endif()
""",
    )
    options = read_declarations(tmp_path).options
    assert [(option.description, option.depends, option.line) for option in options.values()] == [
        ("also usual", "", 11),
        ("usual", "USE_CUDA", 8),
        ("everywhere", "", 4),
    ]


def test_the_folders_that_are_added_declare_options_too(tmp_path: Path) -> None:
    """As PyTorch's c10 and caffe2 do, and aten, which caffe2 adds."""
    put(
        tmp_path / "CMakeLists.txt",
        """add_subdirectory(c10)
  ADD_SUBDIRECTORY( caffe2 )
add_subdirectory(third_party/onnx)
add_subdirectory(${COMPUTED})
add_subdirectory(/etc)
add_subdirectory(../outside)
add_subdirectory(missing)
# add_subdirectory(commented)
set(CMAKE_CXX_STANDARD 20 CACHE STRING "top")
""",
    )
    iwyu = 'if(NOT X)\n  option(C10_USE_IWYU "Use include-what-you-use" OFF)\nendif()\n'
    put(tmp_path / "c10/CMakeLists.txt", f'set(CMAKE_CXX_STANDARD 17 CACHE STRING "c10")\n{iwyu}')
    folders = ("../aten aten", ".", "../c10")
    put(tmp_path / "caffe2/CMakeLists.txt", "".join(f"add_subdirectory({one})\n" for one in folders))
    put(tmp_path / "aten/CMakeLists.txt", "option(TORCH_USE_IWYU text ON)\noption(FROM_MODULE aten)\n")
    put(tmp_path / "cmake/m.cmake", "option(FROM_MODULE module)")
    for name in ("third_party/onnx", "../outside", "commented"):
        put(tmp_path / f"{name}/CMakeLists.txt", "option(NOT_OURS text ON)")
    declared = read_declarations(tmp_path)
    assert dict(declared.options) == {
        "C10_USE_IWYU": Option(
            "C10_USE_IWYU", "BOOL", "Use include-what-you-use", "OFF", "", "c10/CMakeLists.txt", 3
        ),
        "CMAKE_CXX_STANDARD": Option("CMAKE_CXX_STANDARD", "STRING", "top", "20", "", "CMakeLists.txt", 9),
        "FROM_MODULE": Option("FROM_MODULE", "BOOL", "module", "OFF", "", "cmake/m.cmake", 1),
        "TORCH_USE_IWYU": Option("TORCH_USE_IWYU", "BOOL", "text", "ON", "", "aten/CMakeLists.txt", 1),
    }
    assert "NOT_OURS" not in declared.known_names


def test_folders_that_add_each_other_without_end_are_read_up_to_a_bound(tmp_path: Path) -> None:
    put(tmp_path / "CMakeLists.txt", "add_subdirectory(a)")
    (tmp_path / "a").symlink_to(tmp_path, target_is_directory=True)
    assert dict(read_declarations(tmp_path).options) == {}


def test_a_file_without_an_end_is_read_up_to_a_bound(tmp_path: Path) -> None:
    text = 'option(USE_FIRST "" ON)\n' + "#\n" * (1 << 17) + 'option(USE_LAST "" ON)\n'
    put(tmp_path / "CMakeLists.txt", text)
    assert list(read_declarations(tmp_path).options) == ["USE_FIRST"]


def test_known_names_are_those_outside_comments(tmp_path: Path) -> None:
    put(tmp_path / "CMakeLists.txt", 'set(A_NAME "${IN_STRING}") # GONE_NAME\n# OLD_NAME\n')
    put(tmp_path / "cmake/deep/er/y.cmake", "if($ENV{FROM_ENVIRONMENT})\n")
    put(tmp_path / "elsewhere/z.cmake", "FAR_NAME")
    expected = {"set", "A_NAME", "IN_STRING", "ENV", "FROM_ENVIRONMENT"}
    assert read_declarations(tmp_path).known_names == expected


def test_the_oldest_cuda_is_where_an_older_one_is_fatal(tmp_path: Path) -> None:
    put(
        tmp_path / "cmake/public/cuda.cmake",
        """\
if(CUDA_VERSION VERSION_LESS 13.0)
  set(OLD TRUE)
endif()
if(CUDNN_VERSION VERSION_LESS "8.1.0")
  message(FATAL_ERROR "PyTorch requires cuDNN 8.1 and above.")
endif()
if(CUDA_VERSION VERSION_LESS "12.6")
  message(FATAL_ERROR "PyTorch requires CUDA 12.6 or above.")
endif()
""",
    )
    put(tmp_path / "CMakeLists.txt", "cmake_minimum_required(VERSION 3.27...4.0 FATAL_ERROR)\n")
    declared = read_declarations(tmp_path)
    assert (declared.minimum_cuda, declared.minimum_cmake) == ("12.6", "3.27")


def test_what_is_not_stated_is_none(tmp_path: Path) -> None:
    declared = read_declarations(tmp_path)
    assert (dict(declared.options), declared.known_names) == ({}, frozenset())
    assert (declared.minimum_cuda, declared.minimum_cmake) == (None, None)
    put(tmp_path / "CMakeLists.txt", "cmake_minimum_required(VERSION ${V})\n")
    assert read_declarations(tmp_path).minimum_cmake is None


def test_no_more_folders_are_looked_into_than_any_tree_adds(tmp_path: Path) -> None:
    """Whether or not they are there."""
    missing = "".join(f"add_subdirectory(a{number})\n" for number in range(1_000))
    put(tmp_path / "CMakeLists.txt", f"add_subdirectory(first)\n{missing}add_subdirectory(last)\n")
    for name in ("first", "last"):
        put(tmp_path / f"{name}/CMakeLists.txt", f'option(USE_{name.upper()} "")\n')
    assert list(read_declarations(tmp_path).options) == ["USE_FIRST"]


PROTOBUF = "cmake_minimum_required(VERSION 3.1.3)\nproject(protobuf)\n"
ADDS = "  add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../third_party/protobuf/cmake)\n"
GUARDED = f"set(CMAKE_POLICY_VERSION_MINIMUM 3.5)\n{ADDS}unset(CMAKE_POLICY_VERSION_MINIMUM)\n"


@pytest.mark.parametrize(
    ("module", "project", "old"),
    [
        (ADDS, PROTOBUF, ("protobuf/cmake",)),
        (GUARDED, PROTOBUF, ()),
        (ADDS, "CMAKE_MINIMUM_REQUIRED(VERSION 3.1...3.12 FATAL_ERROR)\n", ()),
        (ADDS, "cmake_minimum_required(VERSION 3.5)\n", ()),
        (ADDS, "", ()),
        (ADDS, None, None),
        (f"#{ADDS}", PROTOBUF, None),
        ("", PROTOBUF, None),
        (f"{ADDS}add_subdirectory(third_party/absent)\n", PROTOBUF, ("protobuf/cmake",)),
        (f"{ADDS}add_subdirectory(third_party/absent)\n", "cmake_minimum_required(VERSION 3.18)\n", None),
    ],
)
def test_the_projects_that_cmake_4_refuses(
    module: str, project: str | None, old: tuple[str, ...] | None, tmp_path: Path
) -> None:
    put(tmp_path / "cmake/ProtoBuf.cmake", module)
    if project is not None:
        put(tmp_path / "third_party/protobuf/cmake/CMakeLists.txt", project)
    assert read_declarations(tmp_path).old_projects == old


def test_every_form_of_argument() -> None:
    text = r"""# a comment with option(A "no" ON)
#[[ a bracket comment
option(B "no" ON) ]] #[==[ another ]] one ]==]
OPTION( USE_A  # to the end of the line ) "
        "a quoted \"text\" with # and ( and \
a continued line" ON)
set(LIST [=[
raw ]] \n ${x}]=] a\;b;c\ d -D"x y"z "")
if((A AND B) OR NOT ${C})
message("over
two lines")
"""
    assert list(parse_commands(text)) == [
        Command("option", ("USE_A", 'a quoted "text" with # and ( and a continued line', "ON"), 4),
        Command("set", ("LIST", "raw ]] \\n ${x}", "a\\;b;c d", '-D"x y"z', ""), 7),
        Command("if", ("(", "A", "AND", "B", ")", "OR", "NOT", "${C}"), 9),
        Command("message", ("over\ntwo lines",), 10),
    ]


def test_windows_line_ends_change_nothing() -> None:
    text = 'set(A\n  b)\n\noption(C "d\ne" ON)\n'
    assert list(parse_commands(text.replace("\n", "\r\n"))) == list(parse_commands(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('option(A "never closed', [Command("option", ("A", "never closed"), 1)]),
        ("option(A [[never closed", [Command("option", ("A", "never closed"), 1)]),
        ("option(A", [Command("option", ("A",), 1)]),
        ("#[[ never closed\noption(A)", []),
        (') ) " option(A) " option(B)', [Command("option", ("B",), 1)]),
        ("option(A \\", [Command("option", ("A",), 1)]),
        ("1option(A)", []),
        ("", []),
    ],
)
def test_broken_text_is_read_as_far_as_it_goes(text: str, expected: list[Command]) -> None:
    assert list(parse_commands(text)) == expected


@given(st.text(alphabet='ab(\\)"#[]=; \n\r$\u00e9') | st.text())
def test_junk_never_raises(text: str) -> None:
    for command in parse_commands(text):
        assert command.name
        assert 1 <= command.line <= text.count("\n") + 1


@pytest.mark.parametrize(
    "unit",
    ["[", "#[[", '"', '\\"', "a(", "(", "a", "a ", "a( [[", 'a("', "x\\", '"\\', " ", "set(a(", "[=", '-"'],
)
@pytest.mark.parametrize("end", ["", "\\", '"\\'])
def test_long_junk_takes_no_time(unit: str, end: str) -> None:
    def parse(size: int) -> None:
        assert all(command.name for command in parse_commands(unit * (size // len(unit)) + end))

    assert is_linear(parse, 2_000)
    parse(100_000)


_WORD = st.text(alphabet="ABCabc_019", min_size=1, max_size=8)
_ANY = st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\\\r"), max_size=12)


@given(st.lists(st.tuples(_WORD.map("c".__add__), st.lists(_ANY, max_size=4)), max_size=4))
def test_what_is_written_quoted_comes_back(written: list[tuple[str, list[str]]]) -> None:
    lines = []
    for name, arguments in written:
        quoted = " ".join('"' + argument.replace('"', '\\"') + '"' for argument in arguments)
        lines.append(f"{name}({quoted})  # (\n")
    read = [(command.name, list(command.arguments)) for command in parse_commands("".join(lines))]
    assert read == [(name.lower(), arguments) for name, arguments in written]
