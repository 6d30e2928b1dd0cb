#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = left @ right, all row-major: left is rows x inner, right is inner x columns. */
void miniblas_sgemm(size_t rows, size_t inner, size_t columns, const float* left, const float* right, float* out);

#ifdef __cplusplus
}
#endif
