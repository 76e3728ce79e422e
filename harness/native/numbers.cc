#include "harness/native/numbers.h"

#include <ATen/ATen.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "harness/base/check.h"

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

// Calls `use` with an object of the element type.
template <typename Use>
auto with_type(ScalarType dtype, Use use) {
  switch (dtype) {
    case ScalarType::Float: return use(Float{});
    case ScalarType::BFloat16: return use(BFloat16{});
    case ScalarType::Half: return use(Half{});
    default: SHARDFUZZ_CHECK(false, "no arithmetic on {}", c10::toString(dtype));
  }
}

at::Tensor tensor_of(void* data, ScalarType dtype, std::int64_t count) {
  return at::from_blob(data, {count}, at::TensorOptions().dtype(dtype));
}
at::Tensor tensor_of(const void* data, ScalarType dtype, std::int64_t count) {
  return tensor_of(const_cast<void*>(data), dtype, count);
}

// ATen gives a NaN other bits in a vector than in a scalar loop, so arrays with one, or with an
// infinity, which may become one, are left to it. Of finite numbers all roundings are the same. (In
// C++, unlike in Python, mul_ with a number rounds that to the tensor's dtype first; mul does not.)
template <typename Type>
bool is_special(Type, const void* data, std::int64_t count) {
  const auto* bits = static_cast<const typename Type::Bits*>(data);
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i) found |= !Type::is_finite(bits[i]);
  return found;
}

// to[i] = f(to[i]), but for arrays that `by_aten` changes.
template <typename Change, typename ByAten>
void change(void* to, ScalarType dtype, std::int64_t count, Change f, ByAten by_aten) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    if (is_special(type, to, count)) return by_aten();
    auto* out = static_cast<typename Type::Bits*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = Type::store(f(Type::load(out[i])));
  });
}

}  // namespace

void convert(void* to, ScalarType to_dtype, const void* from, ScalarType from_dtype,
             std::int64_t count) {
  if (count == 0) return;
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * c10::elementSize(to_dtype));
    return;
  }
  with_type(from_dtype, [&](auto from_type) {
    using From = decltype(from_type);
    if (is_special(from_type, from, count)) {
      tensor_of(to, to_dtype, count).copy_(tensor_of(from, from_dtype, count));
      return;
    }
    with_type(to_dtype, [&](auto to_type) {
      using To = decltype(to_type);
      auto* out = static_cast<typename To::Bits*>(to);
      const auto* in = static_cast<const typename From::Bits*>(from);
      for (std::int64_t i = 0; i < count; ++i) out[i] = To::store(From::load(in[i]));
    });
  });
}

void add(void* to, const void* from, ScalarType dtype, std::int64_t count, float alpha) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    if (is_special(type, from, count) || is_special(type, to, count)) {
      tensor_of(to, dtype, count).add_(tensor_of(from, dtype, count), alpha);
      return;
    }
    auto* out = static_cast<typename Type::Bits*>(to);
    const auto* in = static_cast<const typename Type::Bits*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = Type::store(Type::load(out[i]) + alpha * Type::load(in[i]));
    }
  });
}

void multiply(void* to, ScalarType dtype, std::int64_t count, double factor) {
  const auto narrow = static_cast<float>(factor);
  change(
      to, dtype, count, [narrow](float value) { return value * narrow; },
      [&] { tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).mul(factor)); });
}

void divide(void* to, ScalarType dtype, std::int64_t count, double factor) {
  const auto narrow = static_cast<float>(factor);
  change(
      to, dtype, count, [narrow](float value) { return value / narrow; },
      [&] { tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).div(factor)); });
}

void add_to_doubles(double* total, const void* from, ScalarType dtype, std::int64_t count,
                    bool absolute) {
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
  return with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* in = static_cast<const typename Type::Bits*>(data);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < count; ++i) found += Type::is_nan(in[i]) ? 1 : 0;
    return found;
  });
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
