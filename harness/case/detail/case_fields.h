// The fields of a case file, written down once: the reader, the writer and the test of
// repro_cases/schema.json all walk these tables, so they cannot disagree.
//
// The order of a table is the order in the file and the order of the members in case.h.
#pragma once

#include <string_view>
#include <tuple>

#include "harness/case/case.h"

namespace shardfuzz::detail {

enum class Presence {
  kOptional,  // the writer leaves it out where it equals the default
  kWritten,   // always written, since a reader of the file looks for it; may be left out by hand
  kRequired,  // always written, and a file without it is refused
};

template <typename Struct, typename Member>
struct Field {
  std::string_view name;
  Member Struct::*member;
  Presence presence = Presence::kOptional;
};

template <typename Struct, typename Member>
constexpr Field<Struct, Member> field(std::string_view name, Member Struct::*member,
                                      Presence presence = Presence::kOptional) {
  return {name, member, presence};
}

inline constexpr std::string_view kSchemaKey = "schema";
inline constexpr std::string_view kSchemaName = "shardfuzz.case/1";

// fields_of(static_cast<const T*>(nullptr)) is T's table; overloads, so that templates find them.
constexpr auto fields_of(const ParamSpec*) {
  return std::tuple{field("name", &ParamSpec::name, Presence::kRequired),
                    field("shape", &ParamSpec::shape, Presence::kRequired),
                    field("dtype", &ParamSpec::dtype),
                    field("shard_dim", &ParamSpec::shard_dim),
                    field("pack", &ParamSpec::pack),
                    field("hook", &ParamSpec::hook),
                    field("call", &ParamSpec::call),
                    field("requires_grad", &ParamSpec::requires_grad),
                    field("tied_to", &ParamSpec::tied_to),
                    field("tensor_parallel_dim", &ParamSpec::tensor_parallel_dim)};
}

constexpr auto fields_of(const MixedPrecision*) {
  return std::tuple{field("param_dtype", &MixedPrecision::param_dtype),
                    field("reduce_dtype", &MixedPrecision::reduce_dtype),
                    field("output_dtype", &MixedPrecision::output_dtype),
                    field("cast_forward_inputs", &MixedPrecision::cast_forward_inputs)};
}

constexpr auto fields_of(const GroupSpec*) {
  return std::tuple{field("name", &GroupSpec::name, Presence::kRequired),
                    field("params", &GroupSpec::params, Presence::kWritten),
                    field("reshard_after_forward", &GroupSpec::reshard_after_forward),
                    field("mixed_precision", &GroupSpec::mixed_precision),
                    field("offload_to_cpu", &GroupSpec::offload_to_cpu),
                    field("unused_on_ranks", &GroupSpec::unused_on_ranks)};
}

constexpr auto fields_of(const Operation*) {
  return std::tuple{field("op", &Operation::kind, Presence::kRequired),
                    field("group", &Operation::group), field("param", &Operation::param),
                    field("flag", &Operation::flag)};
}

constexpr auto fields_of(const Batch*) {
  return std::tuple{field("tokens_per_expert", &Batch::tokens_per_expert),
                    field("top_k", &Batch::top_k),
                    field("tokens_by_rank", &Batch::tokens_by_rank),
                    field("empty_experts", &Batch::empty_experts),
                    field("same_on_all_ranks", &Batch::same_on_all_ranks),
                    field("values", &Batch::values)};
}

constexpr auto fields_of(const Optimizer*) {
  return std::tuple{field("kind", &Optimizer::kind), field("lr_log2", &Optimizer::lr_log2)};
}

constexpr auto fields_of(const Schedule*) {
  return std::tuple{field("policy", &Schedule::policy), field("seed", &Schedule::seed),
                    field("change_points", &Schedule::change_points),
                    field("delivery", &Schedule::delivery), field("delays", &Schedule::delays)};
}

constexpr auto fields_of(const Mesh*) {
  return std::tuple{field("shape", &Mesh::shape, Presence::kWritten),
                    field("dim_names", &Mesh::dim_names)};
}

constexpr auto fields_of(const Origin*) {
  return std::tuple{field("kind", &Origin::kind), field("source", &Origin::source),
                    field("note", &Origin::note)};
}

constexpr auto fields_of(const Environment*) {
  return std::tuple{field("torch", &Environment::torch), field("torchao", &Environment::torchao),
                    field("nccl", &Environment::nccl),   field("target", &Environment::target),
                    field("comm", &Environment::comm),   field("device", &Environment::device)};
}

constexpr auto fields_of(const Expectation*) {
  return std::tuple{field("verdict", &Expectation::verdict),
                    field("signature", &Expectation::signature),
                    field("sentence", &Expectation::sentence)};
}

constexpr auto fields_of(const HistoryEntry*) {
  return std::tuple{field("date", &HistoryEntry::date), field("state", &HistoryEntry::state),
                    field("note", &HistoryEntry::note)};
}

// "schema" comes before these in the file; it is no member.
constexpr auto fields_of(const Case*) {
  return std::tuple{field("name", &Case::name),
                    field("origin", &Case::origin),
                    field("mesh", &Case::mesh, Presence::kWritten),
                    field("groups", &Case::groups, Presence::kRequired),
                    field("batch", &Case::batch),
                    field("optimizer", &Case::optimizer),
                    field("steps", &Case::steps),
                    field("operations", &Case::operations),
                    field("schedule", &Case::schedule),
                    field("seed", &Case::seed),
                    field("compare_meshes", &Case::compare_meshes),
                    field("environment", &Case::environment),
                    field("expect", &Case::expect),
                    field("predicate", &Case::predicate),
                    field("history", &Case::history)};
}

template <typename T>
concept HasFields = requires {
  fields_of(static_cast<const T*>(nullptr));
};

// Calls visit(field) for each field of T, in order.
template <HasFields T, typename Visit>
void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); },
             fields_of(static_cast<const T*>(nullptr)));
}

}  // namespace shardfuzz::detail
