#include "harness/native/supported.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/case/case_names.h"

namespace shardfuzz::native {
namespace {

bool is_known_pack(const ParamSpec& param) {
  return param.pack == "plain" || param.pack == "torchao_moe_fp8";
}

std::optional<std::string> unsupported_call(const Case& c, const GroupSpec& group,
                                            const ParamSpec& param) {
  const bool is_fp8 = param.pack == "torchao_moe_fp8" && param.call == CallPath::kGroupedMm;
  const auto dtype = group.mixed_precision.param_dtype.value_or(param.dtype);
  if (param.call == CallPath::kMul) return std::nullopt;
  if (c.batch.values != DataKind::kInteger && !is_fp8) return "a matrix product of normal data";
  if (param.call == CallPath::kLinear || param.call == CallPath::kBmm) return std::nullopt;
  // torch._grouped_mm refuses rows that are no multiple of 16 bytes, torchao token groups that are
  // no multiple of 16 and batches without tokens.
  const std::int64_t rows = std::int64_t{c.batch.tokens_per_expert} * c.batch.top_k;
  if (is_fp8 && rows % 16 != 0) return "token groups that are no multiple of 16";
  if (is_fp8 && dtype == DType::kFloat16) return "fp8 with fp16 around it";
  for (const std::size_t dim : {param.shape.size() - 2, param.shape.size() - 1}) {
    if (param.shape[dim] * element_bytes(dtype) % 16 != 0) return "rows that are not aligned";
  }
  const bool all_empty =
      rows == 0 || static_cast<std::int64_t>(c.batch.empty_experts.size()) >= param.shape[0] ||
      std::find(c.batch.tokens_by_rank.begin(), c.batch.tokens_by_rank.end(), 0) !=
          c.batch.tokens_by_rank.end();
  if (all_empty && !is_fp8) return "a rank without tokens in a grouped product";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported(const Case& c) {
  if (c.environment.device != "cpu") return "device " + c.environment.device;
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) {
      if (!is_known_pack(param)) return "pack " + param.pack;
      if (param.dtype == DType::kFloat8E4M3 || param.dtype == DType::kUInt8) {
        return fmt::format("original dtype {}", name_of(param.dtype));
      }
      if (auto reason = unsupported_call(c, group, param)) return reason;
    }
  }
  return std::nullopt;
}

}  // namespace shardfuzz::native
