#include "harness/native/numbers.h"

#include <ATen/ATen.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "harness/base/check.h"
#include "harness/base/vector_clones.h"

namespace shardfuzz::native {
namespace {

// A NaN whose payload says that it came from our padding; bfloat16 keeps the upper half.
constexpr std::uint32_t kTag32 = 0x7FE5A5A5U;
constexpr std::uint16_t kTag16 = 0x7FE5U;
constexpr std::uint16_t kHalfNan = 0x7E00U;

// Elements of each dtype as the loops below read and write them: without a branch, so that they
// vectorise. store() is not asked for NaNs.
struct Float {
  using Bits = std::uint32_t;
  static float load(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits store(float value) { return std::bit_cast<Bits>(value); }
  static bool is_nan(Bits bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }
  static bool is_finite(Bits bits) { return (bits & 0x7F800000U) != 0x7F800000U; }
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static float load(Bits bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static Bits store(float value) {  // to nearest even
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Bits>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  static bool is_nan(Bits bits) { return (bits & 0x7FFFU) > 0x7F80U; }
  static bool is_finite(Bits bits) { return (bits & 0x7F80U) != 0x7F80U; }
};
struct Half {
  using Bits = std::uint16_t;
  static float load(Bits bits) { return c10::detail::fp16_ieee_to_fp32_value(bits); }
  static Bits store(float value) { return c10::detail::fp16_ieee_from_fp32_value(value); }
  static bool is_nan(Bits bits) { return (bits & 0x7FFFU) > 0x7C00U; }
  static bool is_finite(Bits bits) { return (bits & 0x7C00U) != 0x7C00U; }
};

bool has_arithmetic(ScalarType dtype) {
  return dtype == ScalarType::Float || dtype == ScalarType::BFloat16 || dtype == ScalarType::Half;
}

// Into the version of a loop for each instruction set: a function of its own has none.
#define SHARDFUZZ_INLINE __attribute__((always_inline))

// Calls `use` with an object of the element type, which has arithmetic.
template <typename Use>
SHARDFUZZ_INLINE inline auto with_type(ScalarType dtype, Use use) {
  switch (dtype) {
    case ScalarType::Float: return use(Float{});
    case ScalarType::BFloat16: return use(BFloat16{});
    default: return use(Half{});
  }
}

at::Tensor tensor_of(void* data, ScalarType dtype, std::int64_t count) {
  return at::from_blob(data, {count}, at::TensorOptions().dtype(dtype));
}
at::Tensor tensor_of(const void* data, ScalarType dtype, std::int64_t count) {
  return tensor_of(const_cast<void*>(data), dtype, count);
}

SHARDFUZZ_VECTOR_CLONES
bool all_finite(const void* data, ScalarType dtype, std::int64_t count) {
  return with_type(dtype, [=](auto type) SHARDFUZZ_INLINE {
    using Type = decltype(type);
    const auto* bits = static_cast<const typename Type::Bits*>(data);
    typename Type::Bits found = 0;  // as wide as an element, so that it vectorises
    for (std::int64_t i = 0; i < count; ++i) found |= Type::is_finite(bits[i]) ? 0 : 1;
    return found == 0;
  });
}

SHARDFUZZ_VECTOR_CLONES
void convert_finite(void* to, ScalarType to_dtype, const void* from, ScalarType from_dtype,
                    std::int64_t count) {
  with_type(from_dtype, [=](auto from_type) SHARDFUZZ_INLINE {
    using From = decltype(from_type);
    with_type(to_dtype, [=](auto to_type) SHARDFUZZ_INLINE {
      using To = decltype(to_type);
      auto* out = static_cast<typename To::Bits*>(to);
      const auto* in = static_cast<const typename From::Bits*>(from);
      for (std::int64_t i = 0; i < count; ++i) out[i] = To::store(From::load(in[i]));
    });
  });
}

SHARDFUZZ_VECTOR_CLONES
void add_finite(void* to, const void* from, ScalarType dtype, std::int64_t count, float alpha) {
  with_type(dtype, [=](auto type) SHARDFUZZ_INLINE {
    using Type = decltype(type);
    auto* out = static_cast<typename Type::Bits*>(to);
    const auto* in = static_cast<const typename Type::Bits*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = Type::store(Type::load(out[i]) + alpha * Type::load(in[i]));
    }
  });
}

SHARDFUZZ_VECTOR_CLONES
void multiply_finite(void* to, ScalarType dtype, std::int64_t count, float factor) {
  with_type(dtype, [=](auto type) SHARDFUZZ_INLINE {
    using Type = decltype(type);
    auto* out = static_cast<typename Type::Bits*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = Type::store(Type::load(out[i]) * factor);
  });
}

SHARDFUZZ_VECTOR_CLONES
void divide_finite(void* to, ScalarType dtype, std::int64_t count, float factor) {
  with_type(dtype, [=](auto type) SHARDFUZZ_INLINE {
    using Type = decltype(type);
    auto* out = static_cast<typename Type::Bits*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = Type::store(Type::load(out[i]) / factor);
  });
}

SHARDFUZZ_VECTOR_CLONES
std::int64_t count_nans_in(const void* data, ScalarType dtype, std::int64_t count) {
  return with_type(dtype, [=](auto type) SHARDFUZZ_INLINE {
    using Type = decltype(type);
    const auto* in = static_cast<const typename Type::Bits*>(data);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < count; ++i) found += Type::is_nan(in[i]) ? 1 : 0;
    return found;
  });
}

// ATen gives a NaN other bits in a vector than in a scalar loop, so arrays with one, or with an
// infinity, which may become one, are left to it. Of finite numbers all roundings are the same. (In
// C++, unlike in Python, mul_ with a number rounds that to the tensor's dtype first; mul does not.)
bool is_special(const void* data, ScalarType dtype, std::int64_t count) {
  SHARDFUZZ_CHECK(has_arithmetic(dtype), "no arithmetic on {}", c10::toString(dtype));
  return !all_finite(data, dtype, count);
}

}  // namespace

void convert(void* to, ScalarType to_dtype, const void* from, ScalarType from_dtype,
             std::int64_t count) {
  if (count == 0) return;
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * c10::elementSize(to_dtype));
    return;
  }
  SHARDFUZZ_CHECK(has_arithmetic(to_dtype), "no arithmetic on {}", c10::toString(to_dtype));
  if (is_special(from, from_dtype, count)) {
    tensor_of(to, to_dtype, count).copy_(tensor_of(from, from_dtype, count));
    return;
  }
  convert_finite(to, to_dtype, from, from_dtype, count);
}

