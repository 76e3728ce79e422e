// What autograd would give each parameter: the gradient of the rank program's loss.
//
// The loss is linear in every output (harness/real/shardfuzz_real/model.py, loss_of), so a gradient
// depends on the inputs and the loss's weights alone, never on the parameter's values: outputs need
// not be computed at all. On integer data every product and sum here is exact, so the bits are
// those of any kernel, torchao's fp8 grouped GEMM included (its operands are -1, 0 and 1). On other
// data x * w is rounded as torch rounds it and the fp8 product is computed by its recipe
// (harness/real/fp8); other matrix products are refused, since ATen's order of summing is unknown.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <tuple>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz::native {

// One use of a parameter in one rank's forward.
struct Use {
  std::size_t group = 0, param = 0;  // in the case
  int output = 0;                    // place among the outputs of this rank's forward
};

// Where in the run a loss was made.
struct LossPlace {
  int rank = 0, step = 0, micro = 0;
};

// The gradients of one run of a case: each is computed once and shared, by the ranks' programs and
// by the reference, since it is a function of the case alone. Nobody may change what it gives.
class Gradients {
 public:
  explicit Gradients(const Case& c) : case_(c) {}
  // The gradient of use.param, in `dtype` (that of the parameter as it was used).
  const at::Tensor& of(const Use& use, const LossPlace& place, c10::ScalarType dtype);

 private:
  using Key = std::tuple<int, int, int, std::size_t, std::size_t, c10::ScalarType>;
  const Case& case_;
  std::map<Key, at::Tensor> known_;
};

// Rows of x for each expert (one entry for a linear layer).
std::vector<std::int64_t> expert_rows(const Case& c, const ParamSpec& param, int rank);
// The input of a use as the module hands it to the call: in the group's param_dtype, or the
// parameter's own.
at::Tensor input_of(const Case& c, const GroupSpec& group, const ParamSpec& param,
                    const LossPlace& place);
// torchao's wrapper multiplies in fp8.
bool is_fp8_product(const ParamSpec& param);

// The uses of one rank's forward, in the order of its outputs.
std::vector<Use> uses_of(const Case& c, int rank);

}  // namespace shardfuzz::native
