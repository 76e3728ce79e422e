#include "harness/case/case.h"

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

int size_of_dim(const Mesh& mesh, const char* name) {
  for (std::size_t i = 0; i < mesh.dim_names.size() && i < mesh.shape.size(); ++i) {
    if (mesh.dim_names[i] == name) return mesh.shape[i];
  }
  return 1;
}

}  // namespace

int Mesh::world_size() const {
  int product = 1;
  for (const int size : shape) product *= size;
  return product;
}

int Mesh::shard_size() const { return size_of_dim(*this, "shard"); }

int Mesh::replicate_size() const { return size_of_dim(*this, "replicate"); }

std::vector<Operation> operations_of(const Case& c) {
  if (!c.operations.empty()) return c.operations;
  return {{.kind = OpKind::kForward, .group = {}, .param = {}},
          {.kind = OpKind::kBackward, .group = {}, .param = {}},
          {.kind = OpKind::kStep, .group = {}, .param = {}},
          {.kind = OpKind::kZeroGrad, .group = {}, .param = {}}};
}

int element_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return 4;
    case DType::kBFloat16:
    case DType::kFloat16: return 2;
    case DType::kFloat8E4M3:
    case DType::kUInt8: return 1;
  }
  SHARDFUZZ_CHECK(false, "dtype {} has no size", static_cast<int>(dtype));
}

}  // namespace shardfuzz
