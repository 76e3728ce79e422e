// Exit codes of the command line program; scripts rely on them.
#pragma once

namespace shardfuzz {

enum class ExitCode : int {
  kDone = 0,      // done as asked (fuzz: whatever it found; replay: verdict as the file expects)
  kDiffers = 1,   // replay differs from the file, or fuzz --fail-on-new found something new
  kBadInput = 2,  // bad input or environment: a file, an option, a missing package
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace shardfuzz
