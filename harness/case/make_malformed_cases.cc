// make_malformed_cases DIR: writes every text of malformed_texts.h as DIR/NAME.json, for the test
// that replays each with the command line program and expects exit code 2.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness/base/exit_code.h"
#include "harness/case/malformed_texts.h"

int main(int argument_count, char** arguments) {
  using namespace shardfuzz;
  if (argument_count != 2) {
    std::fprintf(stderr, "usage: make_malformed_cases DIR\n");
    return to_int(ExitCode::kBadInput);
  }
  const std::filesystem::path folder(arguments[1]);
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const auto texts = malformed_texts(kMalformedSeed);
  for (const MalformedText& malformed : texts) {
    const std::filesystem::path path = folder / (malformed.name + ".json");
    std::ofstream file(path, std::ios::binary);
    file << malformed.text;
    file.close();
    if (!file) {
      std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
      return to_int(ExitCode::kBadInput);
    }
  }
  std::printf("%zu files in %s\n", texts.size(), folder.c_str());
  return to_int(ExitCode::kDone);
}
