// The door for Python (ctypes) into shardfuzz_fp8_shared.
#include "harness/real/fp8/kernels.h"

// How many operators of kernels.h have no schema; 0 is good.
extern "C" __attribute__((visibility("default"))) int shardfuzz_fp8_missing_schemas() {
  return static_cast<int>(shardfuzz::fp8_kernels_without_schema().size());
}
