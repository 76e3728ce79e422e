// CPU kernels for the operators that torchao 0.18's fp8 MoE wrapper calls, so that its real forward
// and backward run without a GPU.
//
// Guarantees: linking this library (or loading shardfuzz_fp8_shared) registers with the dispatcher
//   torchao::triton_fp8_rowwise_2d_scale_and_cast torchao::triton_fp8_colwise_3d_scale_and_cast
//   torchao::triton_fp8_rowwise_transpose_rhs torchao::triton_fp8_per_group_colwise_scales_dual
//   torchao::triton_fp8_per_group_colwise_scales       torchao::triton_fp8_per_group_rowwise_scales
// for CPU, with an AutogradCPU fallthrough (else torchao's Python autograd wrapper still runs), and
// aten::_scaled_grouped_mm for CPU. Sizes, strides, scale layout and bytes are those of torchao's
// functions on a GPU (recipe.h). Three defects of torchao 0.18 off the training path are not
// copied: the per-group rowwise kernel writes its rows apart (there both output strides are 1), and
// the single per-group kernels neither cut a group off at a tile's end nor spill scales into the
// next group. What those kernels leave unwritten stays as torch.empty gives it: columns of the
// jagged quantizers and output rows of the matmul at and beyond the last group end. The matmul
// makes ATen's CUDA checks with ATen's messages, also those that CUDA makes on the device: there a
// bad offset poisons the context, here it raises. An empty group gives zeros in wgrad. Refuses
// (raises): input other than fp32 or bf16, output other than e4m3fn, mx scales, a group end outside
// the tensor. Not refused: use_fast_accum, which has no meaning here. Thread rule: the kernels hold
// no state; call them from any thread. Use:  if (!fp8_kernels_without_schema().empty()) report
// "torchao has other operator names";
#pragma once

#include <string>
#include <vector>

namespace shardfuzz {

// Operators registered here that nobody has defined: their kernels would never be called. To be
// asked after `import torchao.prototype.moe_training`; empty is good. A program that links the
// static library must call this, else the linker drops the registrations.
std::vector<std::string> fp8_kernels_without_schema();

}  // namespace shardfuzz
