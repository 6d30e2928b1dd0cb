# The generated header: TORCH_GENERATED_HEADER, in the include folder TORCH_GENERATED_DIR. The target torch_codegen
# writes it; torch_cpu depends on that, and so does whatever links torch_cpu.

set(TORCH_GENERATED_DIR ${CMAKE_BINARY_DIR}/aten/src)
set(TORCH_GENERATED_HEADER ${TORCH_GENERATED_DIR}/ATen/Functions.h)
set(_generator ${PROJECT_SOURCE_DIR}/tools/codegen/gen.py)
set(_schemas ${PROJECT_SOURCE_DIR}/aten/src/ATen/native/native_functions.txt)
add_custom_command(
  OUTPUT ${TORCH_GENERATED_HEADER}
  COMMAND "${Python_EXECUTABLE}" ${_generator} ${_schemas} ${TORCH_GENERATED_HEADER}
  DEPENDS ${_generator} ${_schemas}
  COMMENT "Generating ATen/Functions.h"
  VERBATIM)
add_custom_target(torch_codegen DEPENDS ${TORCH_GENERATED_HEADER})
