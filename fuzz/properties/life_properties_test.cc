// Laws of a sharded model's life (harness/layout/life.h), for any model and any program.
//
// The rule book is judged by what must hold whatever FSDP2's order of things is: what is held was
// gathered, what was gathered can be freed, saying a thing twice is saying it once.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/properties/property.h"
#include "harness/layout/chunk.h"
#include "harness/layout/life.h"

namespace shardfuzz::layout {

using Program = std::vector<Operation>;

// NOLINTBEGIN(readability-identifier-naming)
void showValue(const Operation& op, std::ostream& out) {
  static const char* const kNames[] = {"forward",       "backward",         "unshard",
                                       "wait",          "reshard",          "sync on",
                                       "sync off",      "rab on",           "rab off",
                                       "all-reduce on", "all-reduce off",   "freeze",
                                       "unfreeze",      "prefetch forward", "prefetch backward",
                                       "async unshard", "state dict",       "other"};
  out << kNames[static_cast<std::size_t>(op.step)] << (op.is_async ? " async" : "");
  if (op.group >= 0) out << " g" << op.group;
  if (op.param >= 0) out << ".p" << op.param;
}

void showValue(const LifeModel& model, std::ostream& out) {
  out << model.shard_ranks << " ranks" << (model.has_replicas ? ", replicas" : "");
  for (const LifeGroup& group : model.groups) {
    out << "; " << group.params.size() << " params, reshard " << static_cast<int>(group.reshard)
        << (group.is_used ? "" : ", unused");
  }
}
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr int kItemBytes = 4;  // of what is sent and of what is reduced

LifeParam any_param(int shard_ranks) {
  const Split split{.total = *rc::gen::inRange<std::int64_t>(1, 20), .ranks = shard_ranks};
  const std::int64_t numel = padded_rows(split) * *rc::gen::inRange<std::int64_t>(1, 9);
  return {.gather_bytes = numel * kItemBytes, .gather_numel = numel, .reduce_numel = numel};
}

// Any model whose gathers and reductions are in one dtype; its first group is the root.
LifeModel any_model(int shard_ranks) {
  return *rc::gen::exec([shard_ranks] {
    LifeModel model{.shard_ranks = shard_ranks, .has_replicas = *rc::gen::arbitrary<bool>()};
    model.groups.resize(static_cast<std::size_t>(any_int(1, 4)));
    for (LifeGroup& group : model.groups) {
      const bool is_root = &group == &model.groups.front();
      for (int i = any_int(is_root ? 0 : 1, 3); i > 0; --i) {
        group.params.push_back(any_param(shard_ranks));
      }
      group.reduce_item_bytes = kItemBytes;
      group.reshard =
          *rc::gen::element(Reshard::kNever, Reshard::kAfterForward, Reshard::kToSmallerMesh);
      group.reshard_ranks = *rc::gen::elementOf(std::vector{1, shard_ranks});
      group.is_used = is_root || any_int(0, 9) > 0;
    }
    return model;
  });
}

// The same with all that makes gathers and reductions differ.
LifeModel any_uneven_model(int shard_ranks) {
  return *rc::gen::exec([shard_ranks] {
    LifeModel model = any_model(shard_ranks);
    for (LifeGroup& group : model.groups) {
      for (LifeParam& param : group.params) {
        param.trainable = any_int(0, 3) > 0;
        param.owns_gradient = any_int(0, 5) > 0;
        param.value_bytes = any_int(0, 3) > 0 ? 0 : 64;
        param.hook_reduce_bytes = any_int(0, 3) > 0 ? 0 : 4;
      }
      group.reduce_item_bytes = *rc::gen::element(2, 4);
    }
    return model;
  });
}

int any_ranks() { return any_int(1, 8); }

// Ends in a state that is not predicted.
bool is_unpredicted(Step step) {
  return step == Step::kPrefetchForward || step == Step::kPrefetchBackward ||
         step == Step::kAsyncUnshard;
}

Operation any_operation(const LifeModel& model, bool unpredicted) {
  Operation op{.step = static_cast<Step>(any_int(0, static_cast<int>(Step::kOther)))};
  if (is_unpredicted(op.step) && !unpredicted) op.step = Step::kForward;
  op.group = any_int(0, static_cast<int>(model.groups.size()) - 1);
  const auto params =
      static_cast<int>(model.groups[static_cast<std::size_t>(op.group)].params.size());
  const bool names_param = op.step == Step::kFreeze || op.step == Step::kUnfreeze;
  if (names_param && params == 0) op.step = Step::kOther;
  if (names_param && params > 0) op.param = any_int(0, params - 1);
  op.is_async = op.step == Step::kUnshard && any_int(0, 2) == 0;
  return op;
}

// Forward and backward take turns in most programs: everything after two forwards in a row is not
// predicted, and nothing would be tested.
Program any_program(const LifeModel& model, bool unpredicted = false) {
  // By value: RapidCheck runs this again when it shrinks, after the caller's model is gone.
  return *rc::gen::exec([model, unpredicted] {
    Program program(static_cast<std::size_t>(*rc::gen::inRange(0, 30)));
    bool forward_next = true;
    for (Operation& op : program) {
      op = any_operation(model, unpredicted);
      const bool is_pass = op.step == Step::kForward || op.step == Step::kBackward;
      if (!is_pass || unpredicted) continue;
      op.step = forward_next ? Step::kForward : Step::kBackward;
      forward_next = !forward_next;
    }
    return program;
  });
}

bool same(const Life::AfterOperation& a, const Life::AfterOperation& b) {
  return a.predicted == b.predicted && a.collectives == b.collectives &&
         a.unsharded_bytes == b.unsharded_bytes;
}

bool is_of(const Life::Collective& collective, const char* kind, std::size_t group) {
  return collective.kind == kind && collective.group == static_cast<int>(group);
}

std::int64_t count(const Life::AfterOperation& after, const char* kind, std::size_t group) {
  return std::count_if(after.collectives.begin(), after.collectives.end(),
                       [&](const auto& collective) { return is_of(collective, kind, group); });
}

Program then(Program program, const Program& more) {
  program.insert(program.end(), more.begin(), more.end());
  return program;
}

// ---- programs -----------------------------------------------------------------------------------

RC_GTEST_PROP(Life, APrefixOfAProgramHasAPrefixOfItsLife, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model, true);
  const Life life = live(model, program);
  RC_ASSERT(life.operations.size() == program.size());
  const auto length = static_cast<std::ptrdiff_t>(any_int(0, static_cast<int>(program.size())));
  const Life begun = live(model, Program(program.begin(), program.begin() + length));
  RC_ASSERT(begun.operations.size() == static_cast<std::size_t>(length));
  RC_ASSERT(
      std::equal(begun.operations.begin(), begun.operations.end(), life.operations.begin(), same));
}

