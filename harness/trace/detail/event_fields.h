// The fields of every struct of event.h by name, said once: the JSON form and the digest
// (trace.cc) and the comparison of two traces (compare.cc) all follow this list.
//
// visit_fields(std::type_identity<T>{}, visit) calls visit("name", &T::name) for each field, in the
// order of the list. The order is part of the digest, so of stored files: new fields go at the end.
// A field that is missing here, or listed twice, does not compile.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <variant>
#include <vector>

#include "harness/trace/event.h"

namespace shardfuzz {

// The preprocessor does not call a macro inside itself, but it takes up again what a scan has left;
// each SCAN scans four times as often as the one below it: up to 21 fields.
#define SHARDFUZZ_SCAN_1(...) __VA_ARGS__
#define SHARDFUZZ_SCAN_4(...) \
  SHARDFUZZ_SCAN_1(SHARDFUZZ_SCAN_1(SHARDFUZZ_SCAN_1(SHARDFUZZ_SCAN_1(__VA_ARGS__))))
#define SHARDFUZZ_SCAN_16(...) \
  SHARDFUZZ_SCAN_4(SHARDFUZZ_SCAN_4(SHARDFUZZ_SCAN_4(SHARDFUZZ_SCAN_4(__VA_ARGS__))))
#define SHARDFUZZ_NOTHING
#define SHARDFUZZ_VISIT_NEXT() SHARDFUZZ_VISIT_FIELDS
#define SHARDFUZZ_VISIT_FIELDS(Type, field, ...) \
  visit(#field, &Type::field);                   \
  __VA_OPT__(SHARDFUZZ_VISIT_NEXT SHARDFUZZ_NOTHING()(Type, __VA_ARGS__))

// The second function binds each field of the struct to a name of the list: that is the check that
// none is left out.
#define SHARDFUZZ_EVENT_FIELDS(Type, ...)                                    \
  template <typename Visit>                                                  \
  constexpr void visit_fields(std::type_identity<Type>, Visit&& visit) {     \
    SHARDFUZZ_SCAN_16(SHARDFUZZ_VISIT_FIELDS(Type, __VA_ARGS__))             \
  }                                                                          \
  [[maybe_unused]] constexpr void every_field_is_listed(const Type& value) { \
    [[maybe_unused]] const auto& [__VA_ARGS__] = value;                      \
  }

SHARDFUZZ_EVENT_FIELDS(TensorNote, shape, dtype, bytes, digest)
SHARDFUZZ_EVENT_FIELDS(Sharded, group, param, local_shape, padded_shape, local_type, dtype,
                       expected_type, storage_bytes, requires_grad)
SHARDFUZZ_EVENT_FIELDS(PreAllGather, group, param, hook_arguments, from_post_forward, inputs,
                       declared, rows_digest, local_digest)
SHARDFUZZ_EVENT_FIELDS(Call, rank, kind, dtype, count, bytes, root, reduce)
SHARDFUZZ_EVENT_FIELDS(Launch, process_group, members, sequence, call, digest)
SHARDFUZZ_EVENT_FIELDS(Delivered, process_group, members, sequence, kind, digest)
SHARDFUZZ_EVENT_FIELDS(Mismatch, process_group, members, sequence, calls)
SHARDFUZZ_EVENT_FIELDS(Unsharded, group, param, shape, stride, dtype, type, expected_type,
                       storage_bytes, needed_bytes, requires_grad, slots, tags)
SHARDFUZZ_EVENT_FIELDS(Storage, group, param, at, unsharded_bytes, post_forward_bytes,
                       gradient_bytes)
SHARDFUZZ_EVENT_FIELDS(FreedRead, op, storage_bytes, needed_bytes, shape)
SHARDFUZZ_EVENT_FIELDS(Gradient, group, param, present, type, dtype, shape, digest)
SHARDFUZZ_EVENT_FIELDS(Stepped, group, param, optimizer_owns_it, type, dtype, requires_grad, digest)
SHARDFUZZ_EVENT_FIELDS(Reference, group, param, what, exact, missing, differing, first, got, want,
                       headroom)
SHARDFUZZ_EVENT_FIELDS(Loaded, group, param, same_bytes, same_type)
SHARDFUZZ_EVENT_FIELDS(Final, group, param, digest, exact, sample)
SHARDFUZZ_EVENT_FIELDS(Raised, type, message, where, group, param, by_harness)
SHARDFUZZ_EVENT_FIELDS(Stuck::Rank, rank, state, waits_for)
SHARDFUZZ_EVENT_FIELDS(Stuck, step_bound, ranks)
SHARDFUZZ_EVENT_FIELDS(HeldBuffer, role, process_group, sequence, bytes)
SHARDFUZZ_EVENT_FIELDS(Memory, buffers, peak_bytes)
template <typename Visit>
constexpr void visit_fields(std::type_identity<Finished>, Visit&&) {}

#undef SHARDFUZZ_EVENT_FIELDS
#undef SHARDFUZZ_VISIT_FIELDS
#undef SHARDFUZZ_VISIT_NEXT
#undef SHARDFUZZ_NOTHING
#undef SHARDFUZZ_SCAN_16
#undef SHARDFUZZ_SCAN_4
#undef SHARDFUZZ_SCAN_1

// A struct of the list above.
template <typename T>
concept HasFields = requires {
  visit_fields(std::type_identity<T>{}, [](const char*, auto) {});
};

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// Names of the kinds of events, by position in Payload.
inline constexpr const char* kKinds[] = {
    "sharded", "pre_all_gather", "launch",   "delivered", "mismatch",  "unsharded",
    "storage", "freed_read",     "gradient", "stepped",   "reference", "loaded",
    "final",   "raised",         "finished", "stuck",     "memory"};
static_assert(std::size(kKinds) == std::variant_size_v<Payload>);

inline const char* kind_of(const Payload& payload) { return kKinds[payload.index()]; }

}  // namespace shardfuzz
