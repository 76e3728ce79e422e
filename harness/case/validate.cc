// validate(): mesh, batch, schedule and the small sections; groups and operations are in files of
// their own.
#include "harness/case/validate.h"

#include <algorithm>
#include <string>

#include "harness/case/case_names.h"
#include "harness/case/detail/suggest.h"
#include "harness/case/detail/validate_parts.h"

namespace shardfuzz {
namespace detail {

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status check_range(std::string_view path, std::int64_t value, std::int64_t first,
                   std::int64_t last) {
  if (value >= first && value <= last) return Done{};
  return broken(std::string(path), fmt::format("{} is not within {}..{}", value, first, last),
                fmt::format("write a number from {} to {}", first, last));
}

Status check_ranges(std::string_view path, const std::vector<int>& values, std::int64_t first,
                    std::int64_t last) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= first && values[i] <= last) continue;
    return check_range(fmt::format("{}/{}", path, i), values[i], first, last);
  }
  return Done{};
}

Status check_no_repeats(std::string_view path, const std::vector<int>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto earlier = values.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(values.begin(), earlier, values[i]) == earlier) continue;
    return broken(fmt::format("{}/{}", path, i), fmt::format("{} appears twice", values[i]),
                  "name each only once");
  }
  return Done{};
}

Status check_word(std::string_view path, std::string_view word,
                  const std::vector<std::string_view>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return Done{};
  return broken(std::string(path), fmt::format("unknown name {}", in_quotes(word)),
                way_out(word, known));
}

Status check_one_a_rank(std::string_view path, const std::vector<int>& values, int world_size) {
  if (values.empty() || values.size() == static_cast<std::size_t>(world_size)) return Done{};
  return broken(std::string(path),
                fmt::format("{} entries for {} ranks", values.size(), world_size),
                "give one entry a rank, or leave it out");
}

}  // namespace detail

namespace {

using detail::broken;

// The case's own name becomes a file name, so it may also hold digits first, '-' and '.'.
Status validate_name(const Case& c) {
  const bool fine =
      c.name.size() <= 128 && (c.name.empty() || (c.name[0] != '.' && c.name[0] != '-')) &&
      std::all_of(c.name.begin(), c.name.end(), [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
               (letter >= '0' && letter <= '9') || letter == '_' || letter == '-' || letter == '.';
      });
  if (fine) return Done{};
  return broken("/name", fmt::format("{} is no name for a case", detail::in_quotes(c.name)),
                "use at most 128 letters, digits, _, - and ., the first a letter, digit or _");
}

// Product of the sizes, or -1 as soon as it passes kMaxMeshSize (so it cannot overflow).
int checked_product(const std::vector<int>& sizes) {
  int product = 1;
  for (const int size : sizes) {
    if (size < 1 || size > kMaxMeshSize) return -1;
    product *= size;
    if (product > kMaxMeshSize) return -1;
  }
  return product;
}

Status validate_dim_names(const Mesh& mesh) {
  const auto& names = mesh.dim_names;
  if (mesh.shape.empty() || mesh.shape.size() > kMaxDims || mesh.shape.size() != names.size()) {
    return broken("/mesh/dim_names",
                  fmt::format("{} names for {} dimensions", names.size(), mesh.shape.size()),
                  fmt::format("give 1 to {} dimensions and a name for each", kMaxDims));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string path = fmt::format("/mesh/dim_names/{}", i);
    if (Status s = detail::check_word(path, names[i], known_dim_names()); !s) return s;
    const auto earlier = names.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(names.begin(), earlier, names[i]) != earlier) {
      return broken(path, fmt::format("'{}' appears twice", names[i]), "name each dimension once");
    }
  }
  const auto shard = std::find(names.begin(), names.end(), "shard");
  const auto replicate = std::find(names.begin(), names.end(), "replicate");
  // FSDP2 shards over the only dimension of a mesh, whatever its name is.
  if (shard == names.end()) {
    return broken("/mesh/dim_names", "no dimension is named 'shard'",
                  "name one 'shard'; for replicas alone give it size 1");
  }
  // FSDP2 takes the last of its two dimensions as the one to shard over.
  if (replicate != names.end() && shard < replicate) {
    return broken("/mesh/dim_names", "'shard' comes before 'replicate'",
                  "for HSDP give 'replicate' first, then 'shard'");
  }
  return Done{};
}

Status validate_mesh(const Case& c) {
  const Mesh& mesh = c.mesh;
  if (Status s = detail::check_ranges("/mesh/shape", mesh.shape, 1, kMaxMeshSize); !s) return s;
  if (Status s = validate_dim_names(mesh); !s) return s;
  const int world_size = checked_product(mesh.shape);
  if (world_size < 0) {
    return broken("/mesh/shape", fmt::format("more than {} ranks", kMaxMeshSize),
                  "make the mesh smaller");
  }
  if (c.environment.comm == "sim" && world_size > kMaxWorldSize) {
    return broken("/mesh/shape",
                  fmt::format("{} ranks; comm 'sim' runs at most {}", world_size, kMaxWorldSize),
                  "make the mesh smaller, or run it with comm 'nccl'");
  }
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    const std::string& name = mesh.dim_names[i];
    if ((name == "tp" || name == "ep") && mesh.shape[i] > 1) {
      return broken(fmt::format("/mesh/shape/{}", i),
                    fmt::format("dimension '{}' of size {} is not supported by this version's "
                                "targets yet",
                                name, mesh.shape[i]),
                    "give it size 1 or leave it out");
    }
  }
  return Done{};
}

