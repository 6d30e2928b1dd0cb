#pragma once

#include <Python.h>

namespace torch::c10d {

/// METH_NOARGS: the names of the communication backends of this build, as a list.
PyObject* backends(PyObject* module, PyObject* unused);

} // namespace torch::c10d
