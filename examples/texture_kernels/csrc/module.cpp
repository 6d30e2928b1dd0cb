// An empty module, so that `import texture_kernels._C` loads the library and with it registers the operators. Nothing
// but the limited API of Python 3.10 is used: one build serves all Pythons.
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__C() { return PyModuleDef_Init(&module); }
