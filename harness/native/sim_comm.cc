#include "harness/native/sim_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/base/check.h"
#include "harness/base/hash.h"
#include "harness/native/numbers.h"

namespace shardfuzz::native {
namespace {

std::string digest_of(const Buffer& buffer) {
  const std::uint64_t digest = tensor_digest(buffer.data, static_cast<std::size_t>(buffer.bytes()));
  return hex64(combine(0, digest));  // SimBackend combines the digests of a list of tensors
}

// As SimBackend's poison: quiet NaNs, 0x5A for what has none.
void poison(char* data, std::int64_t byte_count, ScalarType dtype) {
  const auto fill = [&](std::uint32_t word, std::int64_t width) {
    for (std::int64_t at = 0; at + width <= byte_count; at += width) {
      std::memcpy(data + at, &word, static_cast<std::size_t>(width));
    }
  };
  switch (dtype) {
    case ScalarType::Float: return fill(0x7FC00000U, 4);
    case ScalarType::BFloat16: return fill(0x7FC0U, 2);
    case ScalarType::Half: return fill(0x7E00U, 2);
    case ScalarType::Float8_e4m3fn: return fill(0x7FU, 1);
    default: return fill(0x5AU, 1);
  }
}

class BufferTransfer : public Transfer {
 public:
  BufferTransfer(Buffer output, Buffer input, int member)
      : output_(std::move(output)), input_(std::move(input)), member_(member) {}

  std::string input_digest() const override { return digest_of(input_); }
  std::string output_digest() const override { return digest_of(output_); }
  void take_input() override {
    if (!taken_.empty() || input_.count == 0) return;
    const auto* from = static_cast<const char*>(input_.data);
    taken_.assign(from, from + input_.bytes());
  }
  void poison_output() override {
    poison(static_cast<char*>(output_.data), output_.bytes(), output_.dtype);
  }
  void release_buffers() override { input_.owner = output_.owner = {}; }

 protected:
  [[nodiscard]] const char* input() const {
    return taken_.empty() ? static_cast<const char*>(input_.data) : taken_.data();
  }
  static const char* input_of(const Transfer* transfer) {
    return static_cast<const BufferTransfer*>(transfer)->input();
  }

  Buffer output_, input_;
  int member_;

 private:
  std::vector<char> taken_;
};

class Gather : public BufferTransfer {
 public:
  using BufferTransfer::BufferTransfer;

  void give_output(const std::vector<const Transfer*>& members) override {
    auto* to = static_cast<char*>(output_.data);
    const auto slot_bytes = static_cast<std::size_t>(input_.bytes());
    for (const Transfer* member : members) {
      if (const char* from = input_of(member); from != to) std::memcpy(to, from, slot_bytes);
      to += slot_bytes;
    }
  }
};

// The input lies in the output.
class GatherInPlace : public Gather {
 public:
  using Gather::Gather;

  // But for the caller's own slot, which FSDP2 fills itself (hub.h, H4).
  void poison_output() override {
    auto* data = static_cast<char*>(output_.data);
    const std::int64_t from = input_.bytes() * member_, to = from + input_.bytes();
    poison(data, std::min(from, output_.bytes()), output_.dtype);
    if (to < output_.bytes()) poison(data + to, output_.bytes() - to, output_.dtype);
  }
};

class Reduce : public BufferTransfer {
 public:
  Reduce(Buffer output, Buffer input, int member, std::int64_t offset, ReduceKind kind)
      : BufferTransfer(std::move(output), std::move(input), member), offset_(offset), kind_(kind) {}

  void give_output(const std::vector<const Transfer*>& members) override {
    const std::int64_t count = output_.count;
    const auto bytes = static_cast<std::size_t>(output_.bytes());
    const double factor =
        kind_ == ReduceKind::kAvg ? 1.0 / static_cast<double>(members.size()) : 1.0;
    std::vector<char> sum(bytes), part(bytes);
    for (std::size_t i = 0; i < members.size(); ++i) {
      std::vector<char>& into = i == 0 ? sum : part;
      std::memcpy(into.data(), input_of(members[i]) + offset_, bytes);
      if (factor != 1.0) multiply(into.data(), output_.dtype, count, factor);
      if (i > 0) add(sum.data(), part.data(), output_.dtype, count);
    }
    std::memcpy(output_.data, sum.data(), bytes);
  }

 private:
  std::int64_t offset_;  // bytes into every input at which this rank's part begins
  ReduceKind kind_;
};

class SimWork : public Work {
 public:
  SimWork(Hub* hub, Hub::Ticket ticket) : hub_(hub), ticket_(std::move(ticket)) {}
  void wait() override { hub_->wait(ticket_); }

