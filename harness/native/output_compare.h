// Whether two weights give the same output of a parameter's call, bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/case/case.h"
#include "harness/native/gradients.h"

namespace shardfuzz::native {

// `used` is the weight as FSDP2 handed it out, `plain` the one on a single device. True without
// computing where both are the same bytes. Else x * w and torchao's fp8 grouped GEMM are computed
// with both, and any other product counts as different.
bool same_output(const Case& c, const GroupSpec& group, const ParamSpec& param,
                 const LossPlace& place, const at::Tensor& used, const at::Tensor& plain);

}  // namespace shardfuzz::native
