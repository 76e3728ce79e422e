#include "harness/native/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "harness/base/check.h"
#include "harness/native/numbers.h"
#include "harness/native/output_compare.h"

namespace shardfuzz::native {
namespace {

using Programs = std::vector<std::unique_ptr<RankProgram>>;

struct Spec {
  const GroupSpec* group = nullptr;
  const ParamSpec* param = nullptr;
};

double epsilon(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float: return 0x1p-23;
    case c10::ScalarType::BFloat16: return 0x1p-8;
    case c10::ScalarType::Half: return 0x1p-10;
    default: SHARDFUZZ_CHECK(false, "no epsilon for {}", c10::toString(dtype));
  }
}

// JSON has no NaN: a value that is none is written as a number that no data holds.
double finite(double value) { return std::abs(value) < 1e300 ? value : 1e300; }

// To four decimals as Python's round does, which rounds the decimal form of the exact value.
double rounded(double value) {
  char text[400];
  std::snprintf(text, sizeof text, "%.4f", value);
  return std::strtod(text, nullptr);
}

// The same bytes and no NaN, which is not equal to itself.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0 &&
         count_nans(a.const_data_ptr(), a.scalar_type(), a.numel()) == 0;
}

// Sums in double, in order, divided by the number of ranks at the end.
std::vector<double> mean(const std::vector<at::Tensor>& gradients, int ranks, bool absolute) {
  const std::int64_t count = gradients[0].numel();
  std::vector<double> total(static_cast<std::size_t>(count));
  for (const at::Tensor& gradient : gradients) {
    add_to_doubles(total.data(), gradient.const_data_ptr(), gradient.scalar_type(), count,
                   absolute);
  }
  for (double& value : total) value /= ranks;
  return total;
}

class ReferenceRun {
 public:
  ReferenceRun(const Case& c, const Programs& programs, Gradients* gradients, Recorder* recorder)
      : case_(c),
        gradients_(gradients),
        programs_(programs),
        recorder_(recorder),
        world_(static_cast<int>(programs.size())),
        shards_(c.mesh.shard_size()),
        integer_(c.batch.values == DataKind::kInteger),
        power_of_two_(std::has_single_bit(programs.size())) {
    for (const GroupSpec& group : c.groups) {
      for (const ParamSpec& param : group.params) {
        const std::string key = group.name + "." + param.name;
        specs_[key] = {.group = &group, .param = &param};
        required_[key] = param.requires_grad;
      }
    }
  }

  void run() {
    for (int step = 0; step < case_.steps; ++step) {
      for (const Operation& operation : operations_of(case_)) handle(step, operation);
    }
    finals();
  }

 private:
  struct Loss {
    std::size_t forward = 0;
    std::map<std::string, bool> required;
  };

  void handle(int step, const Operation& operation);
  void on_forward();
  void on_backward(int step);
  void on_step();
  void on_full_tensor();
  void add_gradients(const Loss& loss);
  void compare_outputs(std::size_t forward, const ByKey& full);
  void compare_gradient(int step, const std::string& key, std::size_t number);
  void finals();

  void emit(int rank, int step, Reference note) {
    recorder_->record_at(rank, step, -1, "reference", std::move(note));
  }
  [[nodiscard]] Reference note(const std::string& key, const char* what) const {
    const Spec& spec = specs_.at(key);
    return {.group = spec.group->name, .param = spec.param->name, .what = what};
  }
  void compare_exactly(int rank, int step, const std::string& key, const char* what,
                       const at::Tensor& got, const at::Tensor& want);
  void compare_within(int rank, int step, const std::string& key, const at::Tensor& got,
                      const std::vector<double>& want, const std::vector<double>& bound);
  [[nodiscard]] at::Tensor full_of(const std::string& key,
                                   const std::vector<at::Tensor>& parts) const {
    return cat({parts.begin(), parts.begin() + shards_}, specs_.at(key).param->shard_dim);
  }
  [[nodiscard]] const std::vector<FsdpParam*>& watched() const {
    return programs_[0]->model()->watched();
  }
  [[nodiscard]] c10::ScalarType compute_dtype(const Spec& spec) const {
    return scalar_type_of(spec.group->mixed_precision.param_dtype.value_or(spec.param->dtype));
  }
  [[nodiscard]] c10::ScalarType reduce_dtype(const Spec& spec) const {
    const MixedPrecision& mixed = spec.group->mixed_precision;
    if (mixed.reduce_dtype) return scalar_type_of(*mixed.reduce_dtype);
    return compute_dtype(spec);
  }
  [[nodiscard]] std::string leaf_of(const std::string& key) const {
    const std::string& tied = specs_.at(key).param->tied_to;
    return tied.empty() ? key : tied;
  }

