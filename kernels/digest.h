// The digest of a tensor where it lies: the value of tensor_digest (harness/base/hash.h, which is
// the CPU twin) without a copy to the host.
//
// A sum of mixed words has no order, so the value does not depend on the launch. Any alignment.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardfuzz::kernels {

// *digest: device memory; valid when the stream is past this call.
cudaError_t digest(const void* data, std::uint64_t bytes, std::uint64_t* digest,
                   cudaStream_t stream);

}  // namespace shardfuzz::kernels
