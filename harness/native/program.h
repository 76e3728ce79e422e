// RankProgram: what one rank does with a case on the native target, and what it keeps for P6.
//
// Follows harness/real/shardfuzz_real/run.py and model.py, operation by operation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/native/fsdp_model.h"
#include "harness/native/gradients.h"

namespace shardfuzz::native {

using ByKey = std::map<std::string, at::Tensor>;  // "group.param" -> tensor; undefined: None

// One forward of one rank.
struct ForwardRun {
  int step = 0, micro = 0;
  ByKey shards;  // local shards at its start
  std::vector<Use> uses;
  std::vector<at::Tensor> weights;  // as they were when used, by use
};

struct OptimizerRun {
  int step = 0;
  ByKey before, momenta, gradients, after;
};

// One full_tensor() of one rank.
struct FullRun {
  int step = 0;
  std::string key;
  at::Tensor local, full;
};

class RankProgram {
 public:
  RankProgram(const Case& c, int rank, FullData* data, Gradients* gradients, Comm* comm,
              Observer* observer, const Planted& planted);

  // Raises what the code under test would (PyError, c10::Error).
  void run();

  std::vector<ForwardRun> forwards;
  std::vector<ByKey> sharded_gradients;  // after each backward
  std::vector<OptimizerRun> updates;
  std::vector<FullRun> fulls;
  [[nodiscard]] const FsdpModel* model() const { return model_.get(); }

 private:
  struct Loss {
    std::size_t forward = 0;          // index into forwards
    std::vector<bool> requires_grad;  // of each use's parameter, when the graph was made
    std::vector<c10::ScalarType> dtypes;
  };

  void build();
  void run_operation(int step, int number, const Operation& operation);
  void operate(int step, const Operation& operation);
  void forward(int step);
  void use_parameters(std::size_t state, ForwardRun* run, Loss* loss);
  void backward();
  void backward_of(const Loss& loss);
  void check_tokens(const ParamSpec& param) const;
  void add_gradients(std::size_t state, const Loss& loss);
  void step_optimizer(int step);
  void step_parameter(FsdpParam& param);
  void write_storage(const char* at);
  void save();
  void load();
  void full_tensor(int step, const FsdpParam& param);
  void set_flags(const Operation& operation);
  [[nodiscard]] std::size_t state_of(const std::string& group) const;
  [[nodiscard]] FsdpParam* param_of(const Operation& operation) const;
  [[nodiscard]] ByKey local_copies() const;

  const Case& case_;
  int rank_;
  FullData* data_;
  Gradients* gradients_;
  Comm* comm_;
  Observer* observer_;
  const Planted& planted_;
  std::unique_ptr<FsdpModel> model_;
  std::vector<Loss> losses_;
  int micro_ = 0;
  std::map<const FsdpParam*, at::Tensor> momenta_;
  ByKey saved_;  // state_dict() as op save kept it; empty: none
};

at::Tensor copy_of(const at::Tensor& tensor);  // contiguous tensors only

}  // namespace shardfuzz::native
