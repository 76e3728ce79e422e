// SHARDFUZZ_VECTOR_CLONES: put before a function whose loops are worth wider vectors.
//
// GCC makes a version of it for each instruction set and chooses one when the program starts, so a
// build runs on any x86-64 machine. The versions give the same bits where the loop is on integers,
// or rounds once an element and is compiled with -ffp-contract=off. Elsewhere, and under
// AddressSanitizer (which is not there yet when the choice is made), it stands for nothing.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SHARDFUZZ_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define SHARDFUZZ_VECTOR_CLONES
#endif
