// How far a fuzz run came, kept beside its findings, so that --resume goes on there.
//
// The file holds the options that the cases depend on, too: a run with others is another run.
// Guarantees: written whole or not at all. Refused (Error): a file that is missing, cannot be read
// or belongs to other options, with what differs.
#pragma once

#include <string>

#include "fuzz/engine.h"

namespace shardfuzz {

class RunState {
 public:
  RunState(const EngineOptions& engine, const std::string& engine_name);

  [[nodiscard]] Result<RunPosition> load() const;
  Status save(const RunPosition& position) const;

 private:
  [[nodiscard]] std::string path() const;

  std::string folder_, key_;
};

}  // namespace shardfuzz
