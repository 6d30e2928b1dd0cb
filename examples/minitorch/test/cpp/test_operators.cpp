#include <ATen/Functions.h>

#include <c10/util/Exception.h>

#include <cstdio>
#include <vector>

namespace {

int failures = 0;

void expect(const char* what, const at::Tensor& actual, const std::vector<float>& expected) {
  if (actual.values() != expected) {
    std::fprintf(stderr, "FAILED: %s\n", what);
    ++failures;
  }
}

} // namespace

int main() {
  const at::Tensor left = at::Tensor::from_values({1, 2, 3, 4}, {2, 2}, c10::DeviceType::CPU);
  const at::Tensor right = at::Tensor::from_values({5, 6, 7, 8}, {2, 2}, c10::DeviceType::CPU);
  expect("add", at::add(left, right), {6, 8, 10, 12});
  expect("mul", at::mul(left, right), {5, 12, 21, 32});
  expect("matmul", at::matmul(left, right), {19, 22, 43, 50});
  expect("sum", at::sum(left), {10});
  expect("fill_", at::fill_(at::Tensor::empty({2}, c10::DeviceType::CPU), c10::Scalar(1.5)), {1.5, 1.5});
  try {
    at::matmul(left, at::sum(right));
    std::fprintf(stderr, "FAILED: matmul of a matrix and a number\n");
    ++failures;
  } catch (const c10::Error&) {
  }
  return failures == 0 ? 0 : 1;
}
