#pragma once

#include <Python.h>

#if defined(_WIN32)
#if defined(TORCH_PYTHON_BUILD_MAIN_LIB)
#define TORCH_PYTHON_API __declspec(dllexport)
#else
#define TORCH_PYTHON_API __declspec(dllimport)
#endif
#else
#define TORCH_PYTHON_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the module torch._C; NULL with a Python exception set if that fails. */
TORCH_PYTHON_API PyObject* torch_create_module(void);

#ifdef __cplusplus
}
#endif
