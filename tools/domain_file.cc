#include "tools/domain_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "fuzz/domain_report.h"
#include "fuzz/writable.h"

namespace shardfuzz {

Result<DomainFile> DomainFile::open(const std::string& path, const std::vector<std::string>& packs,
                                    int world_max) {
  if (Status writable = check_writable_file(path); !writable) return writable.error();
  const auto hooks = parse_pack_hooks(packs);
  if (!hooks) return hooks.error();
  DomainFile file;
  file.path_ = path;
  file.lattice_ = std::make_unique<DomainLattice>(*hooks, LatticeOptions{.world_max = world_max});
  file.coverage_ = std::make_unique<DomainCoverage>(*file.lattice_);
  std::ifstream in(path);
  if (!in) return file;
  std::stringstream text;
  text << in.rdbuf();
  auto kept = DomainCoverage::from_json(*file.lattice_, text.str(), path);
  if (!kept) return kept.error();
  file.coverage_->merge(*kept);
  return file;
}

Status DomainFile::save() const {
  const std::string part = path_ + ".part";
  std::ofstream out(part);
  out << coverage_->to_json();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, path_, error);
  if (out && !error) return Done{};
  std::filesystem::remove(part, error);
  return Error{.what = "the domain coverage cannot be written",
               .where = path_,
               .what_to_do = "name another file with --domain"};
}

std::string DomainFile::report() const { return domain_report(*coverage_); }

}  // namespace shardfuzz
