// Random small cases and programs that are legal by the abstract model (parameter_life.h).
#pragma once

#include <cstdint>
#include <string>

#include "harness/case/case.h"

namespace shardfuzz {

inline constexpr int kLongestProgram = 24;

// 1 to 4 ranks, HSDP included; 1 to 3 groups of 1 to 3 parameters (the root of several may have
// none), plain and torchao_moe_fp8:padded, fewer rows than ranks up to a few more; every policy,
// mixed precision, frozen parameters, both optimizers, schedules and deliveries. The program is one
// step of up to kLongestProgram operations, sometimes run twice where that is legal too. The case
// is valid, modelled, and runs on the native target.
Case life_case(std::uint64_t seed);

// The same with any operations at all in any order, most of them not legal; may be invalid.
Case wild_case(std::uint64_t seed);

// Empty: every operation of the case's program is legal where it comes. Else the first reason.
std::string why_not_legal(const Case& c);

// True: the case format has to refuse the program.
bool is_refused_program(const Case& c);

}  // namespace shardfuzz
