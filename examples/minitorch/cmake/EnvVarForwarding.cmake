# Carries environment variables into the CMake cache, by the rules of PyTorch 2.14's file of the same name:
# - aliases and the listed names only where CMake does not have the variable yet, so -D and an older cache win;
# - everything that starts with BUILD_, USE_ or CMAKE_ always, so the environment beats -D and an older cache;
# - low-priority aliases last, again only where the variable is missing.

set(_aliases
  CUDNN_LIB_DIR=CUDNN_LIBRARY
  USE_CUDA_STATIC_LINK=CAFFE2_STATIC_LINK_CUDA)
set(_passthrough
  ATEN_THREADING BLAS CAFFE2_USE_MSVC_STATIC_RUNTIME CUDA_HOST_COMPILER CUDA_NVCC_EXECUTABLE
  CUDA_SEPARABLE_COMPILATION CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUDNN_ROOT EXPERIMENTAL_SINGLE_THREAD_POOL
  FLASH_ATTENTION_MAX_JOBS INSTALL_TEST INTEL_MKL_DIR INTEL_OMP_DIR MKLDNN_CPU_RUNTIME MKL_THREADING
  MSVC_Z7_OVERRIDE Numa_INCLUDE_DIR Numa_LIBRARIES ONNX_ML ONNX_NAMESPACE OPENSSL_ROOT_DIR SELECTED_OP_LIST
  STATIC_DISPATCH_BACKEND TORCH_CUDA_ARCH_LIST TORCH_XPU_ARCH_LIST TRACING_BASED UBSAN_FLAGS WERROR WITH_BLAS)
set(_low_priority_aliases
  CUDA_HOST_COMPILER=CMAKE_CUDA_HOST_COMPILER
  CUDAHOSTCXX=CUDA_HOST_COMPILER
  CMAKE_CUDA_HOST_COMPILER=CUDA_HOST_COMPILER
  CMAKE_CUDA_COMPILER=CUDA_NVCC_EXECUTABLE
  CUDACXX=CUDA_NVCC_EXECUTABLE)

function(_forward_if_missing environment_name name)
  if(DEFINED ENV{${environment_name}} AND NOT DEFINED ${name})
    set(${name} "$ENV{${environment_name}}" CACHE STRING "From the environment: ${environment_name}" FORCE)
  endif()
endfunction()

function(_forward_aliases)
  foreach(alias IN LISTS ARGN)
    string(REPLACE "=" ";" pair "${alias}")
    _forward_if_missing(${pair})
  endforeach()
endfunction()

_forward_aliases(${_aliases})
foreach(name IN LISTS _passthrough)
  _forward_if_missing(${name} ${name})
endforeach()

# CMake cannot list the environment, so Python does, and writes it in CMake's own language.
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/forward_environment.py" "${CMAKE_BINARY_DIR}/environment.cmake"
  RESULT_VARIABLE _result)
if(NOT _result EQUAL 0)
  message(FATAL_ERROR "The environment could not be read with ${Python_EXECUTABLE} (${_result})")
endif()
include("${CMAKE_BINARY_DIR}/environment.cmake")

_forward_aliases(${_low_priority_aliases})

# What the build's Python environment brings is found too.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sys, sysconfig; print(sys.prefix, sysconfig.get_path('purelib'), sep=';', end='')"
  OUTPUT_VARIABLE _python_prefixes)
list(PREPEND CMAKE_PREFIX_PATH ${_python_prefixes})

if(USE_NIGHTLY)
  message(FATAL_ERROR "USE_NIGHTLY is not supported: a build cannot replace itself by a download")
endif()
