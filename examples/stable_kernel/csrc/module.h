// An empty module: importing it loads the library, and with that registers the operators. Nothing but the limited API
// of Python 3.10 is used.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#define STABLE_KERNEL_MODULE(name)                                                                  \
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, #name, nullptr, 0, nullptr, nullptr, nullptr, \
                               nullptr, nullptr};                                                   \
  PyMODINIT_FUNC PyInit_##name() { return PyModuleDef_Init(&module); }