void add(void* to, const void* from, ScalarType dtype, std::int64_t count, float alpha) {
  if (is_special(from, dtype, count) || is_special(to, dtype, count)) {
    tensor_of(to, dtype, count).add_(tensor_of(from, dtype, count), alpha);
    return;
  }
  add_finite(to, from, dtype, count, alpha);
}

void multiply(void* to, ScalarType dtype, std::int64_t count, double factor) {
  if (is_special(to, dtype, count)) {
    tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).mul(factor));
    return;
  }
  multiply_finite(to, dtype, count, static_cast<float>(factor));
}

void divide(void* to, ScalarType dtype, std::int64_t count, double factor) {
  if (is_special(to, dtype, count)) {
    tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).div(factor));
    return;
  }
  divide_finite(to, dtype, count, static_cast<float>(factor));
}

void add_to_doubles(double* total, const void* from, ScalarType dtype, std::int64_t count,
                    bool absolute) {
  SHARDFUZZ_CHECK(has_arithmetic(dtype), "no arithmetic on {}", c10::toString(dtype));
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* in = static_cast<const typename Type::Bits*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = Type::load(in[i]);
      total[i] += absolute ? std::abs(value) : value;
    }
  });
}

std::int64_t count_nans(const void* data, ScalarType dtype, std::int64_t count) {
  SHARDFUZZ_CHECK(has_arithmetic(dtype), "no arithmetic on {}", c10::toString(dtype));
  return count_nans_in(data, dtype, count);
}

double value_at(const void* data, ScalarType dtype, std::int64_t i) {
  return with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    return static_cast<double>(Type::load(static_cast<const typename Type::Bits*>(data)[i]));
  });
}

void write_tags(void* data, ScalarType dtype, std::int64_t count) {
  if (dtype == ScalarType::Float) {
    auto* words = static_cast<std::uint32_t*>(data);
    for (std::int64_t i = 0; i < count; ++i) words[i] = kTag32;
    return;
  }
  SHARDFUZZ_CHECK(dtype == ScalarType::BFloat16 || dtype == ScalarType::Half, "no tag for {}",
                  c10::toString(dtype));
  auto* words = static_cast<std::uint16_t*>(data);
  const std::uint16_t tag = dtype == ScalarType::BFloat16 ? kTag16 : kHalfNan;
  for (std::int64_t i = 0; i < count; ++i) words[i] = tag;
}

}  // namespace shardfuzz::native
