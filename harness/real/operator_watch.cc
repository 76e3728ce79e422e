#include "harness/real/operator_watch.h"

#include <ATen/core/TensorBody.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace shardfuzz {
namespace {

constexpr std::size_t kPlaceBytes = 64;
constexpr std::size_t kOperatorBytes = 96;
constexpr char kReadsFreed[] = " reads freed storage";

// One thread's place and operator. The texts are fixed buffers with a zero at the end at all times,
// so that a signal handler may read them while they change.
struct Watched {
  int rank = -1;
  Recorder* recorder = nullptr;
  bool is_installed = false;
  bool has_reported = false;  // in the rank's current operation
  bool reads_freed = false;   // the operator that began last
  char place[kPlaceBytes] = "";
  const char* op = "";  // a name that lives as long as the process, or the copy
  char copied_op[kOperatorBytes] = "";
};

thread_local Watched watched;
// The thread whose operator began last: at most one rank runs at a time.
std::atomic<const Watched*> last_thread{nullptr};

void copy_text(char* to, std::size_t byte_count, std::string_view from) {
  const std::size_t count = std::min(from.size(), byte_count - 1);
  std::memcpy(to, from.data(), count);
  to[count] = '\0';
}

struct Shortage {
  std::int64_t storage_bytes, needed_bytes;
};

// What the tensor reaches beyond its storage. Nothing for tensors that have no memory of their own.
std::optional<Shortage> shortage_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->numel() == 0 || !impl->has_storage()) return std::nullopt;
  if (impl->key_set().has(c10::DispatchKey::Python) || impl->layout() != at::kStrided ||
      impl->is_meta()) {
    return std::nullopt;
  }
  const c10::IntArrayRef sizes = impl->sizes();
  const c10::IntArrayRef strides = impl->strides();
  std::int64_t last = impl->storage_offset();
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) last += (sizes[dim] - 1) * strides[dim];
  const std::int64_t needed = (last + 1) * static_cast<std::int64_t>(impl->itemsize());
  const auto held = static_cast<std::int64_t>(impl->unsafe_storage().nbytes());
  if (held >= needed) return std::nullopt;
  return Shortage{.storage_bytes = held, .needed_bytes = needed};
}

// Operators with tensors among their arguments that take only their form: shape, dtype, device,
// version or storage. Views are known by their schema and need no entry. Everything else in aten
// that has an input reads or writes its elements, or calls an operator that does.
constexpr std::array<std::string_view, 32> kFormOnly{"aten::empty_like",
                                                     "aten::zeros_like",
                                                     "aten::ones_like",
                                                     "aten::full_like",
                                                     "aten::rand_like",
                                                     "aten::randn_like",
                                                     "aten::new_empty",
                                                     "aten::new_empty_strided",
                                                     "aten::new_zeros",
                                                     "aten::new_ones",
                                                     "aten::new_full",
                                                     "aten::resize_",
                                                     "aten::resize_as_",
                                                     "aten::set_",
                                                     "aten::set_data",
                                                     "aten::data",
                                                     "aten::_unsafe_view",
                                                     "aten::is_pinned",
                                                     "aten::is_same_size",
                                                     "aten::is_set_to",
                                                     "aten::is_floating_point",
                                                     "aten::is_complex",
                                                     "aten::result_type",
                                                     "aten::requires_grad_",
                                                     "aten::retain_grad",
                                                     "aten::output_nr",
                                                     "aten::_version",
                                                     "aten::is_leaf",
                                                     "aten::record_stream",
                                                     "aten::_fw_primal",
                                                     "aten::_has_same_storage_numel",
                                                     "inductor::resize_storage_bytes_"};

bool reads_elements(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  if (std::find(kFormOnly.begin(), kFormOnly.end(), name) != kFormOnly.end()) return false;
  return std::none_of(schema.returns().begin(), schema.returns().end(),
                      [](const c10::Argument& result) {
                        return result.alias_info() != nullptr && !result.alias_info()->isWrite();
                      });
}

void report(const at::RecordFunction& function, const at::Tensor& tensor,
            const Shortage& shortage) {
  const std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema || !reads_elements(*schema))
    return;  // no schema: a Python function, its operators follow
  watched.has_reported = true;
  watched.reads_freed = true;
  watched.recorder->record(watched.rank, FreedRead{.op = schema->name(),
                                                   .storage_bytes = shortage.storage_bytes,
                                                   .needed_bytes = shortage.needed_bytes,
                                                   .shape = tensor.sizes().vec()});
}

void look_at(const at::RecordFunction& function, const c10::IValue& input) {
  if (input.isTensor()) {
    const at::Tensor& tensor = input.toTensor();
    if (const auto shortage = shortage_of(tensor)) report(function, tensor, *shortage);
  } else if (input.isTensorList() || input.isOptionalTensorList()) {
    for (const c10::IValue& element : input.toListRef()) {
      if (watched.has_reported) return;
      look_at(function, element);
    }
  }
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  // The names of aten's operators stay; those of autograd functions are built for each call.
  const char* name = function.name();
  if (std::strncmp(name, "aten::", 6) == 0) {
    watched.op = name;
  } else {
    copy_text(watched.copied_op, kOperatorBytes, name);
    watched.op = watched.copied_op;
  }
  watched.reads_freed = false;
  last_thread.store(&watched, std::memory_order_relaxed);
  if (watched.recorder == nullptr || watched.has_reported) return nullptr;
  for (const c10::IValue& input : function.inputs()) {
    look_at(function, input);
    if (watched.has_reported) break;
  }
  return nullptr;
}

}  // namespace

WatchedRank::WatchedRank(int rank, Recorder* recorder) {
  if (!watched.is_installed) {
    watched.is_installed = true;
    at::addThreadLocalCallback(at::RecordFunctionCallback(&on_operator)
                                   .needsInputs(true)
                                   .scopes({at::RecordScope::FUNCTION}));
  }
  watched.rank = rank;
  watched.recorder = recorder;
  set_watched_place(rank, -1, "init");
}

WatchedRank::~WatchedRank() {
  watched.recorder = nullptr;
  watched.rank = -1;
  copy_text(watched.place, kPlaceBytes, "");
}

void set_watched_place(int rank, int step, const std::string& phase) {
  std::string text = "rank " + std::to_string(rank);
  if (step >= 0) text += ", step " + std::to_string(step);
  copy_text(watched.place, kPlaceBytes, text + ", " + phase);
  watched.has_reported = false;
  // Nothing is freed before the first operation, and fully_shard runs many operators.
  at::enableRecordFunction(step >= 0);
}

std::size_t operator_words(char* text, std::size_t byte_count) noexcept {
  const Watched* thread = last_thread.load(std::memory_order_relaxed);
  std::size_t used = 0;
  const auto add = [&](const char* from, std::size_t limit) {
    for (std::size_t i = 0; i < limit && from[i] != '\0' && used < byte_count; ++i)
      text[used++] = from[i];
  };
  if (thread == nullptr) return 0;
  add(thread->place, kPlaceBytes);
  if (used > 0) add(", ", 2);
  add(thread->op, kOperatorBytes);
  if (thread->reads_freed) add(kReadsFreed, sizeof kReadsFreed);
  return used;
}

}  // namespace shardfuzz
