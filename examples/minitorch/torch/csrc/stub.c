/* All of torch._C is in libtorch_python, which is linked to the same libraries whoever compiles this file:
   CMake, or setuptools. */
#include <torch/csrc/Module.h>

PyMODINIT_FUNC PyInit__C(void) {
  return torch_create_module();
}
