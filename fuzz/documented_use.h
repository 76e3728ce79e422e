// keep_documented_use: takes out of a case what the code under test is known not to promise.
//
// The generator makes such cases on purpose, since each of them is a public report or worth one. A
// control (a pack:hook that must pass) can only be held to what is promised:
//   modules that some ranks do not use    hang (pytorch/pytorch#158719)
//   grouped matmul without offsets        torchao's wrappers return None (pytorch/ao#2453)
//   a rank, or a model, without rows      grouped backward raises (pytorch/pytorch#192497)
//   int reshard with Shard(1)             gathers along dim 0
//   reshard() of a group with int reshard keeps the smaller mesh's shard until the next forward
//   a parameter tied across groups        sharded twice (pytorch/pytorch#176076)
//   a module that no rank uses, gradients not synchronized   post-backward raises in torch 2.11
//   freezing all of a group's parameters  dtypes are settled by those trainable first (#186998)
//   freezing between micro-batches        gradients of two dtypes in one reduction (#186998)
// Guarantees: a case without them comes back unchanged, a valid case stays valid.
// Use:  keep_documented_use(&c);
#pragma once

#include "harness/case/case.h"

namespace shardfuzz {

void keep_documented_use(Case* c);

}  // namespace shardfuzz
