# Turns an architecture list in PyTorch's spelling into nvcc flags.

# What the family names of TORCH_CUDA_ARCH_LIST stand for.
set(TORCH_ARCH_Turing 7.5)
set(TORCH_ARCH_Ampere 8.0 8.6)
set(TORCH_ARCH_Ampere+Tegra 8.7)
set(TORCH_ARCH_Ada 8.9)
set(TORCH_ARCH_Hopper 9.0)
set(TORCH_ARCH_Blackwell 10.0 12.0)
# Without a list and without a GPU: the oldest one that CUDA 12 and 13 both compile, and PTX for all later ones.
set(TORCH_ARCH_Common 7.5+PTX)

# The compute capabilities of the GPUs in this machine; empty if there are none.
function(torch_detect_installed_gpus result)
  set(${result} "" PARENT_SCOPE)
  find_program(NVIDIA_SMI nvidia-smi)
  mark_as_advanced(NVIDIA_SMI)
  if(NVIDIA_SMI)
    execute_process(
      COMMAND "${NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE output RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${output}")
      set(${result} "${capabilities}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# torch_select_nvcc_arch_flags(RESULT "8.0;9.0a 12.0+PTX")
# Items are X.Y, X.Ya, X.Yf or a family name, each with or without +PTX, divided by spaces or semicolons.
function(torch_select_nvcc_arch_flags result list)
  string(REGEX REPLACE "[ \t;]+" ";" items "${list}")
  list(REMOVE_ITEM items "")
  if(NOT items OR items STREQUAL "Auto")
    torch_detect_installed_gpus(items)
  endif()
  if(NOT items)
    set(items Common)
  endif()

  # Family names first, then what they stand for.
  set(architectures "")
  foreach(item IN LISTS items)
    string(REGEX REPLACE "\\+PTX$" "" name "${item}")
    if(DEFINED TORCH_ARCH_${name})
      set(members ${TORCH_ARCH_${name}})
      if(NOT name STREQUAL item)
        list(TRANSFORM members APPEND "+PTX")
      endif()
      list(APPEND architectures ${members})
    else()
      list(APPEND architectures "${item}")
    endif()
  endforeach()
  set(sass "")
  set(ptx "")
  foreach(architecture IN LISTS architectures)
    if(NOT architecture MATCHES "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$")
      message(FATAL_ERROR
        "'${architecture}' in TORCH_CUDA_ARCH_LIST is no architecture: write 12.0, 12.0a, 12.0f or 12.0+PTX, "
        "divided by spaces or semicolons")
    endif()
    list(APPEND sass "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    if(CMAKE_MATCH_3)
      list(APPEND ptx "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES sass)
  list(REMOVE_DUPLICATES ptx)

  set(flags "")
  foreach(number IN LISTS sass)
    list(APPEND flags -gencode arch=compute_${number},code=sm_${number})
  endforeach()
  foreach(number IN LISTS ptx)
    list(APPEND flags -gencode arch=compute_${number},code=compute_${number})
  endforeach()
  set(${result} ${flags} PARENT_SCOPE)
endfunction()
