# Finds CUDA in the places where PyTorch's FindCUDA looks, checks that its parts belong together, and turns
# TORCH_CUDA_ARCH_LIST into nvcc flags. Sets CUDA_FOUND, CUDA_TOOLKIT_ROOT_DIR, CUDA_VERSION (13.0) and
# TORCH_NVCC_ARCH_FLAGS.

include(${CMAKE_CURRENT_LIST_DIR}/../select_compute_arch.cmake)

# The toolkit that a folder, its root or its bin, holds; empty if none. /usr/bin/nvcc may be a link into it.
function(torch_toolkit_at folder result)
  set(${result} "" PARENT_SCOPE)
  foreach(bin "${folder}/bin" "${folder}/bin64" "${folder}")
    set(nvcc "${bin}/nvcc${CMAKE_HOST_EXECUTABLE_SUFFIX}")
    if(EXISTS "${nvcc}")
      get_filename_component(nvcc "${nvcc}" REALPATH)
      get_filename_component(root "${nvcc}/../.." ABSOLUTE)
      if(EXISTS "${root}/include/cuda.h")
        set(${result} "${root}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# CUDA_HOME, CUDACXX and CUDAToolkit_ROOT are not looked at: PyTorch's FindCUDA does not either.
if(NOT CUDA_TOOLKIT_ROOT_DIR)
  string(REPLACE "\\" "/" _path "$ENV{PATH}")
  if(NOT WIN32)
    string(REPLACE ":" ";" _path "${_path}")
  endif()
  set(_root "")
  foreach(_folder "$ENV{CUDA_TOOLKIT_ROOT}" "$ENV{CUDA_PATH}" "$ENV{CUDA_BIN_PATH}" ${_path} /usr/local/cuda /opt/cuda)
    if(_folder AND NOT _root)
      torch_toolkit_at("${_folder}" _root)
    endif()
  endforeach()
  set(CUDA_TOOLKIT_ROOT_DIR "${_root}" CACHE PATH "Toolkit location." FORCE)
endif()

set(CUDA_FOUND OFF)
if(NOT EXISTS "${CUDA_TOOLKIT_ROOT_DIR}/include/cuda.h")
  return()
endif()

# ---[ Compiler
# Set before the language is enabled: -gencode flags say which architectures, never CMake.
set(CMAKE_CUDA_ARCHITECTURES OFF)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

# ---[ One toolkit, and new enough
if(NOT CMAKE_CUDA_COMPILER_VERSION VERSION_EQUAL CUDAToolkit_VERSION)
  message(FATAL_ERROR
    "Found two conflicting CUDA versions: ${CMAKE_CUDA_COMPILER_VERSION} is ${CMAKE_CUDA_COMPILER}, "
    "${CUDAToolkit_VERSION} is in ${CUDAToolkit_INCLUDE_DIRS}")
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" CUDA_VERSION "${CMAKE_CUDA_COMPILER_VERSION}")
# In cuda.h, 13000 is CUDA 13.0.
file(STRINGS "${CUDA_TOOLKIT_ROOT_DIR}/include/cuda.h" _line REGEX "^#define CUDA_VERSION [0-9]+" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+" _number "${_line}")
math(EXPR _major "${_number} / 1000")
math(EXPR _minor "${_number} / 10 % 100")
if(NOT CUDA_VERSION STREQUAL "${_major}.${_minor}")
  message(FATAL_ERROR
    "nvcc (${CMAKE_CUDA_COMPILER}) is CUDA ${CUDA_VERSION}, but the headers in ${CUDA_TOOLKIT_ROOT_DIR} say "
    "${_major}.${_minor}. Put the nvcc of that toolkit first on PATH, or set CUDACXX to it.")
endif()
if(CUDA_VERSION VERSION_LESS 12.0)
  message(FATAL_ERROR "minitorch requires CUDA 12.0 or above, ${CUDA_TOOLKIT_ROOT_DIR} is ${CUDA_VERSION}.")
endif()
set(CUDA_FOUND ON)
message(STATUS "CUDA ${CUDA_VERSION} in ${CUDA_TOOLKIT_ROOT_DIR}, nvcc is ${CMAKE_CUDA_COMPILER}")

# ---[ Flags
torch_select_nvcc_arch_flags(TORCH_NVCC_ARCH_FLAGS "${TORCH_CUDA_ARCH_LIST}")
message(STATUS "Added CUDA NVCC flags for: ${TORCH_NVCC_ARCH_FLAGS}")
string(REPLACE ";" " " _arch_flags "${TORCH_NVCC_ARCH_FLAGS}")
string(APPEND CMAKE_CUDA_FLAGS " ${_arch_flags} -Xfatbin -compress-all --expt-relaxed-constexpr $ENV{TORCH_NVCC_FLAGS}")

if(CAFFE2_STATIC_LINK_CUDA)
  set(TORCH_CUDA_RUNTIME_LIBRARY Static)
else()
  set(TORCH_CUDA_RUNTIME_LIBRARY Shared)
endif()
