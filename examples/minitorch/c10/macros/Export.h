#pragma once

// Which symbols leave each shared library. CMake defines *_BUILD_MAIN_LIB while it compiles that library,
// and C10_BUILD_SHARED_LIBS unless everything is static.

#if !defined(C10_BUILD_SHARED_LIBS)
#define C10_EXPORT
#define C10_IMPORT
#elif defined(_WIN32)
#define C10_EXPORT __declspec(dllexport)
#define C10_IMPORT __declspec(dllimport)
#else
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_IMPORT C10_EXPORT
#endif

#if defined(C10_BUILD_MAIN_LIB)
#define C10_API C10_EXPORT
#else
#define C10_API C10_IMPORT
#endif

#if defined(TORCH_CPU_BUILD_MAIN_LIB)
#define TORCH_API C10_EXPORT
#else
#define TORCH_API C10_IMPORT
#endif

#if defined(TORCH_CUDA_BUILD_MAIN_LIB)
#define TORCH_CUDA_API C10_EXPORT
#else
#define TORCH_CUDA_API C10_IMPORT
#endif
