// Says where in PyTorch a rank was when nobody could go on.
#pragma once

#include <string>
#include <utility>

#include "harness/collective/hub.h"
#include "harness/native/py_error.h"

namespace shardfuzz::native {

// What `call` gives; a StuckError out of it leaves as what Python makes of it, raised at `where`.
template <typename Call>
auto raising_at(const char* where, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const StuckError& stuck) {
    throw PyError("RuntimeError", stuck.what(), where);
  }
}

}  // namespace shardfuzz::native
