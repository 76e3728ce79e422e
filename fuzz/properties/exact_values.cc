#include "fuzz/properties/exact_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "harness/base/data_fill.h"
#include "harness/base/hash.h"

namespace shardfuzz {
namespace {

using Floats = std::vector<float>;

std::size_t elements_of(const ParamSpec& param) {
  std::int64_t product = 1;
  for (const std::int64_t size : param.shape) product *= size;
  return static_cast<std::size_t>(product);
}

// A sum of zeros is negative only where all of them are: so no sum begins with a zero of its own.
void add_to(Floats* sum, const Floats& more) {
  if (sum->empty()) {
    *sum = more;
    return;
  }
  for (std::size_t i = 0; i < more.size(); ++i) (*sum)[i] += more[i];
}

}  // namespace

ExactValues::ExactValues(const Case& c) : case_(c) {
  int output = 0;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    for (std::size_t p = 0; p < c.groups[g].params.size(); ++p, ++output) {
      const ParamSpec& param = c.groups[g].params[p];
      if (!is_exact(param)) continue;
      Numbers numbers{.output = output, .value = Floats(elements_of(param))};
      fill_data(numbers.value.data(), static_cast<std::int64_t>(numbers.value.size()), c.seed,
                c.groups[g].name + "." + param.name, kWeightRange, true);
      numbers_[{g, p}] = std::move(numbers);
    }
  }
}

bool ExactValues::is_exact(const ParamSpec& param) const {
  const int ranks = case_.mesh.world_size();
  return param.call == CallPath::kMul && param.dtype == DType::kFloat32 &&
         case_.batch.values == DataKind::kInteger && (ranks & (ranks - 1)) == 0;
}

// The sum over the ranks of input times weight of the loss.
Floats ExactValues::gradient_of(const Key& key, const Numbers& numbers, const Loss& loss) const {
  const GroupSpec& group = case_.groups[key.first];
  const std::string path = group.name + "." + group.params[key.second].name;
  const std::size_t count = numbers.value.size();
  Floats sum, x(count), weight(count);
  for (int rank = 0; rank < case_.mesh.world_size(); ++rank) {
    const std::string at = fmt::format("{}/{}/{}", rank, loss.step, loss.micro);
    const auto fill = [&](Floats* data, const std::string& place) {
      fill_data(data->data(), static_cast<std::int64_t>(count), case_.seed, place, kInputRange,
                true);
    };
    fill(&x, fmt::format("x/{}/{}", at, path));
    fill(&weight, fmt::format("g/{}/{}", at, numbers.output));
    for (std::size_t i = 0; i < count; ++i) weight[i] *= x[i];
    add_to(&sum, weight);
  }
  return sum;
}

void ExactValues::apply(const Operation& operation, int step, const States& before,
                        const States& after) {
  if (std::exchange(last_step_, step) != step) micro_ = 0;
  if (operation.kind == OpKind::kForward) {
    losses_.push_back({.step = step, .micro = micro_++, .states = before});
  }
  if (operation.kind == OpKind::kBackward) backward(before, after);
  if (operation.kind == OpKind::kStep) this->step(before);
  for (auto& [key, numbers] : numbers_) {
    if (operation.kind == OpKind::kZeroGrad) numbers.gradient.clear();
    if (operation.kind == OpKind::kSave) numbers.saved = numbers.value;
    if (operation.kind == OpKind::kLoad) numbers.value = numbers.saved;
  }
}

void ExactValues::backward(const States& before, const States& after) {
  const float share = 1.0F / static_cast<float>(case_.mesh.world_size());
  for (auto& [key, numbers] : numbers_) {
    const auto& [g, p] = key;
    for (const Loss& loss : losses_) {
      if (loss.states[g][p].trainable) add_to(&numbers.pending, gradient_of(key, numbers, loss));
    }
    if (before[g][p].gradient_version == after[g][p].gradient_version) continue;
    for (float& element : numbers.pending) element *= share;
    add_to(&numbers.gradient, numbers.pending);
    numbers.pending.clear();
  }
  losses_.clear();
}

void ExactValues::step(const States& before) {
  const float rate = std::ldexp(1.0F, case_.optimizer.lr_log2);
  for (auto& [key, numbers] : numbers_) {
    if (!before[key.first][key.second].has_gradient) continue;
    if (case_.optimizer.kind == OptimizerKind::kSgdMomentum) {
      for (float& element : numbers.momentum) element *= 0.5F;
      add_to(&numbers.momentum, numbers.gradient);
    } else {
      numbers.momentum = numbers.gradient;
    }
    for (std::size_t i = 0; i < numbers.value.size(); ++i) {
      numbers.value[i] += -rate * numbers.momentum[i];
    }
  }
}

std::string ExactValues::digest_of(const Part& part, const Floats& full) const {
  const auto rows = static_cast<std::size_t>(case_.groups[part.group].params[part.param].shape[0]);
  const auto ranks = static_cast<std::size_t>(case_.mesh.shard_size());
  const std::size_t chunk = (rows + ranks - 1) / ranks, row = full.size() / rows;
  const std::size_t first = std::min(rows, chunk * (static_cast<std::size_t>(part.rank) % ranks));
  const std::size_t count = std::min(chunk, rows - first) * row;
  return hex64(tensor_digest(full.data() + first * row, count * sizeof(float)));
}

std::optional<std::string> ExactValues::gradient(const Part& part) const {
  const auto found = numbers_.find({part.group, part.param});
  if (found == numbers_.end()) return std::nullopt;
  return digest_of(part, found->second.gradient);
}

std::optional<std::string> ExactValues::value(const Part& part) const {
  const auto found = numbers_.find({part.group, part.param});
  if (found == numbers_.end()) return std::nullopt;
  return digest_of(part, found->second.value);
}

}  // namespace shardfuzz
