// Builds a function for AVX2 as well and lets the loader pick; the bytes it computes are the same.
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

// For helpers of such a function: they must be compiled into each of its versions.
#define SHARDFUZZ_FP8_INLINE [[gnu::always_inline]] inline
