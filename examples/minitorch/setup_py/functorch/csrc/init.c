#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* is_loaded(PyObject* self, PyObject* arguments) {
  (void)self;
  (void)arguments;
  Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"is_loaded", is_loaded, METH_NOARGS, "Whether the library is there."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "functorch._C", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__C(void) {
  return PyModule_Create(&definition);
}
