#include "fuzz/swarm.h"

#include <algorithm>

namespace shardfuzz {
namespace {

std::string known_names() {
  std::string names;
  for (const Feature feature : all_features()) {
    if (!names.empty()) names += ' ';
    names += name_of(feature);
  }
  return names;
}

}  // namespace

std::string_view name_of(Feature feature) {
  switch (feature) {
    case Feature::kHsdp: return "hsdp";
    case Feature::kLargeWorld: return "large_world";
    case Feature::kRandomSchedule: return "random_schedule";
    case Feature::kPrioritySchedule: return "priority_schedule";
    case Feature::kLateDelivery: return "late_delivery";
    case Feature::kDelays: return "delays";
    case Feature::kCompareMeshes: return "compare_meshes";
    case Feature::kMixedPacks: return "mixed_packs";
    case Feature::kOtherCalls: return "other_calls";
    case Feature::kBf16Original: return "bf16_original";
    case Feature::kMixedDtype: return "mixed_dtype";
    case Feature::kFrozen: return "frozen";
    case Feature::kTied: return "tied";
    case Feature::kShardDim1: return "shard_dim1";
    case Feature::kManyExperts: return "many_experts";
    case Feature::kUnusedModules: return "unused_modules";
    case Feature::kReshardFalse: return "reshard_false";
    case Feature::kReshardInt: return "reshard_int";
    case Feature::kNoMixedPrecision: return "no_mixed_precision";
    case Feature::kFp32Param: return "fp32_param";
    case Feature::kBf16Reduce: return "bf16_reduce";
    case Feature::kOutputDtype: return "output_dtype";
    case Feature::kKeepInputs: return "keep_inputs";
    case Feature::kOffload: return "offload";
    case Feature::kUnevenTokens: return "uneven_tokens";
    case Feature::kIdleRanks: return "idle_ranks";
    case Feature::kEmptyExperts: return "empty_experts";
    case Feature::kTopK: return "top_k";
    case Feature::kSameBatch: return "same_batch";
    case Feature::kNormalData: return "normal_data";
    case Feature::kMomentum: return "momentum";
    case Feature::kManySteps: return "many_steps";
    case Feature::kGradientAccumulation: return "gradient_accumulation";
    case Feature::kTwoForwards: return "two_forwards";
    case Feature::kSkipAllReduce: return "skip_all_reduce";
    case Feature::kReshardAfterBackward: return "reshard_after_backward";
    case Feature::kOddLoops: return "odd_loops";
    case Feature::kExplicitUnshard: return "explicit_unshard";
    case Feature::kAsyncUnshard: return "async_unshard";
    case Feature::kPrefetch: return "prefetch";
    case Feature::kFreezeOps: return "freeze_ops";
    case Feature::kSaveLoad: return "save_load";
    case Feature::kFullTensor: return "full_tensor";
  }
  SHARDFUZZ_CHECK(false, "feature {} has no name", static_cast<int>(feature));
}

const std::vector<Feature>& all_features() {
  static const std::vector<Feature> features = [] {
    std::vector<Feature> all;
    for (int i = 0; i < kFeatureCount; ++i) all.push_back(static_cast<Feature>(i));
    return all;
  }();
  return features;
}

Swarm all_on() {
  Swarm swarm;
  for (const Feature feature : all_features()) swarm.set(feature, true);
  return swarm;
}

Swarm draw_swarm(Random& random) {
  Swarm swarm;
  for (const Feature feature : all_features()) swarm.set(feature, random.below(2) == 1);
  return swarm;
}

std::string to_text(const Swarm& swarm) {
  if (swarm == Swarm{}) return "core";
  if (swarm == all_on()) return "all";
  std::string text;
  for (const Feature feature : all_features()) {
    if (!swarm.on(feature)) continue;
    if (!text.empty()) text += ',';
    text += name_of(feature);
  }
  return text;
}

Result<Swarm> parse_swarm(std::string_view text) {
  Swarm swarm;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "all") swarm = all_on();
    if (word == "core") swarm = Swarm{};
    if (word == "all" || word == "core") continue;
    const bool on = !word.starts_with('-');
    if (!on) word.remove_prefix(1);
    const auto& features = all_features();
    const auto found = std::find_if(features.begin(), features.end(),
                                    [&](Feature feature) { return name_of(feature) == word; });
    if (found == features.end()) {
      return Error{.what = fmt::format("'{}' is no feature", word),
                   .where = "features",
                   .what_to_do = "write all, core or, e.g., all,-hsdp; known: " + known_names()};
    }
    swarm.set(*found, on);
  }
  return swarm;
}

}  // namespace shardfuzz
