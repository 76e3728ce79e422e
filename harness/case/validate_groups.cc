// The rules for groups and their parameters.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "harness/case/case_names.h"
#include "harness/case/detail/suggest.h"
#include "harness/case/detail/validate_parts.h"
#include "harness/case/pack_info.h"
#include "harness/case/validate.h"

namespace shardfuzz::detail {
namespace {

// Where in the case a rule is being checked.
struct At {
  const Case& c;
  std::size_t group;
  std::size_t param = 0;

  [[nodiscard]] const GroupSpec& group_spec() const { return c.groups[group]; }
  [[nodiscard]] const ParamSpec& spec() const { return group_spec().params[param]; }
  [[nodiscard]] std::string group_path(std::string_view field) const {
    return fmt::format("/groups/{}/{}", group, field);
  }
  [[nodiscard]] std::string path(std::string_view field) const {
    return fmt::format("/groups/{}/params/{}/{}", group, param, field);
  }
};

template <typename Spec>
Status check_name(const std::vector<Spec>& specs, std::size_t index, const std::string& path) {
  const std::string& name = specs[index].name;
  if (!is_name(name)) return broken(path, in_quotes(name) + " is no name", std::string(kNameRule));
  for (std::size_t i = 0; i < index; ++i) {
    if (specs[i].name != name) continue;
    return broken(path, fmt::format("the name '{}' appears twice", name), "give each its own name");
  }
  return Done{};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check_shape(const At& at) {
  const auto& shape = at.spec().shape;
  if (shape.empty() || shape.size() > kMaxDims) {
    return broken(at.path("shape"), fmt::format("{} dimensions", shape.size()),
                  fmt::format("give 1 to {} sizes", kMaxDims));
  }
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (Status s = check_range(at.path(fmt::format("shape/{}", i)), shape[i], 1, kMaxDimSize); !s) {
      return s;
    }
    elements *= shape[i];  // at most kMaxElements x kMaxDimSize = 2^40
    if (elements > kMaxElements) {
      return broken(at.path("shape"),
                    fmt::format("more than {} elements in {}", kMaxElements, shape_text(shape)),
                    "make it smaller: every rank holds it whole");
    }
  }
  const int last_dim = static_cast<int>(shape.size()) - 1;
  return check_range(at.path("shard_dim"), at.spec().shard_dim, 0, last_dim);
}

std::vector<std::string_view> pack_names() {
  std::vector<std::string_view> known;
  for (const PackInfo& pack : all_packs()) known.push_back(pack.name);
  return known;
}

std::vector<std::string_view> hook_names(const PackInfo& pack) {
  std::vector<std::string_view> known;
  for (const HookInfo& hook : pack.hooks) known.push_back(hook.name);
  return known;
}

template <typename Enum>
Status check_allowed(const std::string& path, Enum value, const PackInfo& pack,
                     const std::vector<Enum>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return Done{};
  std::vector<std::string_view> known;
  known.reserve(allowed.size());
  for (const Enum other : allowed) known.push_back(name_of(other));
  return broken(path, fmt::format("pack '{}' does not allow '{}'", pack.name, name_of(value)),
                "it allows " + listed(known));
}

// Kernels tile every dimension but the first, which is the one that FSDP2 cuts.
Status check_multiples(const At& at, const PackInfo& pack) {
  const auto& shape = at.spec().shape;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (shape[i] % pack.dim_multiple == 0) continue;
    return broken(at.path(fmt::format("shape/{}", i)),
                  fmt::format("{} is no multiple of {}, which pack '{}' needs", shape[i],
                              pack.dim_multiple, pack.name),
                  fmt::format("write a multiple of {}", pack.dim_multiple));
  }
  return Done{};
}

std::size_t dims_of(CallPath call) {
  switch (call) {
    case CallPath::kGroupedMm:
    case CallPath::kGroupedMmNoOffs:
    case CallPath::kBmm: return 3;
    case CallPath::kLinear: return 2;
    case CallPath::kMul: return 0;  // any
  }
  SHARDFUZZ_CHECK(false, "call path {} has no rank", static_cast<int>(call));
}

Status check_call(const At& at) {
  const ParamSpec& param = at.spec();
  const std::size_t wanted = dims_of(param.call);
  if (wanted == 0 || param.shape.size() == wanted) return Done{};
  return broken(at.path("call"),
                fmt::format("'{}' needs {} dimensions, shape {} has {}", name_of(param.call),
                            wanted, shape_text(param.shape), param.shape.size()),
                "change the shape, or use 'mul', which takes any");
}

Status check_pack(const At& at) {
  const ParamSpec& param = at.spec();
  const PackInfo* pack = find_pack(param.pack);
  if (pack == nullptr) {
    return broken(at.path("pack"), "unknown pack " + in_quotes(param.pack),
                  way_out(param.pack, pack_names()) + "; others are named by --pack");
  }
  if (find_hook(*pack, param.hook) == nullptr) {
    return broken(at.path("hook"),
                  fmt::format("pack '{}' has no hook {}", pack->name, in_quotes(param.hook)),
                  way_out(param.hook, hook_names(*pack)));
  }
  if (Status s = check_allowed(at.path("dtype"), param.dtype, *pack, pack->dtypes); !s) return s;
  if (Status s = check_allowed(at.path("call"), param.call, *pack, pack->calls); !s) return s;
  if (Status s = check_call(at); !s) return s;
  if (Status s = check_multiples(at, *pack); !s) return s;
  // The pack's hooks cast to it whatever the call is.
  if (pack->needs_param_dtype && !at.group_spec().mixed_precision.param_dtype) {
    return broken(at.group_path("mixed_precision/param_dtype"),
                  fmt::format("pack '{}' of parameter '{}' needs one", pack->name, param.name),
                  "write \"param_dtype\": \"bf16\"");
  }
  return Done{};
}

// The parameter that "group.param" names, if it comes before `at`.
const ParamSpec* find_earlier(const At& at, std::string_view name) {
  for (std::size_t g = 0; g <= at.group; ++g) {
    const GroupSpec& group = at.c.groups[g];
    for (std::size_t p = 0; p < group.params.size(); ++p) {
      if (g == at.group && p == at.param) return nullptr;
      if (group.name + "." + group.params[p].name == name) return &group.params[p];
    }
  }
  return nullptr;
}

Status check_tie(const At& at) {
  const ParamSpec& param = at.spec();
  if (param.tied_to.empty()) return Done{};
  const ParamSpec* first = find_earlier(at, param.tied_to);
  if (first == nullptr) {
    return broken(at.path("tied_to"), "no earlier parameter is called " + in_quotes(param.tied_to),
                  "write \"group.param\" of a parameter further up");
  }
  if (!first->tied_to.empty()) {
    return broken(at.path("tied_to"), in_quotes(param.tied_to) + " is tied itself",
                  fmt::format("tie to {}", in_quotes(first->tied_to)));
  }
  // They are one tensor, so everything that builds it must be the same; how it is used may differ.
  const char* differs = first->shape != param.shape                   ? "shape"
                        : first->dtype != param.dtype                 ? "dtype"
                        : first->shard_dim != param.shard_dim         ? "shard_dim"
                        : first->pack != param.pack                   ? "pack"
                        : first->hook != param.hook                   ? "hook"
                        : first->requires_grad != param.requires_grad ? "requires_grad"
                                                                      : nullptr;
  if (differs == nullptr) return Done{};
  return broken(at.path("tied_to"),
                fmt::format("{} has another {}", in_quotes(param.tied_to), differs),
                "make both the same, or untie them");
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

Status check_param(const At& at) {
  const ParamSpec& param = at.spec();
  if (Status s = check_name(at.group_spec().params, at.param, at.path("name")); !s) return s;
  if (Status s = check_shape(at); !s) return s;
  if (Status s = check_pack(at); !s) return s;
  if (param.requires_grad && param.dtype == DType::kUInt8) {
    return broken(at.path("requires_grad"), "a uint8 parameter has no gradient",
                  "write false, or another dtype");
  }
  if (Status s = check_tie(at); !s) return s;
  if (param.tensor_parallel_dim) {
    return broken(at.path("tensor_parallel_dim"),
                  "tensor parallelism is not supported by this version's targets yet",
                  "leave it out");
  }
  return Done{};
}

// As torch.distributed.fsdp._fully_shard._fsdp_init._get_post_forward_mesh_info (torch 2.11): an
// int must be within 1..shard size and divide it. 1 then means false, the shard size means true.
Status check_reshard(const At& at) {
  const int* size = std::get_if<int>(&at.group_spec().reshard_after_forward);
  if (size == nullptr) return Done{};
  const int shard_size = at.c.mesh.shard_size();
  if (*size >= 1 && *size <= shard_size && shard_size % *size == 0) return Done{};
  return broken(at.group_path("reshard_after_forward"),
                fmt::format("{} is no factor of the shard size {}", *size, shard_size),
                "write true, false or a factor");
}

Status check_mixed_precision(const At& at) {
  const MixedPrecision& policy = at.group_spec().mixed_precision;
  const auto check = [&](std::string_view field, const std::optional<DType>& dtype) -> Status {
    if (!dtype || is_floating(*dtype)) return Done{};
    return broken(at.group_path(fmt::format("mixed_precision/{}", field)),
                  fmt::format("modules cannot compute in '{}'", name_of(*dtype)),
                  "write null, fp32, bf16 or fp16");
  };
  if (Status s = check("param_dtype", policy.param_dtype); !s) return s;
  if (Status s = check("reduce_dtype", policy.reduce_dtype); !s) return s;
  return check("output_dtype", policy.output_dtype);
}

Status check_unused(const At& at) {
  const std::string path = at.group_path("unused_on_ranks");
  const auto& ranks = at.group_spec().unused_on_ranks;
  if (at.group == 0 && !ranks.empty()) {
    return broken(path, "the root module is used on every rank", "leave it out of the first group");
  }
  if (Status s = check_ranges(path, ranks, 0, at.c.mesh.world_size() - 1); !s) return s;
  return check_no_repeats(path, ranks);
}

Status check_group(const At& at) {
  const GroupSpec& group = at.group_spec();
  if (Status s = check_name(at.c.groups, at.group, at.group_path("name")); !s) return s;
  if (group.params.size() > kMaxParams) {
    return broken(at.group_path("params"), fmt::format("{} parameters", group.params.size()),
                  fmt::format("a group has at most {}", kMaxParams));
  }
  if (group.params.empty() && at.group > 0) {
    return broken(at.group_path("params"), "no parameters", "only the root may have none");
  }
  for (std::size_t p = 0; p < group.params.size(); ++p) {
    if (Status s = check_param({at.c, at.group, p}); !s) return s;
  }
  if (Status s = check_reshard(at); !s) return s;
  if (Status s = check_mixed_precision(at); !s) return s;
  return check_unused(at);
}

}  // namespace

Status validate_groups(const Case& c) {
  if (c.groups.empty() || c.groups.size() > kMaxGroups) {
    return broken("/groups", fmt::format("{} groups", c.groups.size()),
                  fmt::format("give 1 to {}; the first is the root module", kMaxGroups));
  }
  bool has_params = false;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    if (Status s = check_group({c, g}); !s) return s;
    has_params = has_params || !c.groups[g].params.empty();
  }
  if (has_params) return Done{};
  return broken("/groups/0/params", "the case has no parameter at all", "add one");
}

}  // namespace shardfuzz::detail