RC_GTEST_PROP(Life, WhatCannotBePredictedStaysSo, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model, true);
  const Life life = live(model, program);
  bool predicted = true;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Life::AfterOperation& after = life.operations[i];
    if (is_unpredicted(program[i].step)) predicted = false;
    RC_ASSERT(!after.predicted || predicted);
    predicted = after.predicted;
    if (!predicted) RC_ASSERT(after.collectives.empty());
  }
}

// All operations but the two passes say how things are to be: saying it again does nothing.
RC_GTEST_PROP(Life, AnOperationThatIsNoPassDoesNothingTheSecondTime, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model);
  const Life life = live(model, program);
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program[i].step == Step::kForward || program[i].step == Step::kBackward) continue;
    Program twice = program;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), program[i]);
    Life other = live(model, twice);
    RC_ASSERT(other.operations[i + 1].collectives.empty());
    RC_ASSERT(other.operations[i + 1].unsharded_bytes == other.operations[i].unsharded_bytes);
    other.operations.erase(other.operations.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    RC_ASSERT(std::equal(other.operations.begin(), other.operations.end(), life.operations.begin(),
                         same));
  }
}

RC_GTEST_PROP(Life, PassesThatTakeTurnsArePredicted, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  for (const auto& after : live(model, any_program(model)).operations) RC_ASSERT(after.predicted);
}

// ---- what is held -------------------------------------------------------------------------------

RC_GTEST_PROP(Life, AGroupIsHeldWholeOrNotAtAll, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  for (const auto& after : live(model, any_program(model, true)).operations) {
    RC_ASSERT(after.unsharded_bytes.size() == model.groups.size());
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      std::int64_t whole = 0;
      for (const LifeParam& param : model.groups[g].params) {
        whole += param.gather_bytes * model.shard_ranks + param.value_bytes;
      }
      const std::int64_t held = after.unsharded_bytes[g];
      RC_ASSERT(held == 0 || held == whole);
    }
  }
}

// On two ranks or more: nothing is held that was not gathered, and nothing is gathered that is
// held.
RC_GTEST_PROP(Life, WhatIsHeldWasGatheredOnce, ()) {
  const LifeModel model = any_uneven_model(any_int(2, 8));
  const Program program = any_program(model);
  const Life life = live(model, program);
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    // A smaller mesh of one rank keeps everything: it has nothing to send when it is wanted again.
    const bool is_kept =
        model.groups[g].reshard == Reshard::kToSmallerMesh && model.groups[g].reshard_ranks == 1;
    std::int64_t held_before = 0, unheld_gathers = 0;
    for (std::size_t i = 0; i < program.size(); ++i) {
      const Life::AfterOperation& after = life.operations[i];
      const std::int64_t gathers = count(after, "all_gather", g);
      RC_ASSERT(gathers <= (held_before > 0 ? 0 : 1));
      unheld_gathers += gathers;
      if (held_before == 0 && after.unsharded_bytes[g] > 0) {
        RC_ASSERT(is_kept || unheld_gathers > 0);
        unheld_gathers = 0;
      }
      held_before = after.unsharded_bytes[g];
    }
  }
}

