// Builds a function for AVX2 as well and lets the loader pick; the bytes it computes are the same.
//
// Two things for such loops, which the standard library's templates cannot give: helpers that are
// compiled into each version (SHARDFUZZ_FP8_INLINE), and a bit_cast among them.
//
// Only for loops whose results do not depend on the vector width (recipe.h, matmul.h say why).
// Switched off under sanitizers, whose run time is not up yet when the loader resolves the choice.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SHARDFUZZ_FP8_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHARDFUZZ_FP8_SANITIZED 1
#endif

#if defined(__x86_64__) && !defined(SHARDFUZZ_FP8_SANITIZED)
#define SHARDFUZZ_FP8_CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define SHARDFUZZ_FP8_CLONES
#endif

#define SHARDFUZZ_FP8_INLINE [[gnu::always_inline]] inline

namespace shardfuzz::fp8 {

template <typename To, typename From>
SHARDFUZZ_FP8_INLINE constexpr To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace shardfuzz::fp8
