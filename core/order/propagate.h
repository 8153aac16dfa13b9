// What a budget implies: precedences that every order within it keeps, or that there is none.
//
// For op v and any u that could run on either side of it, force u to one side: if the least footprint at v then
// exceeds the budget, u must run on the other side. Each answer is a minimum cut, augmented from the one without
// force; only an op on v's cheap side of the cut can make it dearer by changing over. Precedences found this way are
// added, chains are fused again under them, and so on until nothing new follows (docs/proofs.md, Propagation).
#pragma once

#include <functional>
#include <memory>

#include "order/fuse.h"

namespace tide {

// A model with precedences that only hold within a budget. Its ops are numbered anew.
struct Restricted {
  Model model;
  std::vector<int> original;  // per op, its number in the model that was given
};

// The question of one budget. It can be continued: run() until it is done or has cut about `work` nodes more.
class Propagation {
 public:
  // `reach_memory`: bytes for what is known of who runs before whom, when chains are fused and compiled.
  Propagation(const Model& model, Bytes budget, const FusionRules& rules, size_t reach_memory);
  ~Propagation();

  // Whether it is done: refuted, or nothing new follows.
  bool run(int64_t work, const std::function<bool()>& stop);

  Bytes budget() const { return budget_; }
  bool refuted() const { return refuted_; }
  const Restricted& restricted() const { return restricted_; }
  int64_t cuts() const { return cuts_; }
  int64_t work() const { return work_; }

 private:
  struct Pass;
  // One macro's hills. False: the budget is refuted. Told to stop, it leaves off; the macro is to be tested again.
  bool test(int v, const std::function<bool()>& stop);
  void begin_pass();
  // Adds what the pass found. False: the precedences make a cycle.
  bool end_pass();

  const Bytes budget_;
  const FusionRules rules_;
  const size_t reach_memory_;
  Restricted restricted_;
  std::unique_ptr<Pass> pass_;
  bool refuted_ = false, done_ = false;
  int64_t cuts_ = 0, work_ = 0;
};

}  // namespace tide
