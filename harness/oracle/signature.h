// Signature: what makes two failures the same.
//
//   <pack>:<hook>|<property>|<exception>|<class>
//
// pack:hook  the code under test of the offending parameter ("-" where the finding names none and
// the
//            case mixes several)
// property   of the earliest finding in causal order
// exception  type and the first words of the exception that the code under test raised on the
// offending
//            rank, else of the first in program order; normalized (no numbers, lists or addresses);
//            "-" where none was raised
// class      of the lowest offending rank of that property: full, short, empty
// Sizes, rank numbers and addresses are never part of it.
#pragma once

#include <string>

#include "harness/oracle/expected.h"
#include "harness/oracle/verdict.h"
#include "harness/trace/trace.h"

namespace shardfuzz {

// `findings` in causal order, not empty.
std::string signature_of(const Expected& expected, const Trace& trace,
                         const std::vector<Finding>& findings);

// "RuntimeError.setstorage-sizes-strides-storage-offset": no numbers, at most kSlugWords words.
inline constexpr int kSlugWords = 6;
std::string exception_slug(const std::string& type, const std::string& message);

}  // namespace shardfuzz
