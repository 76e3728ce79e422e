// Expected: the rule book's view of a case (harness/layout), which traces are compared with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/pack_info.h"
#include "harness/layout/chunk.h"
#include "harness/layout/life.h"

namespace shardfuzz {

// One parameter of a case with what the case says about it.
struct ParamView {
  const GroupSpec* group = nullptr;
  const ParamSpec* param = nullptr;
  const PackInfo* pack = nullptr;
  int group_index = 0;
};

class Expected {
 public:
  // The case must validate and outlive this.
  explicit Expected(const Case& c);

  [[nodiscard]] const Case& the_case() const { return case_; }
  // nullptr where the case has no such parameter.
  [[nodiscard]] const ParamView* find(std::string_view group, std::string_view param) const;
  [[nodiscard]] const std::vector<ParamView>& params() const { return params_; }

  // How the parameter's rows are split over the shard group, and a global rank's place in it.
  [[nodiscard]] layout::Split split_of(const ParamView& view) const;
  [[nodiscard]] int shard_rank_of(int rank) const;
  [[nodiscard]] layout::ShardClass class_of(const ParamView& view, int rank) const;
  // The class by which a signature names a rank: of the named parameter, else "full".
  [[nodiscard]] std::string_view class_name(std::string_view group, std::string_view param,
                                            int rank) const;

  // Shape of the padded shard that every rank sends.
  [[nodiscard]] std::vector<std::int64_t> padded_shape(const ParamView& view) const;
  [[nodiscard]] DType sent_dtype(const ParamView& view) const;

  // Collectives and bytes by operation: operation `i` of step `s` is life().operations[s * n + i].
  [[nodiscard]] const layout::Life& life() const { return life_; }
  [[nodiscard]] std::size_t operations_per_step() const { return operations_.size(); }
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }

 private:
  [[nodiscard]] layout::LifeModel life_model() const;

  const Case& case_;
  std::vector<ParamView> params_;
  std::vector<Operation> operations_;
  layout::Life life_;
};

// "float32", "bfloat16", ...: PyTorch's spelling, as in traces.
std::string_view torch_name(DType dtype);

}  // namespace shardfuzz
