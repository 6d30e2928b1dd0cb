#include <torch/csrc/TensorObject.h>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace torch {
namespace {

struct TensorObject {
  PyObject_HEAD
  at::Tensor tensor;
};

PyTypeObject* tensor_type = nullptr;

at::Tensor& unwrap(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}

bool is_tensor(PyObject* object) {
  return PyObject_TypeCheck(object, tensor_type);
}

/// A number as an operand beside `neighbour`: a tensor of one element on the same device.
at::Tensor operand(PyObject* object, const at::Tensor& neighbour) {
  if (is_tensor(object)) {
    return unwrap(object);
  }
  return at::Tensor::from_values({static_cast<float>(PyFloat_AsDouble(object))}, {}, neighbour.device());
}

bool is_operand(PyObject* object) {
  return is_tensor(object) || PyFloat_Check(object) || PyLong_Check(object);
}

using BinaryOperator = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

/// add and mul commute, so a number on the left changes places with the tensor.
PyObject* commutative(PyObject* left, PyObject* right, BinaryOperator function) {
  if (!is_operand(left) || !is_operand(right)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return guarded([&] {
    if (!is_tensor(left)) {
      std::swap(left, right);
    }
    const at::Tensor other = operand(right, unwrap(left));
    return PyErr_Occurred() ? nullptr : wrap(function(unwrap(left), other));
  });
}

PyObject* tensor_add(PyObject* left, PyObject* right) {
  return commutative(left, right, at::add);
}

PyObject* tensor_multiply(PyObject* left, PyObject* right) {
  return commutative(left, right, at::mul);
}

PyObject* tensor_matrix_multiply(PyObject* left, PyObject* right) {
  if (!is_tensor(left) || !is_tensor(right)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return guarded([&] { return wrap(at::matmul(unwrap(left), unwrap(right))); });
}

PyObject* tensor_sum(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(at::sum(unwrap(self))); });
}

PyObject* tensor_fill(PyObject* self, PyObject* value) {
  const double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred()) {
    return nullptr;
  }
  return guarded([&] { return wrap(at::fill_(unwrap(self), c10::Scalar(number))); });
}

PyObject* tensor_to(PyObject* self, PyObject* device) {
  const char* name = PyUnicode_AsUTF8(device);
  if (!name) {
    return nullptr;
  }
  return guarded([&] { return wrap(unwrap(self).to(c10::parse_device(name))); });
}

PyObject* tensor_item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const at::Tensor& tensor = unwrap(self);
    TORCH_CHECK(tensor.numel() == 1, "a tensor with " + std::to_string(tensor.numel()) + " elements is no number");
    return PyFloat_FromDouble(tensor.values()[0]);
  });
}

/// The elements of dimension `dim` from `next` on, as nested lists; moves `next` behind them.
PyObject* nested_list(const at::Tensor& tensor, std::size_t dim, const float*& next) {
  if (dim == tensor.sizes().size()) {
    return PyFloat_FromDouble(*next++);
  }
  const auto size = static_cast<Py_ssize_t>(tensor.sizes()[dim]);
  PyObject* list = PyList_New(size);
  for (Py_ssize_t i = 0; list && i < size; ++i) {
    PyObject* item = nested_list(tensor, dim + 1, next);
    if (!item) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, i, item);
    }
  }
  return list;
}

PyObject* tensor_tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    const std::vector<float> values = unwrap(self).values();
    const float* next = values.data();
    return nested_list(unwrap(self), 0, next);
  });
}

PyObject* tensor_repr(PyObject* self) {
  PyObject* list = tensor_tolist(self, nullptr);
  if (!list) {
    return nullptr;
  }
  const char* device = unwrap(self).device() == c10::DeviceType::CPU ? "" : ", device='cuda'";
  PyObject* text = PyUnicode_FromFormat("tensor(%R%s)", list, device);
  Py_DECREF(list);
  return text;
}

PyObject* tensor_shape(PyObject* self, void*) {
  const std::vector<std::int64_t>& sizes = unwrap(self).sizes();
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(sizes.size()));
  for (std::size_t i = 0; shape && i < sizes.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(sizes[i]);
    if (!size) {
      Py_CLEAR(shape);
    } else {
      PyTuple_SET_ITEM(shape, static_cast<Py_ssize_t>(i), size);
    }
  }
  return shape;
}

PyObject* tensor_device(PyObject* self, void*) {
  return PyUnicode_FromString(c10::device_name(unwrap(self).device()));
}

PyObject* tensor_dtype(PyObject* self, void*) {
  return PyUnicode_FromFormat("torch.%s", c10::scalar_type_name(unwrap(self).dtype()));
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  unwrap(self).~Tensor();
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"fill_", tensor_fill, METH_O, "Sets every element to a number; returns self's storage."},
    {"item", tensor_item, METH_NOARGS, "The only element, as a float."},
    {"sum", tensor_sum, METH_NOARGS, "The sum of all elements, as a tensor without dimensions."},
    {"to", tensor_to, METH_O, "The same elements on a device: 'cpu' or 'cuda'."},
    {"tolist", tensor_tolist, METH_NOARGS, "The elements as nested lists."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {
    {"device", tensor_device, nullptr, "'cpu' or 'cuda'.", nullptr},
    {"dtype", tensor_dtype, nullptr, "'torch.float32'.", nullptr},
    {"shape", tensor_shape, nullptr, "The sizes of the dimensions.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class Function>
void* slot(Function function) {
  return reinterpret_cast<void*>(function);
}

} // namespace

bool add_tensor_type(PyObject* module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_repr, slot(tensor_repr)},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_nb_add, slot(tensor_add)},
      {Py_nb_multiply, slot(tensor_multiply)},
      {Py_nb_matrix_multiply, slot(tensor_matrix_multiply)},
      {0, nullptr}};
  PyType_Spec spec = {
      "torch.Tensor",
      sizeof(TensorObject),
      0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
      slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) {
    return false;
  }
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Tensor", type) == 0;
}

const at::Tensor* unwrap_checked(PyObject* object) {
  if (!is_tensor(object)) {
    PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  return &unwrap(object);
}

PyObject* wrap(at::Tensor tensor) {
  PyObject* object = tensor_type->tp_alloc(tensor_type, 0);
  if (object) {
    new (&unwrap(object)) at::Tensor(std::move(tensor));
  }
  return object;
}

} // namespace torch
