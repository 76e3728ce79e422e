#include "fuzz/properties/collective_programs.h"

#include <algorithm>
#include <numeric>

#include "harness/base/check.h"
#include "harness/base/random.h"

namespace shardfuzz {
namespace {

using Kind = Action::Kind;

const std::vector<std::string> kKinds{"all_gather", "reduce_scatter", "all_reduce", "broadcast",
                                      "all_to_all"};

bool has_slots(const std::string& kind) { return kind == "reduce_scatter" || kind == "all_to_all"; }
bool reduces(const std::string& kind) { return kind == "reduce_scatter" || kind == "all_reduce"; }

Words random_words(Random& random, std::size_t count) {
  Words words(count);
  for (int& word : words) word = static_cast<int>(random.below(1000));
  return words;
}

// The input belongs to the call's count, so it is drawn anew when that changes.
void draw_input(Random& random, const Program& program, Contribution* brings) {
  const std::size_t members =
      program.groups[static_cast<std::size_t>(brings->group)].members.size();
  const auto count = static_cast<std::size_t>(brings->call.count);
  brings->call.bytes = 4 * brings->call.count;
  brings->input = random_words(random, count * (has_slots(brings->call.kind) ? members : 1));
}

// Groups of any members in any order; some have a key or members in common, none both.
void draw_groups(Random& random, int ranks, int count, Program* program) {
  for (int i = 0; i < count; ++i) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t at = all.size(); at > 1; --at) std::swap(all[at - 1], all[random.below(at)]);
    all.resize(1 + random.below(all.size()));
    ProcessGroupId group{.key = random.chance(50) ? "one" : "other", .members = std::move(all)};
    const bool is_known = std::any_of(
        program->groups.begin(), program->groups.end(), [&](const ProcessGroupId& known) {
          return known.key == group.key && known.members == group.members;
        });
    if (is_known) continue;
    group.name = "g" + std::to_string(program->groups.size());
    program->groups.push_back(std::move(group));
  }
}

Schedule random_schedule(Random& random, int ranks) {
  Schedule schedule{.policy = static_cast<SchedulePolicy>(random.below(3)),
                    .seed = random.next(),
                    .change_points = static_cast<int>(random.below(5)),
                    .delivery = random.chance(50) ? Delivery::kLate : Delivery::kEarly};
  for (int rank = 0; rank < ranks && random.chance(50); ++rank) {
    schedule.delays.push_back(static_cast<int>(random.below(10)));
  }
  return schedule;
}

// ---- programs without faults --------------------------------------------------------------------

Call random_call(Random& random, std::size_t members) {
  Call call{.kind = kKinds[random.below(kKinds.size())], .dtype = "int32"};
  call.count = static_cast<std::int64_t>(1 + random.below(4));
  if (call.kind == "broadcast") call.root = static_cast<int>(random.below(members));
  if (reduces(call.kind)) call.reduce = random.chance(50) ? "sum" : "max";
  return call;
}

void launch_on_all_members(Random& random, Program* program) {
  const auto group = static_cast<int>(random.below(program->groups.size()));
  const std::vector<int>& members = program->groups[static_cast<std::size_t>(group)].members;
  const Call call = random_call(random, members.size());
  for (const int rank : members) {
    RankProgram& own = program->ranks[static_cast<std::size_t>(rank)];
    own.actions.push_back({Kind::kLaunch, own.brings.size()});
    own.brings.push_back({.group = group, .call = call});
    draw_input(random, *program, &own.brings.back());
  }
}

// Waits for one of those that are launched and not waited for, and then uses its buffers.
void wait_for_one(Random& random, const RankProgram& own, std::vector<std::size_t>* open,
                  std::vector<Action>* actions) {
  const auto picked = open->begin() + static_cast<std::ptrdiff_t>(random.below(open->size()));
  const bool asks = random.chance(20);
  actions->push_back({asks ? Kind::kAsk : Kind::kWait, *picked});
  if (random.chance(10)) actions->push_back({Kind::kWait, *picked});  // again
  if (random.chance(50)) actions->push_back({Kind::kOverwrite, *picked});
  SHARDFUZZ_CHECK(*picked < own.brings.size(), "no launch {}", *picked);
  open->erase(picked);
}

void add_waits(Random& random, RankProgram* own) {
  std::vector<Action> actions;
  std::vector<std::size_t> open;
  for (const Action& launch : own->actions) {
    actions.push_back(launch);
    open.push_back(launch.which);
    while (!open.empty() && random.chance(40)) wait_for_one(random, *own, &open, &actions);
  }
  while (!open.empty() && !random.chance(5)) wait_for_one(random, *own, &open, &actions);
  own->actions = std::move(actions);
}

// ---- faults -------------------------------------------------------------------------------------

void forget(RankProgram* own, std::size_t which) {
  std::erase_if(own->actions, [&](const Action& action) { return action.which == which; });
}

void change_call(Random& random, const Program& program, Contribution* brings) {
  const std::size_t members =
      program.groups[static_cast<std::size_t>(brings->group)].members.size();
  Call& call = brings->call;
  switch (random.below(6)) {
    case 0: call.count += 1; break;
    case 1: call.dtype = "float32"; break;
    case 2: call.root = (call.root + 1) % static_cast<int>(members); break;
    case 3: call.reduce = call.reduce == "sum" ? "max" : "sum"; break;
    case 4: call = random_call(random, members); break;
    case 5: call.count = 0; break;
  }
  draw_input(random, program, brings);
}

