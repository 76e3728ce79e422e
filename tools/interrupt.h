// Ctrl-C and SIGTERM: ask the program to stop; what was found is on disk already.
#pragma once

namespace shardfuzz {

void catch_interrupts();  // the first signal asks, the second ends the process at once
bool is_interrupted();

}  // namespace shardfuzz
