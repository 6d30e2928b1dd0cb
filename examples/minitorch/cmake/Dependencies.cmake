# Finds what the options need, and turns off what cannot be had, as PyTorch does: only an explicit USE_CUDA fails.

foreach(submodule miniblas)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/third_party/${submodule}/CMakeLists.txt)
    message(FATAL_ERROR
      "third_party/${submodule} is empty. Did you run 'git submodule update --init --recursive'?")
  endif()
endforeach()

set(_known_blas ATLAS Eigen FlexiBLAS Generic MKL OpenBLAS accelerate miniblas vecLib)
if(NOT BLAS IN_LIST _known_blas)
  message(FATAL_ERROR "Unrecognized BLAS option: ${BLAS}. Use one of: ${_known_blas}")
endif()

# ---[ Accelerators
if(USE_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/public/cuda.cmake)
  if(NOT CUDA_FOUND)
    if(USE_CUDA_EXPLICIT)
      message(FATAL_ERROR
        "USE_CUDA is ON, but CUDA was not found. Set CUDA_TOOLKIT_ROOT_DIR or CUDA_PATH, or put nvcc on PATH.")
    endif()
    torch_disable_option(USE_CUDA "CUDA was not found")
    foreach(option BUILD_LAZY_CUDA_LINALG USE_CUDNN USE_CUDSS USE_CUFILE USE_CUSPARSELT USE_FBGEMM_GENAI USE_NVSHMEM)
      if(${option})
        torch_disable_option(${option} "CUDA was not found")
      endif()
    endforeach()
  endif()
endif()
if(USE_ROCM)
  torch_disable_option(USE_ROCM "minitorch has no HIP kernels")
endif()
if(USE_XPU)
  torch_disable_option(USE_XPU "minitorch has no SYCL kernels")
endif()
if(USE_NCCL AND NOT USE_CUDA)
  torch_disable_option(USE_NCCL "there is no CUDA")
endif()
# From here on the list in the environment counts, whatever -D said: PyTorch reads it a second time too.
set(TORCH_CUDA_ARCH_LIST "$ENV{TORCH_CUDA_ARCH_LIST}")

# ---[ Libraries that minitorch only looks for
torch_require_header(USE_CUDNN cudnn.h "${CUDNN_INCLUDE_DIR}" "${CUDNN_ROOT}" "${CUDA_TOOLKIT_ROOT_DIR}")
torch_require_header(USE_CUSPARSELT cusparseLt.h "${CUDA_TOOLKIT_ROOT_DIR}")
find_path(USE_CUDSS_INCLUDE_DIR cudss.h HINTS "${CUDA_TOOLKIT_ROOT_DIR}" PATH_SUFFIXES include)
if(NOT USE_CUDSS_INCLUDE_DIR)
  # A plain set, as in PyTorch: the cache still says ON.
  set(USE_CUDSS OFF)
endif()
torch_require_header(USE_CUFILE cufile.h "${CUDA_TOOLKIT_ROOT_DIR}")
torch_require_header(USE_NVSHMEM nvshmem.h "${CUDA_TOOLKIT_ROOT_DIR}")
torch_require_header(USE_SYSTEM_NCCL nccl.h "${CUDA_TOOLKIT_ROOT_DIR}")
torch_require_header(USE_MAGMA magma_v2.h "$ENV{MAGMA_HOME}")
torch_require_header(USE_MPI mpi.h "$ENV{MPI_HOME}")
torch_require_header(USE_NUMA numa.h "${Numa_INCLUDE_DIR}")

# PyTorch tries this out with the compiler.
set(CAFFE2_COMPILER_SUPPORTS_AVX512_EXTENSIONS ${CPU_INTEL} CACHE BOOL "Whether FBGEMM can be compiled")
if(USE_FBGEMM AND NOT CAFFE2_COMPILER_SUPPORTS_AVX512_EXTENSIONS)
  message(WARNING "A compiler with AVX512 support is required for FBGEMM. Not compiling with FBGEMM.")
  set(USE_FBGEMM OFF)
endif()

# ---[ Libraries that it uses
if(USE_OPENMP)
  find_package(OpenMP COMPONENTS CXX)
  if(NOT OpenMP_CXX_FOUND)
    torch_disable_option(USE_OPENMP "the compiler has no OpenMP")
  endif()
endif()
if(USE_NUMPY)
  find_package(Python 3.10 COMPONENTS NumPy QUIET)
  if(NOT Python_NumPy_FOUND)
    torch_disable_option(USE_NUMPY "${Python_EXECUTABLE} has no NumPy")
  endif()
endif()