  const Case& case_;
  Gradients* gradients_;
  const Programs& programs_;
  Recorder* recorder_;
  int world_, shards_;
  bool integer_, power_of_two_;
  std::map<std::string, Spec> specs_;
  std::map<std::string, bool> required_;
  std::map<std::string, std::vector<at::Tensor>> pending_, reduced_;  // gradients of every rank
  std::vector<Loss> losses_;
  bool synced_ = true, all_reduce_ = true;
  std::size_t forwards_ = 0, backwards_ = 0, steps_ = 0, fulls_ = 0;
  int terms_ = 0;  // backwards that went into the gradients since zero_grad
};

void ReferenceRun::handle(int step, const Operation& operation) {
  const std::string key = operation.group + "." + operation.param;
  switch (operation.kind) {
    case OpKind::kForward: return on_forward();
    case OpKind::kBackward: return on_backward(step);
    case OpKind::kStep: return on_step();
    case OpKind::kZeroGrad:
      reduced_.clear();
      terms_ = 0;
      return;
    case OpKind::kGradientSync: synced_ = all_reduce_ = operation.flag; return;
    case OpKind::kAllReduce: all_reduce_ = operation.flag; return;
    case OpKind::kFullTensor: return on_full_tensor();
    case OpKind::kFreeze: required_[key] = false; return;
    case OpKind::kUnfreeze: required_[key] = true; return;
    default: return;
  }
}

void ReferenceRun::on_forward() {
  const std::size_t number = forwards_++;
  ByKey full;
  for (const FsdpParam* param : watched()) {
    std::vector<at::Tensor> parts;
    for (const auto& program : programs_) {
      parts.push_back(program->forwards[number].shards.at(param->key()));
    }
    full[param->key()] = full_of(param->key(), parts);
  }
  compare_outputs(number, full);
  losses_.push_back({.forward = number, .required = required_});
}

void ReferenceRun::compare_outputs(std::size_t forward, const ByKey& full) {
  std::map<std::string, at::Tensor> plain;  // the leaves in the dtype they are used in
  for (int rank = 0; rank < world_; ++rank) {
    const ForwardRun& run = programs_[static_cast<std::size_t>(rank)]->forwards[forward];
    for (std::size_t i = 0; i < run.uses.size(); ++i) {
      const GroupSpec& group = case_.groups[run.uses[i].group];
      const ParamSpec& param = group.params[run.uses[i].param];
      const std::string key = group.name + "." + param.name, leaf = leaf_of(key);
      at::Tensor& home = plain[leaf];
      if (!home.defined()) home = to_dtype(full.at(leaf), compute_dtype(specs_.at(leaf)));
      const at::Tensor want = to_dtype(home, compute_dtype(specs_.at(key)));
      const LossPlace place{.rank = rank, .step = run.step, .micro = run.micro};
      if (same_output(case_, group, param, place, run.weights[i], want)) continue;
      Reference differs = note(key, "output");
      differs.exact = true;
      differs.differing = 1;
      emit(rank, run.step, std::move(differs));
    }
  }
}