void add_fault(Random& random, Program* program) {
  RankProgram& own = program->ranks[random.below(program->ranks.size())];
  if (own.actions.empty()) return;
  const auto at =
      own.actions.begin() + static_cast<std::ptrdiff_t>(random.below(own.actions.size()));
  const std::size_t which = at->which;
  switch (random.below(5)) {
    case 0: return forget(&own, which);
    case 1: return change_call(random, *program, &own.brings[which]);
    case 2: own.actions.insert(at, {Kind::kRaise, which}); return;
    case 3: {  // one more collective, waited for at once
      const std::size_t more = own.brings.size();
      own.brings.push_back(own.brings[which]);
      own.actions.insert(at, {{Kind::kLaunch, more}, {Kind::kWait, more}});
      return;
    }
    case 4: {  // another order
      const auto next = std::find_if(at + 1, own.actions.end(),
                                     [](const Action& a) { return a.kind == Kind::kLaunch; });
      if (at->kind == Kind::kLaunch && next != own.actions.end()) {
        std::swap(own.brings[at->which], own.brings[next->which]);
      }
      return;
    }
  }
}

}  // namespace

Program make_program(std::uint64_t seed, const ProgramSize& size) {
  Random random(seed);
  Program program{.schedule = random_schedule(random, size.ranks)};
  program.ranks.resize(static_cast<std::size_t>(size.ranks));
  draw_groups(random, size.ranks, size.groups, &program);
  for (int i = 0; i < size.collectives; ++i) launch_on_all_members(random, &program);
  for (RankProgram& own : program.ranks) add_waits(random, &own);
  for (int i = 0; i < size.faults; ++i) add_fault(random, &program);
  if (size.faults == 0) return program;
  // A rank that asks for what never comes would go on to the step bound: that is another test's.
  for (RankProgram& own : program.ranks) {
    for (Action& action : own.actions) {
      if (action.kind == Kind::kAsk) action.kind = Kind::kWait;
    }
  }
  return program;
}

// ---- definitions --------------------------------------------------------------------------------

Words result_of(const std::vector<const Contribution*>& members, std::size_t member) {
  const Contribution& own = *members[member];
  const std::string& kind = own.call.kind;
  const auto count = static_cast<std::size_t>(own.call.count);
  if (kind == "broadcast") return members[static_cast<std::size_t>(own.call.root)]->input;
  Words result;
  for (const Contribution* other : members) {
    const std::size_t first = has_slots(kind) ? member * count : 0;
    if (other->input.size() < first + count) return {};  // only where the hub mixes things up
    const auto begin = other->input.begin() + static_cast<std::ptrdiff_t>(first);
    const Words part(begin, begin + own.call.count);
    if (!reduces(kind) || result.empty()) {
      result.insert(result.end(), part.begin(), part.end());
      continue;
    }
    std::transform(part.begin(), part.end(), result.begin(), result.begin(),
                   [&](int a, int b) { return own.call.reduce == "sum" ? a + b : std::max(a, b); });
  }
  return result;
}

Words output_before(const Contribution& own, std::size_t member, std::size_t members) {
  const std::string& kind = own.call.kind;
  if (kind == "all_reduce" || kind == "broadcast") return own.input;  // in place
  const auto count = static_cast<std::size_t>(own.call.count);
  Words output(kind == "reduce_scatter" ? count : count * members);
  if (kind == "all_gather") {
    std::copy(own.input.begin(), own.input.end(),
              output.begin() + static_cast<std::ptrdiff_t>(member * count));
  }
  return output;
}

Words poisoned(const Contribution& own, std::size_t member, std::size_t members) {
  Words output(output_before(own, member, members).size(), kPoisonWord);
  if (own.call.kind == "all_gather") {
    std::copy(own.input.begin(), own.input.end(),
              output.begin() + static_cast<std::ptrdiff_t>(member * own.input.size()));
  }
  return output;
}

// ---- for people ---------------------------------------------------------------------------------

void showValue(const Program& program, std::ostream& out) {
  static const char* const kNames[] = {"launch", "wait", "ask", "overwrite", "raise"};
  out << "schedule policy " << static_cast<int>(program.schedule.policy)
      << (program.schedule.delivery == Delivery::kLate ? ", late" : ", early") << "\n";
  for (const ProcessGroupId& group : program.groups) {
    out << group.name << " (key " << group.key << "): ranks "
        << "[" << text_of(group.members) << "]"
        << "\n";
  }
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    out << "rank " << rank << ":\n";
    for (const Action& action : program.ranks[rank].actions) {
      out << "  " << kNames[static_cast<std::size_t>(action.kind)] << " " << action.which;
      const Contribution& brings = program.ranks[rank].brings[action.which];
      if (action.kind == Kind::kLaunch) {
        out << ": " << brings.call.kind << " of g" << brings.group << ", count "
            << brings.call.count << " " << brings.call.dtype << " root " << brings.call.root << " "
            << brings.call.reduce << " "
            << "[" << text_of(brings.input) << "]";
      }
      out << "\n";
    }
  }
}

void showValue(const Outcome& outcome, std::ostream& out) {
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const RankOutcome& own = outcome.ranks[rank];
    out << "rank " << rank << " " << own.state << " " << own.waits_for << ", launches";
    for (const Meeting& meeting : own.launches)
      out << " g" << meeting.first << "/" << meeting.second;
    out << ", outputs";
    for (const auto& output : own.outputs)
      out << " " << (output ? "[" + text_of(*output) + "]" : "none");
    out << "\n";
  }
  for (const auto& [meeting, calls] : outcome.mismatches) {
    out << "mismatch g" << meeting.first << "/" << meeting.second << " of " << calls.size() << "\n";
  }
}

}  // namespace shardfuzz
