// spawn: starts one worker program with its descriptors, in a process group of its own.
//
// Guarantees: the child dies (SIGKILL) when the thread that called spawn() ends, so no worker
// outlives the engine, not even one that was killed; it leads its own process group; it sees the
// requests on fd 3, writes answers to fd 4, stdout and stderr to one pipe, reads nothing from stdin
// and inherits no other descriptor, no signal mask and no ignored signal; it writes no core file
// (gigabytes with torch) and is the kernel's first choice when memory runs out.
// What a worker starts in turn must ask the kernel for the same (PR_SET_PDEATHSIG), or call
// spawn(): it is killed with the worker's group while the engine lives, and by nobody where the
// engine died. Refuses: a program that cannot be executed, as an Error. Use: WorkerProcess does.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "harness/base/result.h"

namespace shardfuzz {

struct SpawnPlan {
  std::vector<std::string> argv;  // argv[0] is the program's path; PATH is not searched
  std::vector<std::string> env;   // "NAME=value": added to, or in place of, the engine's own
};

// The engine's ends; all are non-blocking and close-on-exec, and the caller closes them.
struct Child {
  pid_t pid = -1;
  int request_fd = -1;  // a socket: send with MSG_NOSIGNAL, so that a dead worker is no SIGPIPE
  int answer_fd = -1;
  int output_fd = -1;
};

[[nodiscard]] Result<Child> spawn(const SpawnPlan& plan);

}  // namespace shardfuzz
