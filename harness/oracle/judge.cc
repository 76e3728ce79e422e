#include "harness/oracle/judge.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/case/case_names.h"
#include "harness/oracle/expected.h"
#include "harness/oracle/properties.h"
#include "harness/oracle/refused_table.h"
#include "harness/oracle/signature.h"

namespace shardfuzz {
namespace {

// "P9" -> 9; the order of properties that show at the same operation.
int causal_number(const std::string& property) {
  return property.size() > 1 && property[0] == 'P' ? std::stoi(property.substr(1)) : 99;
}

// Place of a phase within a step: operations in program order, then the comparisons after the run.
int phase_number(const Expected& expected, const std::string& phase) {
  if (phase == "init") return -1;
  const auto& operations = expected.operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (name_of(operations[i].kind) == phase) return static_cast<int>(i);
  }
  return static_cast<int>(operations.size());
}

// The operation at which a finding shows; one without an event of its own place goes by its phase.
int place_of(const Expected& expected, const Trace& trace, const Finding& finding) {
  const auto event = std::lower_bound(
      trace.events.begin(), trace.events.end(), finding.event,
      [](const Event& candidate, std::int64_t index) { return candidate.index < index; });
  const bool own = finding.event >= 0 && event != trace.events.end() &&
                   event->index == finding.event && event->step == finding.step &&
                   event->phase == finding.phase;
  if (own && event->operation >= 0) return event->operation;
  return phase_number(expected, finding.phase);
}

void sort_causally(const Expected& expected, const Trace& trace, std::vector<Finding>* findings) {
  const auto key = [&](const Finding& finding) {
    return std::tuple(finding.step, place_of(expected, trace, finding),
                      causal_number(finding.property), finding.rank, finding.event);
  };
  std::stable_sort(findings->begin(), findings->end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

// Every rank raised, with one type: the exceptions by rank. Empty otherwise.
std::vector<const Raised*> uniform_exceptions(const Trace& trace) {
  std::map<int, const Raised*> by_rank;
  for_each<Raised>(trace, [&](const Event& event, const Raised& raised) {
    if (!raised.by_harness) by_rank.emplace(event.rank, &raised);
  });
  if (static_cast<int>(by_rank.size()) != trace.world_size) return {};
  std::vector<const Raised*> exceptions;
  for (const auto& [rank, raised] : by_rank) {
    if (raised->type != by_rank.begin()->second->type) return {};
    exceptions.push_back(raised);
  }
  return exceptions;
}

// All ranks raise something that is not documented: a failure of its own.
void note_uniform_raise(const Trace& trace, std::vector<Finding>* findings) {
  std::map<int, const Event*> first_by_rank;
  for (const Event& event : trace.events) {
    const auto* raised = std::get_if<Raised>(&event.payload);
    if (raised != nullptr && !raised->by_harness) first_by_rank.emplace(event.rank, &event);
  }
  if (static_cast<int>(first_by_rank.size()) != trace.world_size) return;
  const Event& event = *first_by_rank.begin()->second;
  const auto& raised = std::get<Raised>(event.payload);
  std::string others;  // that raise something else
  for (const auto& [rank, other] : first_by_rank) {
    const std::string& type = std::get<Raised>(other->payload).type;
    if (type != raised.type) others += fmt::format(", rank {} {}", rank, type);
  }
  findings->push_back({.property = "raise",
                       .rank = event.rank,
                       .group = raised.group,
                       .param = raised.param,
                       .phase = event.phase,
                       .step = event.step,
                       .sentence = fmt::format("every rank raises in {}: {}: {}{}", event.phase,
                                               raised.type, raised.message, others),
                       .event = event.index});
}

// The lowest rank whose events neither end nor raise: a trace that says nothing must not pass.
int rank_without_end(const Trace& trace) {
  std::vector<bool> ended(static_cast<std::size_t>(trace.world_size));
  for (const Event& event : trace.events) {
    const bool ends = std::holds_alternative<Finished>(event.payload) ||
                      std::holds_alternative<Raised>(event.payload);
    if (ends && event.rank >= 0) ended.at(static_cast<std::size_t>(event.rank)) = true;
  }
  const auto found = std::find(ended.begin(), ended.end(), false);
  return found == ended.end() ? -1 : static_cast<int>(found - ended.begin());
}

Verdict fail_with(const Expected& expected, const Trace& trace, std::vector<Finding> findings,
                  const std::string& digest) {
  sort_causally(expected, trace, &findings);
  Verdict verdict{.kind = VerdictKind::kFail, .trace_digest = digest};
  verdict.signature = signature_of(expected, trace, findings);
  verdict.sentence = findings.front().sentence;
  verdict.findings = std::move(findings);
  return verdict;
}

}  // namespace

Verdict judge(const Case& c, const Trace& trace, const JudgeOptions& options) {
  const std::string digest = options.with_digest ? trace_digest(trace) : "";
  if (!trace.invalid.empty()) {
    return {.kind = VerdictKind::kInvalid, .sentence = trace.invalid};
  }
  if (trace.world_size != c.mesh.world_size() || rank_without_end(trace) >= 0) {
    return {.kind = VerdictKind::kError,
            .sentence =
                fmt::format("the trace is of {} ranks where the case has {}, or ends early (rank "
                            "{})",
                            trace.world_size, c.mesh.world_size(), rank_without_end(trace)),
            .trace_digest = digest};
  }
  const Expected expected(c);
  std::vector<Finding> findings;
  for (const Property& property : all_properties()) {
    if (options.switched_off.count(property.name) == 0) property.check(expected, trace, &findings);
  }
  const std::vector<const Raised*> exceptions = uniform_exceptions(trace);
  if (!exceptions.empty() && findings.empty()) {
    if (const Refusal* refusal = find_refusal(*exceptions.front())) {
      return {.kind = VerdictKind::kRefused,
              .signature = "refused|" + std::string(refusal->id),
              .sentence = fmt::format("every rank raises {} ({})", exceptions.front()->type,
                                      refusal->source),
              .trace_digest = digest};
    }
  }
  if (options.switched_off.count("raise") == 0) note_uniform_raise(trace, &findings);
  if (findings.empty()) {
    return {.kind = VerdictKind::kPass, .sentence = "every property held", .trace_digest = digest};
  }
  return fail_with(expected, trace, std::move(findings), digest);
}

Verdict judge_lost(const Case& c, const LostProcess& lost) {
  const Expected expected(c);
  Finding finding{.property = lost.what, .phase = lost.place};
  finding.sentence = lost.what == "crash"    ? "the process dies of " + lost.reason
                     : lost.what == "memory" ? "the process needs too much memory: " + lost.reason
                                             : "the process hangs: " + lost.reason;
  if (!lost.place.empty()) finding.sentence += ", last seen in " + lost.place;
  Verdict verdict{.kind = VerdictKind::kFail, .sentence = finding.sentence};
  const std::string reason = lost.what == "crash" ? lost.reason : "-";
  const Trace none;
  std::string subject = signature_of(expected, none, {finding});
  verdict.signature = subject.substr(0, subject.find('|')) + "|" + lost.what + "|" + reason + "|-";
  verdict.findings = {finding};
  return verdict;
}

Verdict judge_repeat(const Case& c, const Trace& first, const Trace& second) {
  const Expected expected(c);
  std::vector<Finding> findings;
  check_determinism(first, second, &findings);
  if (findings.empty()) return judge(c, first);
  return fail_with(expected, first, std::move(findings), trace_digest(first));
}

Verdict judge_meshes(const Case& c, const std::vector<Trace>& traces) {
  const Expected expected(c);
  std::vector<Finding> findings;
  check_mesh_relations(traces, &findings);
  if (findings.empty()) return judge(c, traces.front());
  return fail_with(expected, traces.front(), std::move(findings), trace_digest(traces.front()));
}

}  // namespace shardfuzz
