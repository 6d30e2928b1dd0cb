// The arithmetic of single elements, the same for CPU and GPU.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define STABLE_KERNEL_FUNCTION __host__ __device__ inline
#else
#define STABLE_KERNEL_FUNCTION inline
#endif

namespace stable_kernel {

// What arithmetic on elements of type T is done in, and the way there and back. cuda/swiglu.cu has
// those of CUDA's own types.
template <class T>
struct ElementType {
  using Arithmetic = float;
  STABLE_KERNEL_FUNCTION static float widen(T value) { return static_cast<float>(value); }
  STABLE_KERNEL_FUNCTION static T narrow(float value) { return static_cast<T>(value); }
};
template <>
struct ElementType<double> {
  using Arithmetic = double;
  STABLE_KERNEL_FUNCTION static double widen(double value) { return value; }
  STABLE_KERNEL_FUNCTION static double narrow(double value) { return value; }
};

template <class T>
using Arithmetic = typename ElementType<T>::Arithmetic;

template <class T>
STABLE_KERNEL_FUNCTION Arithmetic<T> widen(T value) {
  return ElementType<T>::widen(value);
}

template <class T>
STABLE_KERNEL_FUNCTION T narrow(Arithmetic<T> value) {
  return ElementType<T>::narrow(value);
}

template <class Real>
STABLE_KERNEL_FUNCTION Real sigmoid(Real value) {
  return 1 / (1 + std::exp(-value));
}

template <class T>
STABLE_KERNEL_FUNCTION T swiglu_of(T gate, T up) {
  using Real = Arithmetic<T>;
  const Real g = widen(gate);
  return narrow<T>(g * sigmoid(g) * widen(up));
}

template <class T>
struct Gradients {
  T gate;
  T up;
};

template <class T>
STABLE_KERNEL_FUNCTION Gradients<T> swiglu_backward_of(T grad_out, T gate, T up) {
  using Real = Arithmetic<T>;
  const Real gradient = widen(grad_out);
  const Real g = widen(gate);
  const Real s = sigmoid(g);
  return {narrow<T>(gradient * widen(up) * s * (1 + g * (1 - s))), narrow<T>(gradient * g * s)};
}

}  // namespace stable_kernel
