// The plain module on one device, for the native target: P6's events after the ranks are done.
//
// Follows harness/real/shardfuzz_real/reference.py; the rules for what must be equal bitwise and
// what within which bound are said there. An output is a function of the weights and of inputs that
// both sides share, so it is equal where the weights are: what is compared is the weights as they
// were used, for torchao's fp8 grouped GEMM after quantization.
#pragma once

#include <memory>
#include <vector>

#include "harness/case/case.h"
#include "harness/native/program.h"
#include "harness/trace/recorder.h"

namespace shardfuzz::native {

// No rank may have raised.
void check_reference(const Case& c, const std::vector<std::unique_ptr<RankProgram>>& programs,
                     Gradients* gradients, Recorder* recorder);

}  // namespace shardfuzz::native
