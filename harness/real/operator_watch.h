// OperatorWatch: sees every operator of a rank thread just before it runs.
//
// Guarantees: an operator that is handed a tensor whose storage does not hold what the tensor
// reaches (freed by a reshard, or never large enough) is recorded as a FreedRead before it runs,
// since on a CPU what comes next is a segfault, or values from nowhere. One event for each rank and
// operation of the case: what follows is a consequence. The operator's name, and that it reads
// freed storage, are kept where a signal handler finds them: the last words of a process that dies
// or hangs.
//
// Not reported: operators that read no elements (those whose result is a view of an input, those
// that only ask about or change a tensor's form: kFormOnly in the .cc file); wrapper subclasses,
// whose inner tensors are seen when their operators run; what the harness does to tensors for
// itself in C++ (at::DisableRecordFunctionGuard).
//
// It costs 6 to 8 % of a case's CPU time: 3 in torch for calling back at all, 2 to 3 for boxing the
// inputs, 1 here. Building the model is not watched: nothing is freed yet.
//
// Thread rule: WatchedRank and set_watched_place on the rank's own thread while it holds the baton;
// operator_words from anywhere, also in a signal handler.
// Use:  const WatchedRank watched(rank, &recorder);
#pragma once

#include <cstddef>
#include <string>

#include "harness/trace/recorder.h"

namespace shardfuzz {

// While this lives, the calling thread is that rank's and what it does belongs to that recorder.
class WatchedRank {
 public:
  WatchedRank(int rank, Recorder* recorder);
  ~WatchedRank();
  WatchedRank(const WatchedRank&) = delete;
  WatchedRank& operator=(const WatchedRank&) = delete;
};

// Where the calling thread's rank is, for last words; a new place may record a new FreedRead.
void set_watched_place(int rank, int step, const std::string& phase);

// "rank 1, step 0, forward, aten::mul": the operator that began last on a rank's thread, and where.
// Writes at most `byte_count` bytes, no zero at the end, and gives their number. Signal-safe.
std::size_t operator_words(char* text, std::size_t byte_count) noexcept;

}  // namespace shardfuzz
