#pragma once

namespace torch {

/// One NAME=VALUE a line: what torch.__config__.show() prints.
extern const char* const build_settings;

/// The -gencode flags of the device code; empty without CUDA.
extern const char* const nvcc_arch_flags;

} // namespace torch