 private:
  Hub* hub_;
  Hub::Ticket ticket_;
};

Call call_of(const char* kind, const Buffer& counted) {
  return {.kind = kind,
          .dtype = c10::toString(counted.dtype),
          .count = counted.count,
          .bytes = counted.bytes()};
}

int member_of(const ProcessGroupId& group, int rank) {
  const auto found = std::find(group.members.begin(), group.members.end(), rank);
  SHARDFUZZ_CHECK(found != group.members.end(), "rank {} is not in group {}", rank, group.name);
  return static_cast<int>(found - group.members.begin());
}

const char* name_of(ReduceKind kind) { return kind == ReduceKind::kAvg ? "avg" : "sum"; }

}  // namespace

SimComm::SimComm(const Mesh& mesh, int rank, Hub* hub, BufferWatch* watch)
    : rank_(rank),
      shard_size_(mesh.shard_size()),
      has_replicas_(mesh.shape.size() > 1),
      hub_(hub),
      watch_(watch) {
  const int row = rank / shard_size_, column = rank % shard_size_;
  shard_ = {.key = "shard", .name = "shard"};
  for (int i = 0; i < shard_size_; ++i) shard_.members.push_back(row * shard_size_ + i);
  replicate_ = {.key = "replicate", .name = "replicate"};
  for (int i = 0; i < mesh.world_size() / shard_size_; ++i) {
    replicate_.members.push_back(i * shard_size_ + column);
  }
}

const ProcessGroupId& SimComm::group_of(const GroupName& group) const {
  if (group.kind == GroupKind::kShard) return shard_;
  if (group.kind == GroupKind::kReplicate) return replicate_;
  ProcessGroupId& id = post_forward_[group.owner];
  if (!id.members.empty()) return id;
  id = {.key = fmt::format("post_forward/{}", group.owner), .name = "post_forward"};
  // The mesh's ranks in order, cut into runs (_fsdp_init._get_post_forward_mesh_info).
  const int first = rank_ / group.ranks * group.ranks;
  for (int i = 0; i < group.ranks; ++i) id.members.push_back(first + i);
  return id;
}

int SimComm::size(const GroupName& group) const {
  return static_cast<int>(group_of(group).members.size());
}

int SimComm::rank(const GroupName& group) const { return member_of(group_of(group), rank_); }

std::unique_ptr<Work> SimComm::launch(const GroupName& group, Call call,
                                      std::unique_ptr<Transfer> transfer,
                                      const WatchedBuffers& buffers) {
  const ProcessGroupId& id = group_of(group);
  Hub::Ticket ticket = hub_->launch(id, member_of(id, rank_), std::move(call), std::move(transfer));
  if (ticket.slot) {
    if (buffers.reduce_input != nullptr) {
      watch_->add(BufferRole::kReduceInput, id.name, ticket.sequence, buffers.reduce_input->owner);
    }
    watch_->add(buffers.role, id.name, ticket.sequence, buffers.output->owner);
    watch_->note_launch();
  }
  return std::make_unique<SimWork>(hub_, std::move(ticket));
}

std::unique_ptr<Work> SimComm::all_gather(const GroupName& group, Buffer output, Buffer input) {
  return launch(group, call_of("all_gather", input),
                std::make_unique<GatherInPlace>(output, input, rank(group)),
                {.role = BufferRole::kGatherOutput, .output = &output});
}

std::unique_ptr<Work> SimComm::all_gather_coalesced(const GroupName& group, Buffer output,
                                                    Buffer input) {
  return launch(group, call_of("all_gather", input),
                std::make_unique<Gather>(output, input, rank(group)),
                {.role = BufferRole::kGatherOutput, .output = &output});
}

std::unique_ptr<Work> SimComm::reduce_scatter(Buffer output, Buffer input, ReduceKind kind) {
  Call call = call_of("reduce_scatter", output);
  call.reduce = name_of(kind);
  const int member = rank(kShardGroup);
  return launch(kShardGroup, std::move(call),
                std::make_unique<Reduce>(output, input, member, output.bytes() * member, kind),
                {.role = BufferRole::kReduceOutput, .output = &output, .reduce_input = &input});
}

std::unique_ptr<Work> SimComm::all_reduce(Buffer buffer, ReduceKind kind) {
  Call call = call_of("all_reduce", buffer);
  call.reduce = name_of(kind);
  return launch(kReplicateGroup, std::move(call),
                std::make_unique<Reduce>(buffer, buffer, rank(kReplicateGroup), 0, kind),
                {.role = BufferRole::kReduceOutput, .output = &buffer});
}

}  // namespace shardfuzz::native
