# find_package(TorchWheel): extension modules of PyTorch for named hardware.
#
#   torchwheel_add_extension(
#     NAME package._C                  the module's dotted name, also the target's
#     SOURCES a.cpp csrc/*.cu          paths and patterns, relative to the current source folder
#     [CUDA_SOURCES pattern...]        only where the installed PyTorch has CUDA
#     [INCLUDE_DIRS folder...] [LIBRARY_DIRS folder...] [LIBRARIES name...]
#     [DEFINE NAME=VALUE...]
#     [CXX_FLAGS flag...] [NVCC_FLAGS flag...] [LINK_FLAGS flag...]
#     [ARCHITECTURES "sm90/*.cu=9.0a"...]
#     [STABLE_ABI 2.10] [LIMITED_API] [UNITY] [FRONT_END shared]
#     [DEVICE_LINK] [DEVICE_LINK_LIBRARIES name...]
#     [DEPENDS file...])
#
# The keywords are the keys of [[tool.torchwheel.extension]]; LIMITED_API, UNITY and DEVICE_LINK alone mean ON. The target
# is a MODULE library: what it links with target_link_libraries, target_include_directories and
# target_compile_definitions holds for its CUDA sources too.
#
# Variables: TORCHWHEEL_TARGET is the hardware to build for, where neither -C target= nor an environment variable says;
# TORCHWHEEL_PROJECT_DIR is the folder of the pyproject.toml, where it is not that of CMAKE_SOURCE_DIR or one above it.

include_guard(DIRECTORY)

set(_TORCHWHEEL_FOLDER "${CMAKE_CURRENT_LIST_DIR}")
include("${CMAKE_CURRENT_LIST_DIR}/../../plan/link_inputs.cmake")

# Ask torchwheel what to build, and how; it writes a folder with a CMakeLists.txt.
#
# The folder is a subdirectory of its own because scikit-build-core deletes the top CMakeFiles, with all objects in it,
# whenever it runs from a new isolated environment.
function(torchwheel_add_extension)
  if(NOT Python_EXECUTABLE)
    find_package(Python REQUIRED COMPONENTS Interpreter)
  endif()
  execute_process(
    COMMAND
      # What it prints is read as UTF-8 below, also on Windows.
      "${Python_EXECUTABLE}" -X utf8 -m torchwheel.extension.cmake.configure
      "--build=${CMAKE_BINARY_DIR}"
      "--source=${CMAKE_CURRENT_SOURCE_DIR}"
      "--top=${CMAKE_SOURCE_DIR}"
      "--project=${TORCHWHEEL_PROJECT_DIR}"
      "--generator=${CMAKE_GENERATOR}"
      "--build-type=${CMAKE_BUILD_TYPE}"
      "--target=${TORCHWHEEL_TARGET}"
      "--config=${TORCHWHEEL_CONFIG_SETTINGS}"
      "--c=${CMAKE_C_COMPILER}"
      "--cxx=${CMAKE_CXX_COMPILER}"
      "--" ${ARGN}
    # The current folder comes first in Python's search path.
    WORKING_DIRECTORY "${_TORCHWHEEL_FOLDER}"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE folder
    ERROR_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE
    ENCODING UTF-8)
  if(NOT status EQUAL 0)
    # CMake leaves indented lines as they are.
    string(REPLACE "\n" "\n  " text "\n${text}")
    message(FATAL_ERROR "${text}")
  elseif(text)
    message(STATUS "${text}")
  endif()
  add_subdirectory("${folder}" "${folder}")
endfunction()
