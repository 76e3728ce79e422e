// ExactValues: the numbers themselves, for parameters whose gradient can be told without a matrix
// product and without rounding: float32, call mul, integer data, a power of two of ranks. There the
// gradient is the product of the input and the loss's weight, averaged over the ranks, and SGD is
// three operations of a float; every target must give these bits.
//
// What the data of a rank are is part of the case format (harness/base/data_fill.h). When a
// gradient is reduced or dropped is told by the abstract model (parameter_life.h), which goes
// ahead.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/properties/parameter_life.h"
#include "harness/case/case.h"

namespace shardfuzz {

class ExactValues {
 public:
  explicit ExactValues(const Case& c);  // keeps a reference to it

  // After the same operation of the model; `before` and `after` are its states around it.
  using States = std::vector<std::vector<ParamState>>;
  void apply(const Operation& operation, int step, const States& before, const States& after);

  // Digest of a rank's part of the sharded gradient, or of the value; none: not told here.
  struct Part {
    std::size_t group = 0, param = 0;
    int rank = 0;
  };
  [[nodiscard]] std::optional<std::string> gradient(const Part& part) const;
  [[nodiscard]] std::optional<std::string> value(const Part& part) const;

 private:
  using Floats = std::vector<float>;
  struct Numbers {
    int output = 0;  // place among the outputs of a forward
    Floats value, saved, momentum;
    Floats pending, gradient;  // empty: none
  };
  struct Loss {
    int step = 0, micro = 0;
    States states;  // of the model when the forward ran
  };
  using Key = std::pair<std::size_t, std::size_t>;  // group, parameter

  [[nodiscard]] bool is_exact(const ParamSpec& param) const;
  [[nodiscard]] Floats gradient_of(const Key& key, const Numbers& numbers, const Loss& loss) const;
  [[nodiscard]] std::string digest_of(const Part& part, const Floats& full) const;
  void backward(const States& before, const States& after);
  void step(const States& before);

  const Case& case_;
  std::map<Key, Numbers> numbers_;
  std::vector<Loss> losses_;
  int last_step_ = -1, micro_ = 0;
};

}  // namespace shardfuzz
