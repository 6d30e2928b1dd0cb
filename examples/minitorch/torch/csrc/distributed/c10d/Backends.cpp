#include <torch/csrc/distributed/c10d/Backends.h>

namespace torch::c10d {
namespace {

const char* const names[] = {
#ifdef USE_GLOO
    "gloo",
#endif
#ifdef USE_MPI
    "mpi",
#endif
#ifdef USE_NCCL
    "nccl",
#endif
#ifdef USE_TENSORPIPE
    "tensorpipe",
#endif
    nullptr};

} // namespace

PyObject* backends(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const char* const* name = names; list && *name; ++name) {
    PyObject* text = PyUnicode_FromString(*name);
    if (!text || PyList_Append(list, text) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(text);
  }
  return list;
}

} // namespace torch::c10d
