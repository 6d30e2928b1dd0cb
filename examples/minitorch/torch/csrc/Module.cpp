#include <torch/csrc/Module.h>

#include <torch/csrc/BuildSettings.h>
#include <torch/csrc/TensorObject.h>

#ifdef USE_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif
#ifdef USE_DISTRIBUTED
#include <torch/csrc/distributed/c10d/Backends.h>
#endif

#include <ATen/Functions.h>

#include <utility>

namespace torch {
namespace {

/// A Python sequence as a vector; false with a Python exception set if an item is no number.
template <class Number, class Convert>
bool read_numbers(PyObject* sequence, Convert convert, std::vector<Number>* numbers) {
  PyObject* fast = PySequence_Fast(sequence, "expected a sequence of numbers");
  if (!fast) {
    return false;
  }
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(fast);
  for (Py_ssize_t i = 0; i < size && !PyErr_Occurred(); ++i) {
    numbers->push_back(static_cast<Number>(convert(PySequence_Fast_GET_ITEM(fast, i))));
  }
  Py_DECREF(fast);
  return !PyErr_Occurred();
}

/// _from_values(values, shape, device)
PyObject* from_values(PyObject*, PyObject* arguments) {
  PyObject* values = nullptr;
  PyObject* shape = nullptr;
  const char* device = nullptr;
  if (!PyArg_ParseTuple(arguments, "OOs", &values, &shape, &device)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    std::vector<float> numbers;
    std::vector<std::int64_t> sizes;
    if (!read_numbers(values, PyFloat_AsDouble, &numbers) || !read_numbers(shape, PyLong_AsLongLong, &sizes)) {
      return nullptr;
    }
    return wrap(at::Tensor::from_values(numbers, std::move(sizes), c10::parse_device(device)));
  });
}

/// _full(shape, value, device)
PyObject* full(PyObject*, PyObject* arguments) {
  PyObject* shape = nullptr;
  double value = 0.0;
  const char* device = nullptr;
  if (!PyArg_ParseTuple(arguments, "Ods", &shape, &value, &device)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    std::vector<std::int64_t> sizes;
    if (!read_numbers(shape, PyLong_AsLongLong, &sizes)) {
      return nullptr;
    }
    const at::Tensor tensor = at::Tensor::empty(std::move(sizes), c10::parse_device(device));
    return wrap(at::fill_(tensor, c10::Scalar(value)));
  });
}

/// scaled_dot_product_attention(query, key, value)
PyObject* attention(PyObject*, PyObject* arguments) {
  PyObject* objects[3] = {};
  if (!PyArg_ParseTuple(arguments, "OOO", &objects[0], &objects[1], &objects[2])) {
    return nullptr;
  }
  const at::Tensor* tensors[3] = {};
  for (int i = 0; i < 3; ++i) {
    tensors[i] = unwrap_checked(objects[i]);
    if (!tensors[i]) {
      return nullptr;
    }
  }
  return guarded([&] { return wrap(at::scaled_dot_product_attention(*tensors[0], *tensors[1], *tensors[2])); });
}

/// _show_config()
PyObject* show_config(PyObject*, PyObject*) {
  return PyUnicode_FromString(build_settings);
}

/// _cuda_getArchFlags()
PyObject* cuda_arch_flags(PyObject*, PyObject*) {
  return PyUnicode_FromString(nvcc_arch_flags);
}

#ifdef USE_CUDA
/// _cuda_getDeviceCount()
PyObject* cuda_device_count(PyObject*, PyObject*) {
  return PyLong_FromLong(at::cuda::device_count());
}

/// _cuda_getDeviceProperties() -> (name, major, minor)
PyObject* cuda_device_properties(PyObject*, PyObject*) {
  return guarded([] {
    int major = 0;
    int minor = 0;
    at::cuda::device_capability(&major, &minor);
    return Py_BuildValue("(sii)", at::cuda::device_name().c_str(), major, minor);
  });
}
#endif

PyMethodDef functions[] = {
    {"_from_values", from_values, METH_VARARGS, nullptr},
    {"_full", full, METH_VARARGS, nullptr},
    {"scaled_dot_product_attention", attention, METH_VARARGS, "softmax(query @ key.T / sqrt(width)) @ value"},
    {"_show_config", show_config, METH_NOARGS, nullptr},
    {"_cuda_getArchFlags", cuda_arch_flags, METH_NOARGS, nullptr},
#ifdef USE_CUDA
    {"_cuda_getDeviceCount", cuda_device_count, METH_NOARGS, nullptr},
    {"_cuda_getDeviceProperties", cuda_device_properties, METH_NOARGS, nullptr},
#endif
#ifdef USE_DISTRIBUTED
    {"_c10d_backends", c10d::backends, METH_NOARGS, nullptr},
#endif
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "torch._C", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace torch

PyObject* torch_create_module(void) {
  PyObject* module = PyModule_Create(&torch::definition);
  if (module && !torch::add_tensor_type(module)) {
    Py_CLEAR(module);
  }
#ifdef USE_CUDA
  at::cuda::initialize();
#endif
  return module;
}
