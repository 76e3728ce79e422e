// OperatorWatch: sees every operator of a rank thread just before it runs.
//
// Guarantees: an operator that is handed a tensor whose storage does not hold what the tensor
// reaches (freed by a reshard, or never large enough) is recorded as a FreedRead before it runs,
// since on a CPU what comes next is a segfault, or values from nowhere. One event for each rank and
// operation of the case: what follows is a consequence. The name of the operator is kept where a
// signal handler finds it, as the last words of a process that dies or hangs. Not reported:
// operators that read no elements, that is those whose result is a view of an input, those that
// only ask about or change a tensor's form (kFormOnly in the .cc file), and wrapper subclasses,
// whose inner tensors are seen when their operators run.
//
// Thread rule: install once; WatchedRank and set_watched_place on the rank's own thread while it
// holds the baton; operator_words from anywhere, also in a signal handler. Use:
// install_operator_watch();  ...  const WatchedRank watched(rank, &recorder);
#pragma once

#include <cstddef>
#include <string>

#include "harness/trace/recorder.h"

namespace shardfuzz {

void install_operator_watch();

// The calling thread is this rank's, and what it does belongs to this recorder, until the end of
// it.
class WatchedRank {
 public:
  WatchedRank(int rank, Recorder* recorder);
  ~WatchedRank();
  WatchedRank(const WatchedRank&) = delete;
  WatchedRank& operator=(const WatchedRank&) = delete;
};

// Where the calling thread's rank is, for last words; a new place may record a new FreedRead.
void set_watched_place(int rank, int step, const std::string& phase);

// "rank 1, step 0, forward, aten::mul": the operator that began last in this process, and where.
// Writes at most `byte_count` bytes, no zero at the end, and gives their number. Signal-safe.
std::size_t operator_words(char* text, std::size_t byte_count) noexcept;

}  // namespace shardfuzz
