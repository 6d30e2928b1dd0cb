"""Write a plan's extensions as a CMakeLists.txt: CMake targets with the plan's own commands and flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torchwheel.extension.compile.units import SOURCE
from torchwheel.extension.extension_plan import ExtensionPlan, PlannedExtension, Step, StepKind
from torchwheel.host.compilers import join_words
from torchwheel.tree.cmake_options import quote_bracket


def cmake_text(plan: ExtensionPlan, watched: Iterable[Path] = ()) -> str:
    """Return the CMakeLists.txt of all extensions; a change of a watched file makes CMake run again."""
    windows = plan.host_is_windows
    depends = _quote_words(str(path) for path in watched)
    lines = [
        "# Made by torchwheel.",
        "# With NEW, each command of nvcc's would call CMake, by a path that is another one in every environment,",
        "# and so be another command.",
        "if(POLICY CMP0218)",
        "  cmake_policy(SET CMP0218 NEW)",
        "  cmake_diagnostic(SET CMD_DEPRECATED IGNORE)",
        "else()",
        "  set(CMAKE_WARN_DEPRECATED FALSE)",
        "endif()",
        "cmake_policy(SET CMP0116 OLD)",
        *([f"set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS {depends})"] if depends else []),
        "# The flags for the build type are among those of torchwheel.",
        'string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)',
        'set(CMAKE_CXX_FLAGS_${build_type} "")',
        'set(own_cxx_flags "${CMAKE_CXX_FLAGS}")',
        'set(own_linker_flags "${CMAKE_MODULE_LINKER_FLAGS}")',
        'set(own_libraries "${CMAKE_CXX_STANDARD_LIBRARIES}")',
    ]
    if not windows:
        # Without system headers, as in the plan's own commands, because a new environment with the same PyTorch has
        # newer files. Source: Modules/Compiler/GNU.cmake of CMake 3.20 and later.
        flags = quote_bracket("-MMD -MT <DEP_TARGET> -MF <DEP_FILE>")
        lines.append(f"set(CMAKE_DEPFILE_FLAGS_CXX {flags})")
    lines += [f"add_subdirectory({quote_bracket(one.folder)})" for one in plan.extensions]
    return "\n".join(lines) + "\n"


def target_text(plan: ExtensionPlan, planned: PlannedExtension) -> str:
    """Return an extension's own CMakeLists.txt: CMake's variables for flags apply to a whole directory."""
    return "\n".join(_target_lines(plan, planned)) + "\n"


def _target_lines(plan: ExtensionPlan, planned: PlannedExtension) -> Iterator[str]:
    extension, flags, windows = planned.extension, planned.flags, plan.host_is_windows
    name, module = quote_bracket(extension.name), Path(planned.file_name).name
    # Unlike a target's options these are not deduplicated, and keep their order, after all libraries.
    for variable, own, words in (
        ("CMAKE_CXX_FLAGS", "own_cxx_flags", flags.compile),
        ("CMAKE_CXX_STANDARD_LIBRARIES", "own_libraries", flags.libraries),
    ):
        # CMake writes them unchanged for ninja.
        text = join_words(words, windows=windows).replace("$", "$$")
        yield f'string(CONCAT {variable} "${{{own}}} " {quote_bracket(text)})'
    search = quote_bracket(join_words(flags.search, windows=windows))
    yield f'string(CONCAT CMAKE_MODULE_LINKER_FLAGS "${{own_linker_flags}} " {search})'
    yield f"add_library({name} MODULE)"
    sources = [_in_build(step.inputs[0]) for step in planned.steps if step.kind is StepKind.COMPILE_CXX]
    objects = [step for step in planned.steps if step.kind in (StepKind.COMPILE_CUDA, StepKind.DEVICE_LINK)]
    for step in objects:
        yield from _custom_command(plan, step, extension.name)
    # PyTorch's own command compiles them as C++.
    for source in (one for one in sources if one.lower().endswith('.c"')):
        yield f"set_source_files_properties({source} PROPERTIES LANGUAGE CXX)"
    outputs = [_in_build(step.output) for step in objects]
    yield f"target_sources({name} PRIVATE {' '.join([*sources, *outputs])})"
    if outputs:
        yield f"set_source_files_properties({' '.join(outputs)} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)"
    depends = [_absolute_in_cmake(path) for path in planned.steps[0].inputs[1:]]
    if sources and depends:
        named = ";".join(depends)
        yield f'set_source_files_properties({" ".join(sources)} PROPERTIES OBJECT_DEPENDS "{named}")'
    yield f"set_target_properties({name} PROPERTIES"
    # CMake would define NAME_EXPORTS for a module, which the plan's own commands do not have.
    yield '  DEFINE_SYMBOL ""'
    last = extension.name.rpartition(".")[2]
    suffix = quote_bracket(module.removeprefix(last))
    yield f'  PREFIX "" OUTPUT_NAME {quote_bracket(last)} SUFFIX {suffix}'
    # Its own is among the libraries.
    yield "  BUILD_WITH_INSTALL_RPATH TRUE"
    # Scanning for C++ modules would call CMake for each source, and PyTorch has none.
    yield "  CXX_SCAN_FOR_MODULES FALSE UNITY_BUILD FALSE)"
    if plan.project.reproducible and not windows:
        yield from _prefix_maps(plan, name)
    if plan.launcher:
        launcher = quote_bracket(";".join(plan.launcher))
        yield "if(NOT CMAKE_CXX_COMPILER_LAUNCHER)"
        yield f"  set_property(TARGET {name} PROPERTY CXX_COMPILER_LAUNCHER {launcher})"
        yield "endif()"
    folder = Path(planned.file_name).parent.as_posix()
    yield f"install(TARGETS {name} LIBRARY DESTINATION {quote_bracket(folder)})"


def _prefix_maps(plan: ExtensionPlan, target: str) -> Iterator[str]:
    """Yield the prefix maps of a target's sources and headers, for every form of their paths in commands.

    CMake uses a source's absolute path, and a header's folder as the project writes it; ccache uses the path from the
    build folder if that is shorter than through the link. The last matching map wins.
    """
    maps = {"": "/build", **{f"/{link}": f"/{Path(link).name}" for link in plan.layout.links}}
    words = [f'"-ffile-prefix-map=${{CMAKE_BINARY_DIR}}{at}={called}"' for at, called in maps.items()]
    folder = str(plan.project.folder)
    if "=" not in folder:
        yield f"set(project {quote_bracket(folder)})"
        yield 'file(REAL_PATH "${project}" real)'
        yield 'file(REAL_PATH "${CMAKE_BINARY_DIR}" build)'
        yield 'cmake_path(RELATIVE_PATH real BASE_DIRECTORY "${build}" OUTPUT_VARIABLE way)'
        words = [*(f'"-ffile-prefix-map=${{{one}}}=/{SOURCE}"' for one in ("way", "project")), *words]
    yield f"target_compile_options({target} PRIVATE {' '.join(words)})"


def _custom_command(plan: ExtensionPlan, step: Step, target: str) -> Iterator[str]:
    """A step of nvcc, with the properties that CMake's own functions set on the target."""
    launcher = plan.launcher if step.cacheable else ()
    yield "add_custom_command("
    yield f"  OUTPUT {_in_build(step.output)}"
    yield f"  COMMAND {_quote_words(map(_protect_word, [*launcher, *step.command]))}"
    if step.kind is StepKind.COMPILE_CUDA:
        for option, name in (("-I", "INCLUDE_DIRECTORIES"), ("-D", "COMPILE_DEFINITIONS")):
            given = f"$<TARGET_PROPERTY:{target},{name}>"
            yield f'    "$<$<BOOL:{given}>:{option}$<JOIN:{given},;{option}>>"'
    yield f"  DEPENDS {' '.join(map(_in_build, step.inputs))}"
    if step.depfile:
        yield f"  DEPFILE {_in_build(step.depfile)}"
    yield '  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"'
    yield f"  COMMENT {quote_bracket(step.description)}"
    yield "  COMMAND_EXPAND_LISTS VERBATIM)"


def _protect_word(word: str) -> str:
    # There is no escape for `$<`; the generator expression `$<1:$>` yields its `$`. COMMAND_EXPAND_LISTS splits at `;`.
    return word.replace("$<", "$<1:$><").replace(";", "\\;")


def _in_build(path: str) -> str:
    return f'"{_absolute_in_cmake(path)}"'


def _absolute_in_cmake(path: str) -> str:
    return path if Path(path).is_absolute() else f"${{CMAKE_BINARY_DIR}}/{path}"


def _quote_words(words: Iterable[str]) -> str:
    return " ".join(quote_bracket(word) for word in words)
