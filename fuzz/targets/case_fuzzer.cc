#include "fuzz/targets/case_fuzzer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/documented_use.h"
#include "fuzz/domain.h"
#include "fuzz/mutate_input.h"
#include "fuzz/pack_hooks.h"
#include "fuzz/targets/explore_worker.h"
#include "harness/base/check.h"
#include "harness/base/exit_code.h"
#include "harness/base/hash.h"
#include "harness/case/case_json.h"
#include "harness/worker/shared_bytes.h"

namespace {

// libFuzzer takes each of these bytes that an input makes non-zero as covered, and clears them
// between inputs.
constexpr std::size_t kDomainFeatures = 8192;  // room for cells of the domain; checked
constexpr std::size_t kSignatureFeatures = 256;
constexpr std::size_t kFeatures = kDomainFeatures + kSignatureFeatures + shardfuzz::kSharedBytes;
[[gnu::section("__libfuzzer_extra_counters"), gnu::used]] std::array<std::uint8_t, kFeatures>
    extra_counters;

}  // namespace

namespace shardfuzz {

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

namespace {

constexpr int kRejected = -1;  // libFuzzer keeps no such input

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The names that generate() gets: those asked for, or all that the subject has.
std::vector<std::string> chosen_packs(const CaseSubject& subject) {
  const auto chosen = parse_pack_hooks(split_at_commas(setting("SHARDFUZZ_PACKS", "")));
  if (!chosen) {
    std::fprintf(stderr, "SHARDFUZZ_PACKS: %s\n", chosen.error().text().c_str());
    std::exit(to_int(ExitCode::kBadInput));
  }
  std::vector<std::string> names;
  for (const PackHook& hook : *chosen) {
    if (subject.has_pack(hook)) names.push_back(to_text(hook));
  }
  if (names.empty()) {
    std::fprintf(stderr, "SHARDFUZZ_PACKS: this target has none of these packs\n");
    std::exit(to_int(ExitCode::kBadInput));
  }
  return names;
}

// What is generated: as the environment says, or the engine (--worker).
struct Generated {
  std::vector<std::string> packs;
  int world_max = 8;
  bool documented_use_only = false;
};

Generated as_the_environment_says(const CaseSubject& subject) {
  const std::vector<std::string> packs = chosen_packs(subject);
  return {.packs = packs, .documented_use_only = only_controls(parse_pack_hooks(packs).value())};
}

Generated as_the_engine_says(const CaseSeries& series) {
  return {.packs = series.packs,
          .world_max = series.world_max,
          .documented_use_only = series.documented_use_only};
}

class Fuzzer {
 public:
  Fuzzer(std::unique_ptr<CaseSubject> subject, const Generated& generated,
         std::optional<ExploreWorker> worker)
      : subject_(std::move(subject)),
        options_{.packs = generated.packs, .world_max = generated.world_max},
        documented_use_only_(generated.documented_use_only),
        worker_(std::move(worker)),
        abort_on_fail_(setting("SHARDFUZZ_ABORT_ON_FAIL", "0") != "0"),
        print_cases_(setting("SHARDFUZZ_PRINT_CASES", "0") != "0"),
        findings_(setting("SHARDFUZZ_FINDINGS", "findings"), subject_->origin()),
        lattice_(parse_pack_hooks(options_.packs).value(), {.world_max = options_.world_max}),
        domain_(lattice_) {
    SHARDFUZZ_CHECK(lattice_.cell_count() <= static_cast<int>(kDomainFeatures),
                    "{} cells of the domain, room for {}", lattice_.cell_count(), kDomainFeatures);
  }

  [[nodiscard]] const GeneratorOptions& options() const { return options_; }
  [[nodiscard]] const Findings& findings() const { return findings_; }

