#include "tools/run_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace shardfuzz {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "shardfuzz.run/1";
constexpr const char* kWayOut = "leave --resume out to begin again, or give the run's own options";

}  // namespace

RunState::RunState(const EngineOptions& engine, const std::string& engine_name)
    : folder_(engine.output_folder),
      key_(fmt::format("engine {}, seed {}, packs [{}], at most {} ranks{}", engine_name,
                       engine.seed, fmt::join(engine.packs, " "), engine.world_max,
                       engine.documented_use_only ? ", documented use only" : "")) {}

// No *.json: that would be taken for a case.
std::string RunState::path() const {
  return (std::filesystem::path(folder_) / ".shardfuzz-run").string();
}

Result<RunPosition> RunState::load() const {
  std::ifstream in(path());
  if (!in) {
    return Error{.what = "no run is kept here", .where = path(), .what_to_do = kWayOut};
  }
  const Json kept = Json::parse(in, nullptr, false);
  const auto is_count = [&](const char* name) {
    return kept.contains(name) && kept[name].is_number_unsigned();
  };
  if (!kept.is_object() || kept.value("schema", "") != kSchema || !kept.contains("run") ||
      !is_count("next_case") || !is_count("next_range")) {
    return Error{.what = "not a file of a kept run", .where = path(), .what_to_do = kWayOut};
  }
  if (kept["run"] != key_) {
    return Error{.what = fmt::format("the kept run is another one: {}; this is: {}",
                                     kept["run"].dump(), key_),
                 .where = path(),
                 .what_to_do = kWayOut};
  }
  return RunPosition{.next_case = kept["next_case"].get<std::int64_t>(),
                     .next_range = kept["next_range"].get<std::int64_t>()};
}

Status RunState::save(const RunPosition& position) const {
  const Json kept = {{"schema", kSchema},
                     {"run", key_},
                     {"next_case", position.next_case},
                     {"next_range", position.next_range}};
  const std::string part = path() + ".part";
  std::ofstream out(part);
  out << kept.dump(2) << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, path(), error);
  if (out && !error) return Done{};
  return Error{.what = "how far the run came cannot be kept",
               .where = path(),
               .what_to_do = "free some space, or name another folder with --output"};
}

}  // namespace shardfuzz
