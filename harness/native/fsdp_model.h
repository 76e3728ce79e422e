// FsdpModel: fully_shard on a root module and the modules that it calls, on one rank.
//
// Follows torch 2.11 _fsdp_state.py (FSDPState: lazy init, hooks around forward and backward, the
// callback at the end of backward) and _fully_shard.py (FSDPModule's setters, unshard, reshard).
// The order in which autograd runs the hooks is not found by running autograd but written down in
// program.cc, with its reason. State 0 is the root's; a state without parameters has no group.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/native/fsdp_param_group.h"

namespace shardfuzz::native {

// The full original data of the case's parameters, made once for all ranks.
class FullData {
 public:
  explicit FullData(const Case& c) : case_(c) {}
  // Of the parameter itself, or of the one that it is tied to.
  const at::Tensor& of(const GroupSpec& group, const ParamSpec& param);

 private:
  const Case& case_;
  std::map<std::string, at::Tensor> by_key_;
};

class FsdpModel {
 public:
  // fully_shard on each nested module, then on the root. Raises PyError as that does.
  FsdpModel(const Case& c, FullData& data, Comm* comm, Observer* observer, const Planted& planted);

  [[nodiscard]] FsdpParamGroup* group(std::size_t state) { return groups_[state].get(); }
  // The FSDPParam that serves this name: its own, or that of the earlier name it shares.
  [[nodiscard]] FsdpParam* find(std::size_t state, const std::string& param) const;
  // In the order in which the rank program watches them.
  [[nodiscard]] const std::vector<FsdpParam*>& watched() const { return watched_; }

  void pre_forward(std::size_t state);
  void post_forward(std::size_t state);
  void pre_backward(std::size_t state);
  void post_backward(std::size_t state);
  void root_post_backward_final_callback();

  void unshard(std::size_t state, bool async_op);
  void wait_unshard(std::size_t state);
  void reshard(std::size_t state);
  // The hooks before state_dict() and load_state_dict(), there since a group's lazy init.
  void to_sharded_for_state_dict();

  std::optional<std::size_t> forward_prefetch, backward_prefetch;  // the root's, explicit
  bool is_last_backward = true;

 private:
  void lazy_init();
  void fully_shard(const Case& c, std::size_t state, FullData& data, const Planted& planted);

  Comm* comm_;
  Observer* observer_;
  CommContext context_;
  std::vector<std::unique_ptr<FsdpParamGroup>> groups_;
  std::vector<bool> auto_reshard_;
  std::map<std::pair<std::size_t, std::string>, FsdpParam*> by_name_;
  std::vector<FsdpParam*> watched_;
  bool is_initialized_ = false;
};

}  // namespace shardfuzz::native
