#include "harness/native/numbers.h"

#include <ATen/ATen.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstring>

#include "harness/base/check.h"

namespace shardfuzz::native {
namespace {

// A NaN whose payload says that it came from our padding; bfloat16 keeps the upper half.
constexpr std::uint32_t kTag32 = 0x7FE5A5A5U;
constexpr std::uint16_t kTag16 = 0x7FE5U;
constexpr std::uint16_t kHalfNan = 0x7E00U;

// Calls `use` with a null pointer of the element type.
template <typename Use>
void with_type(ScalarType dtype, Use use) {
  switch (dtype) {
    case ScalarType::Float: return use(static_cast<float*>(nullptr));
    case ScalarType::BFloat16: return use(static_cast<c10::BFloat16*>(nullptr));
    case ScalarType::Half: return use(static_cast<c10::Half*>(nullptr));
    default: SHARDFUZZ_CHECK(false, "no arithmetic on {}", c10::toString(dtype));
  }
}

at::Tensor tensor_of(void* data, ScalarType dtype, std::int64_t count) {
  return at::from_blob(data, {count}, at::TensorOptions().dtype(dtype));
}
at::Tensor tensor_of(const void* data, ScalarType dtype, std::int64_t count) {
  return tensor_of(const_cast<void*>(data), dtype, count);
}

// ATen gives a NaN other bits in a vector than in a scalar loop, so results with one are left to
// it. Where is no NaN, all roundings are the same. `to` has not been changed yet.
template <typename T>
bool has_nan(const T* data, std::int64_t count) {
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(data[i]);
    found |= value != value;
  }
  return found;
}

}  // namespace

void convert(void* to, ScalarType to_dtype, const void* from, ScalarType from_dtype,
             std::int64_t count) {
  if (count == 0) return;
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * c10::elementSize(to_dtype));
    return;
  }
  with_type(to_dtype, [&](auto* to_type) {
    using To = std::remove_pointer_t<decltype(to_type)>;
    with_type(from_dtype, [&](auto* from_type) {
      using From = std::remove_pointer_t<decltype(from_type)>;
      auto* out = static_cast<To*>(to);
      const auto* in = static_cast<const From*>(from);
      if (has_nan(in, count)) {
        tensor_of(to, to_dtype, count).copy_(tensor_of(from, from_dtype, count));
        return;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<To>(static_cast<float>(in[i]));
      }
    });
  });
}

void add(void* to, const void* from, ScalarType dtype, std::int64_t count, float alpha) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto* out = static_cast<T*>(to);
    const auto* in = static_cast<const T*>(from);
    if (has_nan(in, count) || has_nan(out, count)) {
      tensor_of(to, dtype, count).add_(tensor_of(from, dtype, count), alpha);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(static_cast<float>(out[i]) + alpha * static_cast<float>(in[i]));
    }
  });
}

void multiply(void* to, ScalarType dtype, std::int64_t count, double factor) {
  const auto narrow = static_cast<float>(factor);
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto* out = static_cast<T*>(to);
    if (has_nan(out, count)) {
      tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).mul(factor));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(static_cast<float>(out[i]) * narrow);
    }
  });
}

void divide(void* to, ScalarType dtype, std::int64_t count, double factor) {
  const auto narrow = static_cast<float>(factor);
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto* out = static_cast<T*>(to);
    if (has_nan(out, count)) {
      tensor_of(to, dtype, count).copy_(tensor_of(to, dtype, count).div(factor));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(static_cast<float>(out[i]) / narrow);
    }
  });
}

std::int64_t count_nans(const void* data, ScalarType dtype, std::int64_t count) {
  std::int64_t found = 0;
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* in = static_cast<const T*>(data);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(in[i]);
      found += value == value ? 0 : 1;
    }
  });
  return found;
}

double value_at(const void* data, ScalarType dtype, std::int64_t i) {
  double value = 0;
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    value = static_cast<float>(static_cast<const T*>(data)[i]);
  });
  return value;
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