void ReferenceRun::add_gradients(const Loss& loss) {
  for (int rank = 0; rank < world_; ++rank) {
    const ForwardRun& run = programs_[static_cast<std::size_t>(rank)]->forwards[loss.forward];
    std::map<std::string, at::Tensor> of_rank;
    // autograd adds the gradients of several uses as they come: the last use first.
    for (auto it = run.uses.rbegin(); it != run.uses.rend(); ++it) {
      const Use& use = *it;
      const GroupSpec& group = case_.groups[use.group];
      const std::string key = group.name + "." + group.params[use.param].name;
      const std::string leaf = leaf_of(key);
      if (!loss.required.at(leaf)) continue;
      const at::Tensor gradient =
          to_dtype(gradients_->of(use, {.rank = rank, .step = run.step, .micro = run.micro},
                                  compute_dtype(specs_.at(key))),
                   compute_dtype(specs_.at(leaf)));
      at::Tensor& sum = of_rank[leaf];
      if (!sum.defined()) {
        sum = gradient;
      } else {
        sum = copy_of(sum);  // the gradient itself is shared
        add(sum.data_ptr(), gradient.const_data_ptr(), sum.scalar_type(), sum.numel());
      }
    }
    for (auto& [leaf, gradient] : of_rank) pending_[leaf].push_back(std::move(gradient));
  }
}

void ReferenceRun::on_backward(int step) {
  const std::size_t number = backwards_++;
  terms_ += static_cast<int>(losses_.size());
  for (const Loss& loss : losses_) add_gradients(loss);
  losses_.clear();
  if (!synced_ || !all_reduce_) return;
  for (auto& [key, gradients] : pending_) {
    auto& into = reduced_[key];
    into.insert(into.end(), gradients.begin(), gradients.end());
  }
  pending_.clear();
  for (const FsdpParam* param : watched()) {
    compare_gradient(step, param->key(), number);
  }
}

void ReferenceRun::compare_gradient(int step, const std::string& key, std::size_t number) {
  std::vector<at::Tensor> owners;
  std::vector<bool> present;
  for (const auto& program : programs_) {
    owners.push_back(program->sharded_gradients[number].at(key));
    present.push_back(owners.back().defined());
  }
  const auto found = reduced_.find(key);
  const bool expected = found != reduced_.end();
  const auto odd = std::find(present.begin(), present.end(), !expected);
  const bool all = std::find(present.begin(), present.end(), false) == present.end();
  if (!expected || !all) {
    if (odd != present.end()) {
      Reference missing = note(key, "gradient");
      missing.missing = true;
      emit(static_cast<int>(odd - present.begin()), step, std::move(missing));
    }
    return;
  }
  const Spec& spec = specs_.at(key);
  const c10::ScalarType orig = scalar_type_of(spec.param->dtype);
  const c10::ScalarType compute = compute_dtype(spec), reduce = reduce_dtype(spec);
  const bool wide = orig == c10::ScalarType::Float && compute == c10::ScalarType::Float;
  const bool exact =
      integer_ && power_of_two_ && reduce == c10::ScalarType::Float && (terms_ == 1 || wide);
  const std::vector<double> total = mean(found->second, world_, false);
  std::vector<double> bound;
  if (!exact) {
    bound = mean(found->second, world_, true);
    const double factor =
        (world_ + 2) * epsilon(reduce) + terms_ * (2 * epsilon(orig) + epsilon(compute));
    for (double& size : bound) size *= factor;
  }
  for (int replica = 0; replica < world_ / shards_; ++replica) {
    const auto from = owners.begin() + replica * shards_;
    const at::Tensor got = cat({from, from + shards_}, spec.param->shard_dim);
    if (!exact) {
      compare_within(replica * shards_, step, key, got, total, bound);
      continue;
    }
    const at::Tensor want = empty(got.sizes(), c10::ScalarType::Float);
    auto* to = static_cast<float*>(want.data_ptr());
    for (std::size_t i = 0; i < total.size(); ++i) to[i] = static_cast<float>(total[i]);
    compare_exactly(replica * shards_, step, key, "gradient", got, to_dtype(want, orig));
  }
}

