# Copies files to a second place in the tree, where the packages expect them: setup.py did this before it ran CMake.
# Times are kept, so what depends on a copy is made again only when the original has changed.

function(_mirror from to)
  get_filename_component(folder "${PROJECT_SOURCE_DIR}/${to}" DIRECTORY)
  file(COPY "${PROJECT_SOURCE_DIR}/${from}" DESTINATION "${folder}")
endfunction()

_mirror(aten/src/ATen/native/native_functions.yaml torchgen/packaged/ATen/native/native_functions.yaml)
_mirror(aten/src/ATen/native/tags.yaml torchgen/packaged/ATen/native/tags.yaml)
_mirror(aten/src/ATen/templates torchgen/packaged/ATen/templates)
_mirror(tools/autograd torchgen/packaged/autograd)
_mirror(torch/_utils_internal.py tools/shared/_utils_internal.py)
foreach(header callgrind.h valgrind.h)
  _mirror(third_party/valgrind-headers/${header} torch/utils/benchmark/utils/valgrind_wrapper/${header})
endforeach()
