// The few tensor calls that the native target makes, straight to ATen's CPU kernels: the views and
// their checks, and storages that shrink and grow, are libtorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/native/comm.h"

namespace shardfuzz::native {

using Shape = std::vector<std::int64_t>;

at::Tensor empty(c10::IntArrayRef shape, c10::ScalarType dtype);
at::Tensor zeros(c10::IntArrayRef shape, c10::ScalarType dtype);
// torch.as_strided; raises c10::Error where the view reaches beyond the storage.
at::Tensor as_strided(const at::Tensor& tensor, c10::IntArrayRef shape, c10::IntArrayRef stride,
                      std::int64_t offset = 0);
// Contiguous tensors only: `length` rows of dim 0 from `start`.
at::Tensor rows_of(const at::Tensor& tensor, std::int64_t start, std::int64_t length);
// The same elements in another dtype (contiguous); the tensor itself where it has that dtype.
at::Tensor to_dtype(const at::Tensor& tensor, c10::ScalarType dtype);
// Contiguous tensors only: the same elements under another shape of as many elements.
at::Tensor view_as(const at::Tensor& tensor, c10::IntArrayRef shape);

// Contiguous tensors only: side by side along `dim`.
at::Tensor cat(const std::vector<at::Tensor>& parts, int dim);

// FSDP2's alloc_storage and free_storage (_fsdp_param.py): UntypedStorage.resize_.
void alloc_storage(const at::Tensor& tensor);
void free_storage(const at::Tensor& tensor);

Shape contiguous_stride(const Shape& shape);
std::int64_t numel_of(const Shape& shape);
std::string digest(const at::Tensor& tensor);   // contiguous tensors only
Buffer buffer_of(const at::Tensor& tensor);     // contiguous tensors only
const char* dtype_name(c10::ScalarType dtype);  // "bfloat16", as str(torch.dtype) says
std::string size_text(const Shape& shape);      // "torch.Size([1, 2])"

}  // namespace shardfuzz::native