  int run(std::span<const std::uint8_t> bytes) {
    findings_.count_execution();
    Case c = case_of(decode_input(bytes), options_);
    if (documented_use_only_) keep_documented_use(&c);
    if (print_cases_) std::printf("%s", canonical_text(c).c_str());
    const std::optional<Verdict> verdict = subject_->run(c);
    if (!verdict) {
      findings_.count_skipped();
      if (worker_) worker_->note_skipped(subject_->origin().skipped);
      return kRejected;
    }
    count_features(c, *verdict);
    stop_if_asked(c, *verdict);
    if (worker_) {
      worker_->note(c, *verdict);
    } else {
      findings_.note(c, *verdict);
    }
    return 0;
  }

 private:
  // Code coverage says little about shapes: an uneven split takes the branches of an even one.
  void count_features(const Case& c, const Verdict& verdict) {
    domain_.clear();
    domain_.visit(c);
    const std::vector<std::uint8_t> cells = domain_.counters();
    std::copy(cells.begin(), cells.end(), extra_counters.begin());
    const std::span<const std::uint8_t> reached = subject_->counters();
    std::copy(reached.begin(), reached.end(),
              extra_counters.begin() + kDomainFeatures + kSignatureFeatures);
    if (verdict.signature.empty()) return;
    extra_counters[kDomainFeatures + hash_bytes(verdict.signature) % kSignatureFeatures] = 1;
  }

  void stop_if_asked(const Case& c, const Verdict& verdict) const {
    const bool is_ours =
        verdict.kind == VerdictKind::kError || verdict.kind == VerdictKind::kInvalid;
    if (!is_ours && (!abort_on_fail_ || verdict.kind != VerdictKind::kFail)) return;
    std::fprintf(stderr, "%s  %s\n%s\n%s", std::string(name_of(verdict.kind)).c_str(),
                 verdict.signature.c_str(), verdict.sentence.c_str(), canonical_text(c).c_str());
    std::abort();
  }

  const std::unique_ptr<CaseSubject> subject_;
  const GeneratorOptions options_;
  const bool documented_use_only_;
  std::optional<ExploreWorker> worker_;
  const bool abort_on_fail_, print_cases_;
  Findings findings_;
  const DomainLattice lattice_;
  DomainCoverage domain_;
};

// libFuzzer's interface has no place for state. Never destroyed: exit handlers of others use it.
Fuzzer* the_fuzzer = nullptr;

void make_fuzzer(bool is_worker) {
  std::unique_ptr<CaseSubject> subject = make_subject();
  if (!is_worker) {
    const Generated generated = as_the_environment_says(*subject);
    the_fuzzer = new Fuzzer(std::move(subject), generated, std::nullopt);
    std::atexit([] { the_fuzzer->findings().print_table(); });
    return;
  }
  ExploreWorker worker = ExploreWorker::begin();
  const Generated generated = as_the_engine_says(worker.series());
  the_fuzzer = new Fuzzer(std::move(subject), generated, std::move(worker));
}

std::size_t write_input(const CaseInput& input, std::uint8_t* data, std::size_t max_size) {
  const std::vector<std::uint8_t> bytes = encode_input(input);
  const std::size_t size = std::min(bytes.size(), max_size);  // a cut input is one, too
  std::copy_n(bytes.begin(), size, data);
  return size;
}

}  // namespace
}  // namespace shardfuzz

extern "C" {

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto is_worker = [](const char* argument) {
    return std::string_view(argument) == "--worker";
  };
  shardfuzz::make_fuzzer(std::any_of(*argv, *argv + *argc, is_worker));
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return shardfuzz::the_fuzzer->run({data, size});
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned int seed) {
  shardfuzz::Random random(seed);
  const auto input = shardfuzz::decode_input({data, size});
  return shardfuzz::write_input(shardfuzz::mutated(input, shardfuzz::the_fuzzer->options(), random),
                                data, max_size);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data_a, std::size_t size_a,
                                      const std::uint8_t* data_b, std::size_t size_b,
                                      std::uint8_t* out, std::size_t max_size, unsigned int seed) {
  shardfuzz::Random random(seed);
  const auto a = shardfuzz::decode_input({data_a, size_a});
  const auto b = shardfuzz::decode_input({data_b, size_b});
  return shardfuzz::write_input(shardfuzz::crossed(a, b, shardfuzz::the_fuzzer->options(), random),
                                out, max_size);
}

}  // extern "C"
