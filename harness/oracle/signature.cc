#include "harness/oracle/signature.h"

#include <cctype>
#include <set>
#include <tuple>

namespace shardfuzz {
namespace {

// The exception of the offending rank, else the first in program order: the order in which the
// ranks took turns must not matter.
const Raised* exception_of(const Trace& trace, int rank) {
  const auto key = [rank](const Event& event) {
    return std::tuple(event.rank != rank, event.step, event.operation, event.rank);
  };
  const Event* first = nullptr;
  for_each<Raised>(trace, [&](const Event& event, const Raised& raised) {
    if (raised.by_harness) return;
    if (first == nullptr || key(event) < key(*first)) first = &event;
  });
  return first == nullptr ? nullptr : &std::get<Raised>(first->payload);
}

std::string subject_of(const Expected& expected, const Finding& finding) {
  if (const ParamView* view = expected.find(finding.group, finding.param)) {
    return view->param->pack + ":" + view->param->hook;
  }
  std::set<std::string> subjects;  // of the group, else of the case
  for (const ParamView& view : expected.params()) {
    if (!finding.group.empty() && view.group->name != finding.group) continue;
    subjects.insert(view.param->pack + ":" + view.param->hook);
  }
  return subjects.size() == 1 ? *subjects.begin() : "-";
}

}  // namespace

std::string exception_slug(const std::string& type, const std::string& message) {
  std::string slug;
  int words = 0;
  int depth = 0;  // inside brackets: values, not words
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && words < kSlugWords) {
      slug += (words == 0 ? "" : "-") + word;
      ++words;
    }
    word.clear();
  };
  bool skipping = false;  // a token that holds a digit is a value
  for (const char raw : message) {
    const auto c = static_cast<unsigned char>(raw);
    if (raw == '[' || raw == '{') ++depth;
    if ((raw == ']' || raw == '}') && depth > 0) --depth;
    if (depth > 0) continue;
    if (std::isdigit(c) != 0) {
      skipping = true;
      word.clear();
    } else if (std::isalpha(c) != 0 || raw == '_') {
      if (!skipping) word += static_cast<char>(std::tolower(c));
    } else {
      skipping = false;
      end_word();
    }
  }
  end_word();
  return slug.empty() ? type : type + "." + slug;
}

std::string signature_of(const Expected& expected, const Trace& trace,
                         const std::vector<Finding>& findings) {
  const Finding& cause = findings.front();
  const Finding* lowest = &cause;
  for (const Finding& finding : findings) {
    if (finding.property != cause.property || finding.group != cause.group ||
        finding.param != cause.param) {
      continue;
    }
    if (finding.rank >= 0 && (lowest->rank < 0 || finding.rank < lowest->rank)) lowest = &finding;
  }
  const Raised* raised = exception_of(trace, lowest->rank);
  return subject_of(expected, cause) + "|" + cause.property + "|" +
         (raised == nullptr ? "-" : exception_slug(raised->type, raised->message)) + "|" +
         std::string(expected.class_name(cause.group, cause.param, lowest->rank));
}

}  // namespace shardfuzz