// Experts are dim 0 of the parameters that an expert call path uses.
std::int64_t largest_expert_count(const Case& c) {
  std::int64_t largest = 0;
  for (const GroupSpec& group : c.groups) {
    for (const ParamSpec& param : group.params) {
      if (param.shape.size() == 3) largest = std::max(largest, param.shape[0]);
    }
  }
  return largest;
}

Status validate_batch(const Case& c) {
  const Batch& batch = c.batch;
  const std::string by_rank = "/batch/tokens_by_rank";
  const std::string empty = "/batch/empty_experts";
  if (Status s = detail::check_range("/batch/tokens_per_expert", batch.tokens_per_expert, 0,
                                     kMaxTokensPerExpert);
      !s) {
    return s;
  }
  if (Status s = detail::check_range("/batch/top_k", batch.top_k, 1, kMaxTopK); !s) return s;
  if (Status s = detail::check_one_a_rank(by_rank, batch.tokens_by_rank, c.mesh.world_size()); !s) {
    return s;
  }
  if (Status s = detail::check_ranges(by_rank, batch.tokens_by_rank, 0, kMaxTokenFactor); !s) {
    return s;
  }
  const std::int64_t experts = largest_expert_count(c);
  if (experts == 0 && !batch.empty_experts.empty()) {
    return broken(empty, "no parameter has experts", "leave it out, or add a 3-dimensional one");
  }
  if (Status s = detail::check_ranges(empty, batch.empty_experts, 0, experts - 1); !s) return s;
  return detail::check_no_repeats(empty, batch.empty_experts);
}

Status validate_schedule(const Case& c) {
  const Schedule& schedule = c.schedule;
  if (Status s = detail::check_range("/schedule/change_points", schedule.change_points, 0,
                                     kMaxChangePoints);
      !s) {
    return s;
  }
  if (Status s = detail::check_one_a_rank("/schedule/delays", schedule.delays, c.mesh.world_size());
      !s) {
    return s;
  }
  return detail::check_ranges("/schedule/delays", schedule.delays, 0, kMaxDelay);
}

// A shape of one number is (shard), of two (replicate, shard).
Status validate_compare_meshes(const Case& c) {
  if (c.compare_meshes.size() > kMaxCompareMeshes) {
    return broken("/compare_meshes", fmt::format("{} meshes", c.compare_meshes.size()),
                  fmt::format("compare at most {}", kMaxCompareMeshes));
  }
  const int limit = c.environment.comm == "sim" ? kMaxWorldSize : kMaxMeshSize;
  for (std::size_t i = 0; i < c.compare_meshes.size(); ++i) {
    const auto& shape = c.compare_meshes[i];
    const std::string path = fmt::format("/compare_meshes/{}", i);
    if (shape.empty() || shape.size() > 2) {
      return broken(path, fmt::format("a mesh of {} dimensions", shape.size()),
                    "give [shard] or [replicate, shard]");
    }
    if (Status s = detail::check_ranges(path, shape, 1, kMaxMeshSize); !s) return s;
    const int world_size = checked_product(shape);
    if (world_size < 0 || world_size > limit) {
      return broken(path, fmt::format("more than {} ranks", limit), "make the mesh smaller");
    }
  }
  return Done{};
}

Status validate_environment(const Environment& environment) {
  if (Status s = detail::check_word("/environment/target", environment.target, known_targets());
      !s) {
    return s;
  }
  if (Status s = detail::check_word("/environment/comm", environment.comm, known_comms()); !s) {
    return s;
  }
  if (Status s = detail::check_word("/environment/device", environment.device, known_devices());
      !s) {
    return s;
  }
  if (environment.comm == "nccl" && environment.device != "cuda") {
    return broken("/environment/device", "comm 'nccl' moves GPU memory only",
                  "write device 'cuda', or comm 'sim'");
  }
  return Done{};
}

Status validate_small_numbers(const Case& c) {
  if (Status s =
          detail::check_range("/optimizer/lr_log2", c.optimizer.lr_log2, kMinLrLog2, kMaxLrLog2);
      !s) {
    return s;
  }
  return detail::check_range("/steps", c.steps, 1, kMaxSteps);
}

Status validate_expectation(const Case& c) {
  if (c.expect.verdict.empty()) return Done{};
  return detail::check_word("/expect/verdict", c.expect.verdict, expected_verdicts());
}

}  // namespace

Status validate(const Case& c) {
  if (Status s = validate_name(c); !s) return s;
  if (Status s = detail::check_word("/origin/kind", c.origin.kind, known_origins()); !s) return s;
  if (Status s = validate_mesh(c); !s) return s;
  if (Status s = detail::validate_groups(c); !s) return s;
  if (Status s = validate_batch(c); !s) return s;
  if (Status s = validate_small_numbers(c); !s) return s;
  if (Status s = detail::validate_operations(c); !s) return s;
  if (Status s = validate_schedule(c); !s) return s;
  if (Status s = validate_compare_meshes(c); !s) return s;
  if (Status s = validate_environment(c.environment); !s) return s;
  return validate_expectation(c);
}

}  // namespace shardfuzz
