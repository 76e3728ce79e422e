// Where what is kept from run to run lives: $SHARDFUZZ_CACHE, else $XDG_CACHE_HOME/shardfuzz, else
// $HOME/.cache/shardfuzz, as tools/lib.sh has it. Not made here.
#pragma once

#include <string>

namespace shardfuzz {

std::string cache_folder();

}  // namespace shardfuzz