RC_GTEST_PROP(Life, WhatWasGatheredIsFreedByReshardingWhichSendsNothing, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model);
  Program closing;
  for (int g = 0; g < static_cast<int>(model.groups.size()); ++g) {
    closing.push_back({.step = Step::kWaitUnshard, .group = g});
    closing.push_back({.step = Step::kReshard, .group = g});
  }
  const Life life = live(model, then(program, closing));
  for (std::size_t i = program.size(); i < life.operations.size(); ++i) {
    const Life::AfterOperation& after = life.operations[i];
    const bool is_reshard = (i - program.size()) % 2 == 1;
    if (!is_reshard) continue;
    RC_ASSERT(after.collectives.empty());
    RC_ASSERT(after.unsharded_bytes[(i - program.size()) / 2] == 0);
  }
  if (life.operations.empty()) return;
  const std::vector<std::int64_t>& left = life.operations.back().unsharded_bytes;
  RC_ASSERT(std::count(left.begin(), left.end(), 0) == static_cast<std::ptrdiff_t>(left.size()));
}

RC_GTEST_PROP(Life, AfterAnUnshardAGroupIsHeldAndAForwardDoesNotGatherIt, ()) {
  const LifeModel model = any_uneven_model(any_int(2, 8));
  const Program program = any_program(model);
  const auto forwards = std::count_if(program.begin(), program.end(),
                                      [](const auto& op) { return op.step == Step::kForward; });
  const auto backwards = std::count_if(program.begin(), program.end(),
                                       [](const auto& op) { return op.step == Step::kBackward; });
  RC_PRE(forwards == backwards);
  const int group = any_int(0, static_cast<int>(model.groups.size()) - 1);
  const auto g = static_cast<std::size_t>(group);
  const Life life = live(
      model, then(program, {{.step = Step::kUnshard, .group = group}, {.step = Step::kForward}}));
  const Life::AfterOperation& unshard = life.operations[program.size()];
  RC_ASSERT(model.groups[g].params.empty() || unshard.unsharded_bytes[g] > 0);
  RC_ASSERT(count(life.operations.back(), "all_gather", g) == 0);
}

RC_GTEST_PROP(Life, ABackwardThatReshardsLeavesNothingHeld, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model);
  const Life life = live(model, program);
  bool reshards = true;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program[i].step == Step::kReshardAfterBackwardOn) reshards = true;
    if (program[i].step == Step::kReshardAfterBackwardOff) reshards = false;
    if (program[i].step != Step::kBackward || !reshards) continue;
    for (const std::int64_t held : life.operations[i].unsharded_bytes) RC_ASSERT(held == 0);
  }
}

// ---- what is sent -------------------------------------------------------------------------------

RC_GTEST_PROP(Life, AShardGroupOfOneSendsNothing, ()) {
  LifeModel model = any_uneven_model(1);
  for (LifeGroup& group : model.groups) {
    for (LifeParam& param : group.params) param.hook_reduce_bytes = 0;  // a hook's own affair
  }
  for (const auto& after : live(model, any_program(model)).operations) {
    for (const auto& collective : after.collectives) {
      RC_ASSERT(model.has_replicas);
      RC_ASSERT(collective.process_group == "replicate");
      RC_ASSERT(collective.kind == "all_reduce");
    }
  }
}

RC_GTEST_PROP(Life, AGroupReducesAsManyBytesAsItGathers, ()) {
  const LifeModel model = any_model(any_int(2, 8));
  Program program = any_program(model);
  std::erase_if(program, [](const Operation& op) { return op.step == Step::kFreeze; });
  for (const auto& after : live(model, program).operations) {
    for (const auto& collective : after.collectives) {
      if (collective.process_group == "post_forward") continue;  // regathered from larger shards
      std::int64_t bytes = 0;
      for (const LifeParam& param :
           model.groups[static_cast<std::size_t>(collective.group)].params) {
        bytes += param.gather_bytes;
      }
      RC_ASSERT(collective.bytes == bytes);
    }
  }
}

// Every backward with gradient sync on reduces each trainable group that took part, once.
RC_GTEST_PROP(Life, ABackwardReducesEachGroupAtMostOnceAndOnlyBackwardDoes, ()) {
  const LifeModel model = any_uneven_model(any_ranks());
  const Program program = any_program(model);
  const Life life = live(model, program);
  for (std::size_t i = 0; i < program.size(); ++i) {
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      const std::int64_t reductions = count(life.operations[i], "reduce_scatter", g);
      RC_ASSERT(reductions <= (program[i].step == Step::kBackward ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace shardfuzz::layout
