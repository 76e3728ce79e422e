// Arithmetic on raw arrays of fp32, bf16 and fp16, with the roundings of ATen's CPU kernels: each
// operation is done in float and rounded to nearest even on the way back. That every result is the
// one that ATen gives is tested (numbers_test.cc) and held by `shardfuzz twin`.
//
// Refuses (checked): other dtypes, but for `convert` of a dtype into itself, which copies bytes.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace shardfuzz::native {

using c10::ScalarType;

// to[i] = from[i] in another dtype.
void convert(void* to, ScalarType to_dtype, const void* from, ScalarType from_dtype,
             std::int64_t count);
// to[i] = to[i] + alpha * from[i], rounded once. alpha is a power of two or 1.
void add(void* to, const void* from, ScalarType dtype, std::int64_t count, float alpha = 1.0F);
// to[i] = to[i] * factor (also from to[i] = from[i] * factor with convert's rules for one dtype).
void multiply(void* to, ScalarType dtype, std::int64_t count, double factor);
void divide(void* to, ScalarType dtype, std::int64_t count, double factor);
// total[i] += from[i], or its magnitude.
void add_to_doubles(double* total, const void* from, ScalarType dtype, std::int64_t count,
                    bool absolute);
// NaNs among the elements; 0 for dtypes without.
std::int64_t count_nans(const void* data, ScalarType dtype, std::int64_t count);
// Element i as a double.
double value_at(const void* data, ScalarType dtype, std::int64_t i);
// Writes quiet NaNs with a payload that no arithmetic gives: padding that must reach no result.
void write_tags(void* data, ScalarType dtype, std::int64_t count);

}  // namespace shardfuzz::native
