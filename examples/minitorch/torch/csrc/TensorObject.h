#pragma once

#include <Python.h>

#include <ATen/Tensor.h>

#include <exception>
#include <new>

namespace torch {

/// Makes the type torch._C.Tensor and adds it to the module; false with a Python exception set on failure.
bool add_tensor_type(PyObject* module);

/// A new Python object for a tensor; NULL with a Python exception set on failure.
PyObject* wrap(at::Tensor tensor);

/// The tensor in a Python object; NULL with a TypeError set if it is something else.
const at::Tensor* unwrap_checked(PyObject* object);

/// Runs C++ that returns a PyObject*, and turns its exceptions into Python's.
template <class Function>
PyObject* guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

} // namespace torch
