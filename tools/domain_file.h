// The domain coverage of fuzz runs, kept in a file from one to the next.
#pragma once

#include <memory>
#include <string>

#include "fuzz/domain.h"

namespace shardfuzz {

class DomainFile {
 public:
  // Reads the file if it is there. Refused: one that does not belong to these packs.
  static Result<DomainFile> open(const std::string& path, const std::vector<std::string>& packs,
                                 int world_max);

  void visit(const Case& c) { coverage_->visit(c); }
  // Writes the file, whole or not at all.
  Status save() const;
  [[nodiscard]] std::string report() const;

 private:
  std::string path_;
  std::unique_ptr<DomainLattice> lattice_;  // its address stays
  std::unique_ptr<DomainCoverage> coverage_;
};

}  // namespace shardfuzz