void ReferenceRun::on_step() {
  const std::size_t number = steps_++;
  const float rate = std::ldexp(1.0F, case_.optimizer.lr_log2);
  for (int rank = 0; rank < world_; ++rank) {
    const OptimizerRun& run = programs_[static_cast<std::size_t>(rank)]->updates[number];
    for (const FsdpParam* param : watched()) {
      const std::string key = param->key();
      const at::Tensor want = copy_of(run.before.at(key));
      at::Tensor update = run.gradients.at(key);
      const c10::ScalarType dtype = want.scalar_type();
      const std::int64_t count = want.numel();
      if (update.defined() && count > 0) {
        const at::Tensor& momentum = run.momenta.at(key);
        if (case_.optimizer.kind == OptimizerKind::kSgdMomentum && momentum.defined()) {
          const at::Tensor buffer = copy_of(momentum);
          multiply(buffer.data_ptr(), dtype, count, 0.5);
          add(buffer.data_ptr(), update.const_data_ptr(), dtype, count);
          update = buffer;
        }
        add(want.data_ptr(), update.const_data_ptr(), dtype, count, -rate);
      }
      compare_exactly(rank, run.step, key, "parameter", run.after.at(key), want);
    }
  }
}

void ReferenceRun::on_full_tensor() {
  const std::size_t number = fulls_++;
  const FullRun& first = programs_[0]->fulls[number];
  std::vector<at::Tensor> parts;
  for (const auto& program : programs_) parts.push_back(program->fulls[number].local);
  const at::Tensor want = full_of(first.key, parts);
  for (int rank = 0; rank < world_; ++rank) {
    const FullRun& run = programs_[static_cast<std::size_t>(rank)]->fulls[number];
    compare_exactly(rank, first.step, first.key, "full tensor", run.full, want);
  }
}

void ReferenceRun::compare_exactly(int rank, int step, const std::string& key, const char* what,
                                   const at::Tensor& got, const at::Tensor& want) {
  Reference result = note(key, what);
  if (got.sizes() != want.sizes()) {
    result.missing = true;
    return emit(rank, step, std::move(result));
  }
  result.exact = true;
  if (got.numel() == 0 || is_same(got, want)) return emit(rank, step, std::move(result));
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double a = value_at(got.const_data_ptr(), got.scalar_type(), i);
    const double b = value_at(want.const_data_ptr(), want.scalar_type(), i);
    if (a == b) continue;
    if (result.differing++ > 0) continue;
    result.first = i;
    result.got = finite(a);
    result.want = finite(b);
  }
  emit(rank, step, std::move(result));
}

void ReferenceRun::compare_within(int rank, int step, const std::string& key, const at::Tensor& got,
                                  const std::vector<double>& want,
                                  const std::vector<double>& bound) {
  Reference result = note(key, "gradient");
  double headroom = 0;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double value = value_at(got.const_data_ptr(), got.scalar_type(), i);
    const double error = std::abs(value - want[at]);
    if (bound[at] > 0) headroom = std::max(headroom, error / bound[at]);
    if (error <= bound[at]) continue;
    if (result.differing++ > 0) continue;
    result.first = i;
    result.got = finite(value);
    result.want = finite(want[at]);
  }
  result.headroom = rounded(finite(headroom));
  emit(rank, step, std::move(result));
}

// The full parameters at the end, for comparing meshes (P12).
void ReferenceRun::finals() {
  const std::size_t sample_size = 16;
  for (const FsdpParam* first : watched()) {
    const std::string key = first->key();
    std::vector<at::Tensor> parts;
    for (const auto& program : programs_) {
      for (const FsdpParam* param : program->model()->watched()) {
        if (param->key() == key) parts.push_back(param->sharded_param);
      }
    }
    const at::Tensor full = full_of(key, parts);
    const Spec& spec = specs_.at(key);
    Final event{.group = spec.group->name,
                .param = spec.param->name,
                .digest = digest(full),
                .exact = integer_ && power_of_two_ && reduce_dtype(spec) == c10::ScalarType::Float};
    const std::int64_t stride = std::max<std::int64_t>(1, full.numel() / 16);
    for (std::int64_t i = 0; i < full.numel() && event.sample.size() < sample_size; i += stride) {
      event.sample.push_back(finite(value_at(full.const_data_ptr(), full.scalar_type(), i)));
    }
    recorder_->record_at(-1, case_.steps - 1, -1, "reference", std::move(event));
  }
}

}  // namespace

void check_reference(const Case& c, const Programs& programs, Gradients* gradients,
                     Recorder* recorder) {
  ReferenceRun(c, programs, gradients, recorder).run();
}

}  // namespace shardfuzz::native
