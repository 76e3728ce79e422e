// generate: one random case, valid by construction.
//
// Guarantees: validate() accepts every case; it depends on the choices and the options only; a real
// run of it takes tens of milliseconds (at most kMaxGeneratedElements elements and
// kMaxGeneratedRows rows of input for a parameter, few groups, few steps); the draws 0, 0, ... give
// the simplest case; the choices come in kGeneratedParts parts (choices.h). What a case may hold is
// said by the swarm; packs by `packs`, to which kMixedPacks adds plain parameters as company. Cases
// that torch refuses (int reshard with an extension, uneven Shard(1), mixed trainable dtypes) are
// made on purpose, rarely: the refusal must be the same on every rank. Refuses nothing: options
// that parse_pack_hooks refuses or world_max outside 1..16 are a broken invariant, so check what a
// user typed before. Use:  Choices choices = Choices::from_seed(7);  const Case c =
// generate(choices, {});
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/swarm.h"
#include "harness/case/case.h"

namespace shardfuzz {

inline constexpr std::int64_t kMaxGeneratedElements = 98304;  // of all parameters together
inline constexpr int kMaxGeneratedRows = 512;                 // of the input of one parameter
// Mesh; groups; batch; operations; optimizer and steps; schedule; data seed and other meshes.
inline constexpr std::size_t kGeneratedParts = 7;

struct GeneratorOptions {
  std::vector<std::string> packs;  // pack or pack:hook; empty: all
  int world_max = 8;
  Swarm swarm = all_on();
  Swarm often = {};  // of those in `swarm`: drawn in half of the places where they can be, or more
};

Case generate(Choices& choices, const GeneratorOptions& options);

}  // namespace shardfuzz
