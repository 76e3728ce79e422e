#include "harness/case/case_names.h"

#include "harness/base/check.h"

namespace shardfuzz {

std::string_view name_of(DType value) {
  switch (value) {
    case DType::kFloat32: return "fp32";
    case DType::kBFloat16: return "bf16";
    case DType::kFloat16: return "fp16";
    case DType::kFloat8E4M3: return "fp8_e4m3";
    case DType::kUInt8: return "uint8";
  }
  SHARDFUZZ_CHECK(false, "dtype {} has no name", static_cast<int>(value));
}

std::string_view name_of(CallPath value) {
  switch (value) {
    case CallPath::kGroupedMm: return "grouped_mm";
    case CallPath::kGroupedMmNoOffs: return "grouped_mm_no_offs";
    case CallPath::kBmm: return "bmm";
    case CallPath::kLinear: return "linear";
    case CallPath::kMul: return "mul";
  }
  SHARDFUZZ_CHECK(false, "call path {} has no name", static_cast<int>(value));
}

std::string_view name_of(OpKind value) {
  switch (value) {
    case OpKind::kForward: return "forward";
    case OpKind::kBackward: return "backward";
    case OpKind::kStep: return "step";
    case OpKind::kZeroGrad: return "zero_grad";
    case OpKind::kUnshard: return "unshard";
    case OpKind::kWaitUnshard: return "wait_unshard";
    case OpKind::kReshard: return "reshard";
    case OpKind::kPrefetchForward: return "prefetch_forward";
    case OpKind::kPrefetchBackward: return "prefetch_backward";
    case OpKind::kUnshardAsyncOp: return "unshard_async_op";
    case OpKind::kGradientSync: return "gradient_sync";
    case OpKind::kReshardAfterBackward: return "reshard_after_backward";
    case OpKind::kAllReduce: return "all_reduce";
    case OpKind::kFreeze: return "freeze";
    case OpKind::kUnfreeze: return "unfreeze";
    case OpKind::kSave: return "save";
    case OpKind::kLoad: return "load";
    case OpKind::kFullTensor: return "full_tensor";
  }
  SHARDFUZZ_CHECK(false, "operation {} has no name", static_cast<int>(value));
}

std::string_view name_of(DataKind value) {
  switch (value) {
    case DataKind::kInteger: return "integer";
    case DataKind::kNormal: return "normal";
  }
  SHARDFUZZ_CHECK(false, "data kind {} has no name", static_cast<int>(value));
}

std::string_view name_of(OptimizerKind value) {
  switch (value) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kSgdMomentum: return "sgd_momentum";
  }
  SHARDFUZZ_CHECK(false, "optimizer {} has no name", static_cast<int>(value));
}

std::string_view name_of(SchedulePolicy value) {
  switch (value) {
    case SchedulePolicy::kRoundRobin: return "round_robin";
    case SchedulePolicy::kRandom: return "random";
    case SchedulePolicy::kPriority: return "priority";
  }
  SHARDFUZZ_CHECK(false, "schedule policy {} has no name", static_cast<int>(value));
}

std::string_view name_of(Delivery value) {
  switch (value) {
    case Delivery::kEarly: return "early";
    case Delivery::kLate: return "late";
  }
  SHARDFUZZ_CHECK(false, "delivery {} has no name", static_cast<int>(value));
}

template <>
const std::vector<DType>& all_of() {
  static const std::vector<DType> all{DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                      DType::kFloat8E4M3, DType::kUInt8};
  return all;
}

template <>
const std::vector<CallPath>& all_of() {
  static const std::vector<CallPath> all{CallPath::kGroupedMm, CallPath::kGroupedMmNoOffs,
                                         CallPath::kBmm, CallPath::kLinear, CallPath::kMul};
  return all;
}

template <>
const std::vector<OpKind>& all_of() {
  static const std::vector<OpKind> all{OpKind::kForward,
                                       OpKind::kBackward,
                                       OpKind::kStep,
                                       OpKind::kZeroGrad,
                                       OpKind::kUnshard,
                                       OpKind::kWaitUnshard,
                                       OpKind::kReshard,
                                       OpKind::kPrefetchForward,
                                       OpKind::kPrefetchBackward,
                                       OpKind::kUnshardAsyncOp,
                                       OpKind::kGradientSync,
                                       OpKind::kReshardAfterBackward,
                                       OpKind::kAllReduce,
                                       OpKind::kFreeze,
                                       OpKind::kUnfreeze,
                                       OpKind::kSave,
                                       OpKind::kLoad,
                                       OpKind::kFullTensor};
  return all;
}

template <>
const std::vector<DataKind>& all_of() {
  static const std::vector<DataKind> all{DataKind::kInteger, DataKind::kNormal};
  return all;
}

template <>
const std::vector<OptimizerKind>& all_of() {
  static const std::vector<OptimizerKind> all{OptimizerKind::kSgd, OptimizerKind::kSgdMomentum};
  return all;
}

template <>
const std::vector<SchedulePolicy>& all_of() {
  static const std::vector<SchedulePolicy> all{SchedulePolicy::kRoundRobin, SchedulePolicy::kRandom,
                                               SchedulePolicy::kPriority};
  return all;
}

template <>
const std::vector<Delivery>& all_of() {
  static const std::vector<Delivery> all{Delivery::kEarly, Delivery::kLate};
  return all;
}

OpArguments arguments_of(OpKind kind) {
  switch (kind) {
    case OpKind::kForward:
    case OpKind::kBackward:
    case OpKind::kStep:
    case OpKind::kZeroGrad:
    case OpKind::kSave:
    case OpKind::kLoad: return {};
    case OpKind::kWaitUnshard:
    case OpKind::kReshard:
    case OpKind::kPrefetchForward:
    case OpKind::kPrefetchBackward: return {.group = true};
    case OpKind::kUnshard:
    case OpKind::kUnshardAsyncOp: return {.group = true, .flag = true};
    case OpKind::kGradientSync:
    case OpKind::kReshardAfterBackward:
    case OpKind::kAllReduce: return {.flag = true};
    case OpKind::kFreeze:
    case OpKind::kUnfreeze:
    case OpKind::kFullTensor: return {.group = true, .param = true};
  }
  SHARDFUZZ_CHECK(false, "operation {} has no arguments", static_cast<int>(kind));
}

const std::vector<std::string_view>& known_origins() {
  static const std::vector<std::string_view> all{"hand", "report", "fuzz"};
  return all;
}

const std::vector<std::string_view>& known_dim_names() {
  static const std::vector<std::string_view> all{"replicate", "shard", "tp", "ep"};
  return all;
}

const std::vector<std::string_view>& known_targets() {
  static const std::vector<std::string_view> all{"real", "native"};
  return all;
}

const std::vector<std::string_view>& known_comms() {
  static const std::vector<std::string_view> all{"sim", "nccl"};
  return all;
}

const std::vector<std::string_view>& known_devices() {
  static const std::vector<std::string_view> all{"cpu", "cuda"};
  return all;
}

const std::vector<std::string_view>& expected_verdicts() {
  static const std::vector<std::string_view> all{"pass", "fail", "refused", "invalid"};
  return all;
}

}  // namespace shardfuzz
