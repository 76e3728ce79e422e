#include "fuzz/mutate_input.h"

#include <algorithm>
#include <cstddef>

namespace shardfuzz {
namespace {

constexpr int kTriesMax = 8;
constexpr std::size_t kRunMax = 4;       // draws that are inserted, deleted or copied at once
constexpr std::size_t kFreshDraws = 96;  // of a part that is drawn anew; few parts take more
// One below a multiple of 1..22, 24, 25, 40, 50 and 100: the last choice of most ranges, which
// switches on what is rare (chance() is true).
constexpr std::uint32_t kLastOfMostRanges = 2 * 1163962800U - 1;

std::ptrdiff_t at(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

// Small numbers are the plain choices, and most ranges are small.
std::uint32_t some_draw(Random& random) {
  const std::uint64_t kind = random.below(10);
  if (kind < 2) return 0;
  if (kind < 4) return static_cast<std::uint32_t>(random.below(4));
  if (kind < 5) return kLastOfMostRanges;
  return static_cast<std::uint32_t>(random.next());
}

Draws some_draws(std::size_t count, Random& random) {
  Draws draws(count);
  for (std::uint32_t& draw : draws) draw = some_draw(random);
  return draws;
}

void change_one(Draws* part, Random& random) {
  if (part->empty()) return;
  std::uint32_t& draw = (*part)[random.below(part->size())];
  switch (random.below(4)) {
    case 0: ++draw; return;  // past the end of its range it is the first again
    case 1: draw = draw == 0 ? kLastOfMostRanges : draw - 1; return;
    default: draw = some_draw(random); return;
  }
}

void insert_run(Draws* part, Random& random) {
  const Draws run = some_draws(1 + random.below(kRunMax), random);
  part->insert(part->begin() + at(random.below(part->size() + 1)), run.begin(), run.end());
}

void delete_run(Draws* part, Random& random) {
  if (part->empty()) return;
  const std::size_t first = random.below(part->size());
  const std::size_t count = std::min(part->size() - first, 1 + random.below(kRunMax));
  part->erase(part->begin() + at(first), part->begin() + at(first + count));
}

// Over other draws or between them: two parameters alike, or one more.
void copy_run(Draws* part, Random& random) {
  if (part->empty()) return;
  const std::size_t first = random.below(part->size());
  const std::size_t count = std::min(part->size() - first, 1 + random.below(2 * kRunMax));
  const Draws run(part->begin() + at(first), part->begin() + at(first + count));
  const std::size_t place = random.below(part->size() + 1);
  if (random.chance(50)) {
    part->insert(part->begin() + at(place), run.begin(), run.end());
  } else {
    part->resize(std::max(part->size(), place + count));
    std::copy(run.begin(), run.end(), part->begin() + at(place));
  }
}

void draw_anew(Draws* part, Random& random) {
  part->resize(kFreshDraws);
  for (std::uint32_t& draw : *part) draw = static_cast<std::uint32_t>(random.next());
}

void mutate_part(Draws* part, Random& random) {
  switch (random.below(12)) {
    case 0: insert_run(part, random); return;
    case 1: delete_run(part, random); return;
    case 2: copy_run(part, random); return;
    case 3: draw_anew(part, random); return;
    case 4: part->resize(random.below(part->size() + 1)); return;  // the rest becomes plain
    default:
      for (std::uint64_t left = 1 + random.below(3); left > 0; --left) change_one(part, random);
      return;
  }
}

CaseInput mutated_once(CaseInput input, Random& random) {
  if (random.chance(3)) {  // out of a corner that small steps do not leave
    for (Draws& part : input.parts) draw_anew(&part, random);
    return input;
  }
  Draws& part = input.parts[random.below(kGeneratedParts)];
  // An empty part has nothing to change: it is plain all through.
  if (part.empty()) part = some_draws(1 + random.below(kRunMax), random);
  mutate_part(&part, random);
  return input;
}

// The first draws of one and the last of the other, mostly at the same place, where they are about
// the same thing.
Draws spliced(const Draws& a, const Draws& b, Random& random) {
  const std::size_t from_a = random.below(a.size() + 1);
  const std::size_t from_b =
      random.chance(75) ? std::min(from_a, b.size()) : random.below(b.size() + 1);
  Draws both(a.begin(), a.begin() + at(from_a));
  both.insert(both.end(), b.begin() + at(from_b), b.end());
  return both;
}

}  // namespace

CaseInput mutated(const CaseInput& input, const GeneratorOptions& options, Random& random) {
  const CaseInput before = tidied(input, options);
  CaseInput after = before;
  for (int i = 0; i < kTriesMax && after == before; ++i) {
    after = tidied(mutated_once(before, random), options);
  }
  return after;
}

CaseInput crossed(const CaseInput& a, const CaseInput& b, const GeneratorOptions& options,
                  Random& random) {
  CaseInput child;
  for (std::size_t i = 0; i < kGeneratedParts; ++i) {
    switch (random.below(3)) {
      case 0: child.parts[i] = a.parts[i]; break;
      case 1: child.parts[i] = b.parts[i]; break;
      default: child.parts[i] = spliced(a.parts[i], b.parts[i], random); break;
    }
  }
  return tidied(child, options);
}

}  // namespace shardfuzz
