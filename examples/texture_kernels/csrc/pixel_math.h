// The arithmetic of single pixels, the same for CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define TEXTURE_KERNELS_FUNCTION __host__ __device__ inline
#else
#define TEXTURE_KERNELS_FUNCTION inline
#endif

namespace texture_kernels {

// What arithmetic on elements of type T is done in, and the way there and back. cuda/elements.cuh
// has those of CUDA's own types.
template <class T>
struct ElementType {
  using Arithmetic = float;
  TEXTURE_KERNELS_FUNCTION static float widen(T value) { return static_cast<float>(value); }
  TEXTURE_KERNELS_FUNCTION static T narrow(float value) { return static_cast<T>(value); }
};
template <>
struct ElementType<double> {
  using Arithmetic = double;
  TEXTURE_KERNELS_FUNCTION static double widen(double value) { return value; }
  TEXTURE_KERNELS_FUNCTION static double narrow(double value) { return value; }
};

template <class T>
using Arithmetic = typename ElementType<T>::Arithmetic;

template <class T>
TEXTURE_KERNELS_FUNCTION Arithmetic<T> widen(T value) {
  return ElementType<T>::widen(value);
}

template <class T>
TEXTURE_KERNELS_FUNCTION T narrow(Arithmetic<T> value) {
  return ElementType<T>::narrow(value);
}

template <class Real>
struct Triple {
  Real value[3];
};

// A pixel of planes that are `plane` elements apart.
template <class T>
TEXTURE_KERNELS_FUNCTION Triple<Arithmetic<T>> load(const T* pixel, int64_t plane) {
  return {{widen(pixel[0]), widen(pixel[plane]), widen(pixel[2 * plane])}};
}

template <class T>
TEXTURE_KERNELS_FUNCTION void store(T* pixel, int64_t plane, Triple<Arithmetic<T>> triple) {
  for (int channel = 0; channel < 3; ++channel) pixel[channel * plane] = narrow<T>(triple.value[channel]);
}

// sRGB (IEC 61966-2-1) to CIE XYZ, relative to its own white: each row is divided by its sum.
template <class Real>
struct XyzFromRgb {
  Real row[3][3] = {
      {Real(0.4124 / 0.9505), Real(0.3576 / 0.9505), Real(0.1805 / 0.9505)},
      {Real(0.2126), Real(0.7152), Real(0.0722)},
      {Real(0.0193 / 1.0890), Real(0.1192 / 1.0890), Real(0.9505 / 1.0890)},
  };
};

// sRGB's transfer function: linear up to `limit`, a power above it.
template <class Real>
struct Transfer {
  static constexpr Real limit = Real(0.04045);
  static constexpr Real slope = Real(1 / 12.92);
  static constexpr Real offset = Real(0.055);
  static constexpr Real scale = Real(1 / 1.055);
  static constexpr Real exponent = Real(2.4);

  TEXTURE_KERNELS_FUNCTION static Real value(Real encoded) {
    return encoded > limit ? std::pow((encoded + offset) * scale, exponent) : encoded * slope;
  }
  TEXTURE_KERNELS_FUNCTION static Real derivative(Real encoded) {
    return encoded > limit ? exponent * scale * std::pow((encoded + offset) * scale, exponent - 1) : slope;
  }
};

// CIE L*a*b*'s compression: a cube root down to (6/29)^3, linear below it.
template <class Real>
struct Compression {
  static constexpr Real limit = Real(216.0 / 24389.0);
  static constexpr Real slope = Real(841.0 / 108.0);
  static constexpr Real offset = Real(4.0 / 29.0);

