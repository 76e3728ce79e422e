#include "tools/case_files.h"

#include <algorithm>
#include <filesystem>

#include "harness/case/case_json.h"
#include "harness/case/validate.h"

namespace shardfuzz {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return Error{.what = "no such file or folder",
                 .where = path,
                 .what_to_do = "name a case file, or a folder such as repro_cases/regression"};
  }
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::recursive_directory_iterator entry(path, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& file = entry->path();
    if (file.extension() != ".json" || file.filename() == "known.json" ||
        file.filename() == "schema.json") {
      continue;
    }
    files.push_back(file.string());
  }
  if (error) {
    return Error{.what = error.message(), .where = path, .what_to_do = "check the folder"};
  }
  std::sort(files.begin(), files.end());
  return files;
}

Error no_case_files(const std::vector<std::string>& paths) {
  return Error{.what = "no case files",
               .where = paths.empty() ? "command line" : paths.front(),
               .what_to_do = "name a *.json case file or a folder that holds some"};
}

}  // namespace

Result<std::vector<std::string>> find_case_files(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    const auto files = files_of(path);
    if (!files) return files.error();
    all.insert(all.end(), files->begin(), files->end());
  }
  if (all.empty()) return no_case_files(paths);
  return all;
}

Result<std::vector<CaseFile>> load_case_files_if_any(const std::vector<std::string>& paths) {
  std::vector<CaseFile> loaded;
  for (const std::string& path : paths) {
    const auto files = files_of(path);
    if (!files) return files.error();
    for (const std::string& file : *files) {
      Result<Case> read = load_case(file);
      if (!read) return read.error();
      if (Status valid = validate(*read); !valid) {
        Error error = valid.error();
        error.where = file + ": " + error.where;
        return error;
      }
      loaded.push_back({.path = file, .the_case = std::move(read).value()});
    }
  }
  return loaded;
}

Result<std::vector<CaseFile>> load_case_files(const std::vector<std::string>& paths) {
  Result<std::vector<CaseFile>> loaded = load_case_files_if_any(paths);
  if (loaded && loaded->empty()) return no_case_files(paths);
  return loaded;
}

}  // namespace shardfuzz
