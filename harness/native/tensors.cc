#include "harness/native/tensors.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "harness/base/check.h"
#include "harness/base/hash.h"
#include "harness/native/numbers.h"

namespace shardfuzz::native {

at::Tensor empty(c10::IntArrayRef shape, c10::ScalarType dtype) {
  return at::cpu::empty(shape, at::TensorOptions().dtype(dtype));
}

at::Tensor zeros(c10::IntArrayRef shape, c10::ScalarType dtype) {
  at::Tensor made = empty(shape, dtype);
  if (made.nbytes() > 0) std::memset(made.mutable_data_ptr(), 0, made.nbytes());
  return made;
}

at::Tensor as_strided(const at::Tensor& tensor, c10::IntArrayRef shape, c10::IntArrayRef stride,
                      std::int64_t offset) {
  return at::cpu::as_strided(tensor, shape, stride, offset);
}

at::Tensor rows_of(const at::Tensor& tensor, std::int64_t start, std::int64_t length) {
  Shape shape = tensor.sizes().vec();
  shape[0] = length;
  return as_strided(tensor, shape, tensor.strides(),
                    tensor.storage_offset() + start * tensor.stride(0));
}

at::Tensor to_dtype(const at::Tensor& tensor, c10::ScalarType dtype) {
  if (tensor.scalar_type() == dtype) return tensor;
  SHARDFUZZ_CHECK(tensor.is_contiguous(), "to_dtype of a strided tensor");
  at::Tensor made = empty(tensor.sizes(), dtype);
  convert(made.mutable_data_ptr(), dtype, tensor.const_data_ptr(), tensor.scalar_type(),
          tensor.numel());
  return made;
}

at::Tensor view_as(const at::Tensor& tensor, c10::IntArrayRef shape) {
  return as_strided(tensor, shape, contiguous_stride(shape.vec()), tensor.storage_offset());
}

namespace {

void resize(const at::Tensor& tensor, std::size_t byte_count) {
  const c10::Storage& storage = tensor.storage();
  if (storage.nbytes() != byte_count) {
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), byte_count);
  }
}

}  // namespace

at::Tensor cat(const std::vector<at::Tensor>& parts, int dim) {
  Shape shape = parts[0].sizes().vec();
  const auto at = static_cast<std::size_t>(dim);
  shape[at] = 0;
  for (const at::Tensor& part : parts) shape[at] += part.size(dim);
  at::Tensor made = empty(shape, parts[0].scalar_type());
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(made.itemsize());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d < at) outer *= shape[d];
    if (d > at) inner *= shape[d];
  }
  auto* to = static_cast<char*>(made.data_ptr());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const at::Tensor& part : parts) {
      const auto bytes = static_cast<std::size_t>(part.size(dim) * inner);
      if (bytes == 0) continue;
      std::memcpy(
          to, static_cast<const char*>(part.const_data_ptr()) + static_cast<std::size_t>(o) * bytes,
          bytes);
      to += bytes;
    }
  }
  return made;
}

void alloc_storage(const at::Tensor& tensor) { resize(tensor, tensor.nbytes()); }
void free_storage(const at::Tensor& tensor) { resize(tensor, 0); }

Shape contiguous_stride(const Shape& shape) {
  Shape stride(shape.size(), 1);
  for (std::size_t dim = shape.size(); dim > 1; --dim) {
    stride[dim - 2] = stride[dim - 1] * std::max<std::int64_t>(shape[dim - 1], 1);
  }
  return stride;
}

std::int64_t numel_of(const Shape& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  return numel;
}

std::string digest(const at::Tensor& tensor) {
  SHARDFUZZ_CHECK(tensor.is_contiguous(), "digest of a strided tensor");
  const auto byte_count = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
  return hex64(tensor_digest(byte_count == 0 ? nullptr : tensor.const_data_ptr(), byte_count));
}

Buffer buffer_of(const at::Tensor& tensor) {
  SHARDFUZZ_CHECK(tensor.is_contiguous(), "a strided tensor in a collective");
  return {.data = tensor.numel() == 0 ? nullptr : tensor.data_ptr(),
          .count = tensor.numel(),
          .dtype = tensor.scalar_type(),
          .owner = tensor.storage()};
}

const char* dtype_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float: return "float32";
    case c10::ScalarType::BFloat16: return "bfloat16";
    case c10::ScalarType::Half: return "float16";
    case c10::ScalarType::Byte: return "uint8";
    case c10::ScalarType::Float8_e4m3fn: return "float8_e4m3fn";
    default: SHARDFUZZ_CHECK(false, "no name for dtype {}", c10::toString(dtype));
  }
}

std::string size_text(const Shape& shape) {
  return fmt::format("torch.Size([{}])", fmt::join(shape, ", "));
}

}  // namespace shardfuzz::native
