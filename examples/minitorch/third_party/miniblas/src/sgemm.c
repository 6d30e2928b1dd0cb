#include <miniblas.h>

void miniblas_sgemm(size_t rows, size_t inner, size_t columns, const float* left, const float* right, float* out) {
  for (size_t row = 0; row < rows; ++row) {
    float* out_row = out + row * columns;
    for (size_t column = 0; column < columns; ++column) {
      out_row[column] = 0.0f;
    }
    /* The middle loop over `inner` keeps both inner accesses contiguous. */
    for (size_t k = 0; k < inner; ++k) {
      const float factor = left[row * inner + k];
      const float* right_row = right + k * columns;
      for (size_t column = 0; column < columns; ++column) {
        out_row[column] += factor * right_row[column];
      }
    }
  }
}
