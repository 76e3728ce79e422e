#include "fuzz/detail/possible_points.h"

#include <set>

#include "harness/base/check.h"
#include "harness/case/validate.h"

namespace shardfuzz::detail {
namespace {

// Of mesh shapes with the same class only the size of the shard group matters.
struct MeshPlace {
  MeshClass mesh;
  int shard_ranks;
  auto operator<=>(const MeshPlace&) const = default;
};

std::set<MeshPlace> all_meshes(int world_max) {
  std::set<MeshPlace> places;
  const auto add = [&](const Mesh& mesh) {
    places.insert({.mesh = mesh_class_of(mesh), .shard_ranks = mesh.shard_size()});
  };
  for (int shard = 1; shard <= world_max; ++shard) {
    add({.shape = {shard}, .dim_names = {"shard"}});
    for (int replicate = 1; replicate * shard <= world_max; ++replicate) {
      add({.shape = {replicate, shard}, .dim_names = {"replicate", "shard"}});
    }
  }
  return places;
}

// The factors of the shard size are what an int may be.
std::set<Reshard> all_reshards(int shard_ranks) {
  std::vector<ReshardAfterForward> choices{std::monostate{}, true, false};
  for (int size = 1; size <= shard_ranks; ++size) {
    if (shard_ranks % size == 0) choices.emplace_back(size);
  }
  std::set<Reshard> found;
  for (const ReshardAfterForward& choice : choices) {
    for (const bool is_root : {true, false}) found.insert(reshard_of(choice, is_root, shard_ranks));
  }
  return found;
}

std::set<Dtypes> all_dtypes(const PackInfo& pack) {
  std::vector<std::optional<DType>> choices{std::nullopt, DType::kFloat32, DType::kBFloat16,
                                            DType::kFloat16};
  std::set<Dtypes> found;
  for (const DType original : pack.dtypes) {
    for (const auto& param_dtype : choices) {
      if (!param_dtype && pack.needs_param_dtype) continue;
      for (const auto& reduce_dtype : choices) {
        found.insert(
            dtypes_of(original, {.param_dtype = param_dtype, .reduce_dtype = reduce_dtype}));
      }
    }
  }
  return found;
}

struct ShapePlace {
  Evenness evenness;
  Experts experts;
  auto operator<=>(const ShapePlace&) const = default;
};

// Of k R + j rows (0 < j < R) the padding is R - j rows, whatever k is, and a rank has k + 1. From
// k = R on it fits into the last rank, so nothing new comes after R (R + 1) rows.
std::set<ShapePlace> all_shapes(const PackInfo& pack, CallPath call, int shard_ranks) {
  std::set<ShapePlace> found;
  const auto add = [&](const ParamSpec& param) {
    found.insert(
        {.evenness = evenness_of(param, shard_ranks), .experts = experts_of(param, shard_ranks)});
  };
  for (std::int64_t rows = 1; rows <= std::int64_t{shard_ranks} * (shard_ranks + 1); ++rows) {
    add({.shape = {rows, pack.dim_multiple}, .call = call});
    for (int times = 1; times <= shard_ranks; ++times) {  // times dim_multiple modulo R repeats
      add({.shape = {rows, std::int64_t{pack.dim_multiple} * times}, .shard_dim = 1, .call = call});
    }
  }
  return found;
}

}  // namespace

std::vector<DomainPoint> possible_points(const std::vector<PackHook>& hooks, int world_max) {
  SHARDFUZZ_CHECK(world_max >= 1 && world_max <= kMaxWorldSize, "world_max {} is not within 1..{}",
                  world_max, kMaxWorldSize);
  const auto meshes = all_meshes(world_max);
  std::set<DomainPoint> points;
  DomainPoint point;
  point.fill(kAnyClass);
  for (std::size_t hook = 0; hook < hooks.size(); ++hook) {
    const PackInfo& pack = *hooks[hook].pack;
    const auto all_of_pack = all_dtypes(pack);
    at(point, Axis::kHook) = static_cast<int>(hook);
    for (const MeshPlace& place : meshes) {
      at(point, Axis::kMesh) = static_cast<int>(place.mesh);
      const auto reshards = all_reshards(place.shard_ranks);
      std::set<ShapePlace> shapes;
      for (const CallPath call : pack.calls) {
        shapes.merge(all_shapes(pack, call, place.shard_ranks));
      }
      for (const ShapePlace& shape : shapes) {
        at(point, Axis::kEvenness) = static_cast<int>(shape.evenness);
        at(point, Axis::kExperts) = static_cast<int>(shape.experts);
        for (const Reshard reshard : reshards) {
          at(point, Axis::kReshard) = static_cast<int>(reshard);
          for (const Dtypes dtypes : all_of_pack) {
            at(point, Axis::kDtypes) = static_cast<int>(dtypes);
            points.insert(point);
          }
        }
      }
    }
  }
  return {points.begin(), points.end()};
}

}  // namespace shardfuzz::detail