  TEXTURE_KERNELS_FUNCTION static Real value(Real t) { return t > limit ? std::cbrt(t) : slope * t + offset; }
  TEXTURE_KERNELS_FUNCTION static Real derivative(Real t) {
    if (t <= limit) return slope;
    const Real root = std::cbrt(t);
    return 1 / (3 * root * root);
  }
};

template <class Real>
TEXTURE_KERNELS_FUNCTION Triple<Real> relative_xyz(Triple<Real> rgb) {
  const XyzFromRgb<Real> matrix;
  Triple<Real> xyz{};
  for (int column = 0; column < 3; ++column) {
    const Real linear = Transfer<Real>::value(rgb.value[column]);
    for (int row = 0; row < 3; ++row) xyz.value[row] += matrix.row[row][column] * linear;
  }
  return xyz;
}

// sRGB in [0, 1] to CIE L*a*b*: L in [0, 100], white is (100, 0, 0).
template <class Real>
TEXTURE_KERNELS_FUNCTION Triple<Real> lab_from_rgb(Triple<Real> rgb) {
  const Triple<Real> xyz = relative_xyz(rgb);
  const Real x = Compression<Real>::value(xyz.value[0]);
  const Real y = Compression<Real>::value(xyz.value[1]);
  const Real z = Compression<Real>::value(xyz.value[2]);
  return {{116 * y - 16, 500 * (x - y), 200 * (y - z)}};
}

// The gradient with respect to RGB, from the one with respect to L*a*b*.
template <class Real>
TEXTURE_KERNELS_FUNCTION Triple<Real> lab_from_rgb_backward(Triple<Real> grad_lab, Triple<Real> rgb) {
  const XyzFromRgb<Real> matrix;
  const Triple<Real> xyz = relative_xyz(rgb);
  const Real l = grad_lab.value[0], a = grad_lab.value[1], b = grad_lab.value[2];
  const Triple<Real> grad_compressed{{500 * a, 116 * l - 500 * a + 200 * b, -200 * b}};
  Triple<Real> grad_rgb{};
  for (int row = 0; row < 3; ++row) {
    const Real grad_xyz = grad_compressed.value[row] * Compression<Real>::derivative(xyz.value[row]);
    for (int column = 0; column < 3; ++column) grad_rgb.value[column] += matrix.row[row][column] * grad_xyz;
  }
  for (int column = 0; column < 3; ++column) {
    grad_rgb.value[column] *= Transfer<Real>::derivative(rgb.value[column]);
  }
  return grad_rgb;
}

// A pixel and its two neighbours along one axis; beyond the border, the border's own pixel stands in.
struct Neighbours {
  int64_t before;
  int64_t self;
  int64_t after;

  TEXTURE_KERNELS_FUNCTION Neighbours(int64_t position, int64_t size)
      : before(position > 0 ? position - 1 : 0), self(position), after(position + 1 < size ? position + 1 : position) {}
};

template <class Real>
struct Derivatives {
  Real x;
  Real y;
};

// Sobel's derivatives at (row, column) of a plane: (-1, 0, 1) along one axis times (1, 2, 1) along the other.
template <class T>
TEXTURE_KERNELS_FUNCTION Derivatives<Arithmetic<T>> sobel_at(const T* plane, int64_t row, int64_t column,
                                                             int64_t height, int64_t width) {
  using Real = Arithmetic<T>;
  const Neighbours rows(row, height);
  const Neighbours columns(column, width);
  const T* above = plane + rows.before * width;
  const T* level = plane + rows.self * width;
  const T* below = plane + rows.after * width;
  const Real above_left = widen(above[columns.before]);
  const Real above_right = widen(above[columns.after]);
  const Real below_left = widen(below[columns.before]);
  const Real below_right = widen(below[columns.after]);
  const Real left = widen(level[columns.before]);
  const Real right = widen(level[columns.after]);
  const Real top = widen(above[columns.self]);
  const Real bottom = widen(below[columns.self]);
  return {(above_right - above_left) + 2 * (right - left) + (below_right - below_left),
          (below_left - above_left) + 2 * (bottom - top) + (below_right - above_right)};
}

// How much a pixel counts in the results at its neighbours and at itself, along one axis. A pixel on the border counts
// in its own result once more, where it stands in for the one beyond; a neighbour beyond has no result.
template <class Real>
struct Influence {
  Real smooth[3];
  Real difference[3];

  TEXTURE_KERNELS_FUNCTION Influence(int64_t position, int64_t size) {
    const Real first = position == 0;
    const Real last = position == size - 1;
    smooth[0] = 1 - first;
    smooth[1] = 2 + first + last;
    smooth[2] = 1 - last;
    difference[0] = 1 - first;
    difference[1] = last - first;
    difference[2] = last - 1;
  }
};

// The transposed filter: the gradient at (row, column), from the gradients of both derivatives.
template <class T>
TEXTURE_KERNELS_FUNCTION Arithmetic<T> sobel_backward_at(const T* grad_x, const T* grad_y, int64_t row, int64_t column,
                                                         int64_t height, int64_t width) {
  using Real = Arithmetic<T>;
  const Neighbours rows(row, height);
  const Neighbours columns(column, width);
  const int64_t starts[3] = {rows.before * width, rows.self * width, rows.after * width};
  const int64_t steps[3] = {columns.before, columns.self, columns.after};
  const Influence<Real> vertical(row, height);
  const Influence<Real> horizontal(column, width);
  Real sum = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const int64_t at = starts[i] + steps[j];
      sum += vertical.smooth[i] * horizontal.difference[j] * widen(grad_x[at]);
      sum += vertical.difference[i] * horizontal.smooth[j] * widen(grad_y[at]);
    }
  }
  return sum;
}

}  // namespace texture_kernels
