// ParameterLife: an abstract model of what happens to the parameters of a sharded model, operation
// by operation. It shares nothing with harness/layout, harness/native or harness/real: it knows the
// case and FSDP2's documented behaviour, and was checked line by line against torch 2.11's
// _fully_shard (_fsdp_param_group.py, _fsdp_param.py, _fsdp_state.py, _fsdp_collectives.py).
//
// For each operation it tells whether the order is legal (why_not) and, for each parameter, what
// every rank must be seen to do, in order: sends its shard, holds the gathered one, lets it go;
// then what is held, whether there is a gradient, which value the shard has. A value is a number:
// two equal numbers are equal bytes, a new number is another value.
//
// Legal orders are wider than the generator's (fuzz/generate_operations.cc): a group may be
// resharded, unsharded, saved between forward and backward, gradients of several kinds of backward
// may add up, in any order that FSDP2 defines. Not legal is
//   - what the case format refuses (is_refused);
//   - what changes a value while a gathered copy of the old one is kept or under way (the copy is
//     used on: stale by construction), or between a forward and its backward;
//   - a frozen flag that changes while a group is gathered or a loss waits (requires_grad is
//   carried
//     over when a group is next gathered, and the graph is made already);
//   - what FSDP2 cannot do and does not say; each is named in why_not with its source.
// Refused: modules that some ranks do not use, tied parameters, Shard(d > 0), int reshard of a
// subclass (is_modelled).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/case/case.h"

namespace shardfuzz {

// What one rank does with one parameter, in order; the same on all ranks.
struct Deed {
  enum class Kind { kSends, kGathers, kFrees } kind = Kind::kSends;
  int value = 0;                        // of the parameter that is sent or held
  bool from_post_forward = false;       // kSends: what an int reshard kept
  bool requires_grad = true;            // kGathers: of the unsharded parameter at that time
  std::int64_t post_forward_bytes = 0;  // kFrees: kept of it
  bool operator==(const Deed&) const = default;
};

struct ParamState {
  std::vector<Deed> deeds;    // of the last operation
  bool trainable = true;      // requires_grad of the sharded parameter
  int value = 0;              // of the shard
  int gradient_version = 0;   // another number whenever the sharded gradient may have changed
  bool has_gradient = false;  // sharded: what the optimizer sees
  std::int64_t unsharded_bytes = 0, post_forward_bytes = 0;  // held at the end of the operation
  bool operator==(const ParamState&) const = default;
};

// What every rank sends to have a group's gradients reduced: of elements and bytes that one rank
// gets.
struct Reduction {
  std::string kind;  // "reduce_scatter", "all_reduce"
  std::int64_t count = 0, bytes = 0;
  bool operator==(const Reduction&) const = default;
};

class ParameterLife {
 public:
  // False: the case has something that is not modelled.
  static bool is_modelled(const Case& c);

  explicit ParameterLife(const Case& c);  // keeps a reference to it

  // Empty: legal here. Else the reason, in words without numbers.
  [[nodiscard]] std::string why_not(const Operation& operation) const;
  // True: the case format refuses a program in which the operation comes here.
  [[nodiscard]] bool is_refused(const Operation& operation) const;
  // Does it. It must be legal (checked).
  void apply(const Operation& operation);

  // By group and parameter of the case.
  [[nodiscard]] const std::vector<std::vector<ParamState>>& states() const { return states_; }
  // Of the last operation, in order.
  [[nodiscard]] const std::vector<Reduction>& reductions() const { return reductions_; }

 private:
  enum class Held { kSharded, kUnsharded, kPostForward };
  enum class Policy { kStays, kReshards, kKeepsPart };

  struct ParamLife {
    bool is_made = false;  // it was unsharded once
    bool unsharded_requires_grad = true;
    int gathered_value = 0;         // of what is held unsharded, in part or under way
    bool is_pending = false;        // a gradient that is not reduced
    bool is_widened = false;        // and was cast to reduce_dtype
    bool has_post_forward = false;  // the part that an int reshard kept
    int saved_value = 0;
  };
  struct GroupLife {
    Held held = Held::kSharded;
    Policy policy = Policy::kReshards;
    bool is_initialised = false;    // lazy_init was reached
    bool knows_dtypes = false;      // and saw a trainable parameter then
    bool is_launched = false;       // a gather is under way
    bool has_handle = false;        // of an async unshard, not yet waited for
    std::set<std::size_t> partial;  // reduced within the shard group only (HSDP)
    std::vector<ParamLife> params;
  };

  [[nodiscard]] std::string why_no_backward() const;
  [[nodiscard]] std::string why_no_reduction(std::size_t g) const;
  [[nodiscard]] std::string why_no_step() const;
  [[nodiscard]] std::string why_no_load() const;
  [[nodiscard]] bool is_torn(std::size_t g) const;
  [[nodiscard]] std::size_t index_of(const std::string& group) const;
  [[nodiscard]] std::size_t param_of(const Operation& operation) const;
  void initialise(std::size_t g);
  void launch(std::size_t g);
  void send(std::size_t g);
  void wait(std::size_t g);
  void unshard(std::size_t g);
  void to_sharded(std::size_t g);
  void after_forward(std::size_t g);
  void forward();
  void backward();
  void after_backward(std::size_t g);
  void reduce(std::size_t g);
  void note_reduction(std::size_t g, const std::set<std::size_t>& reduced);
  void step();
  void save();
  void load();
  void set_flag(const Operation& operation);
  void write_bytes();
  [[nodiscard]] std::int64_t gathered_bytes(std::size_t g, std::size_t p) const;

  const Case& case_;
  int ranks_ = 1;  // of the shard group
  bool has_replicas_ = false;
  std::vector<GroupLife> groups_;
  std::vector<std::vector<ParamState>> states_;
  std::vector<Reduction> reductions_;
  bool syncs_ = true, all_reduces_ = true, reshards_ = true, is_saved_ = false;
  bool is_root_initialised_ = false;
  int losses_ = 0, last_value_ = 0, last_gradient_ = 0;
};

}  // namespace shardfuzz
