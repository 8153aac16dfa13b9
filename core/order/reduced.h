// A model made smaller before it is searched, and what a budget allows to take away on top of that.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "order/fuse.h"
#include "order/propagate.h"
#include "order/symmetry.h"

namespace tide {

inline constexpr Bytes kAnyBudget = std::numeric_limits<Bytes>::max();

// Chains of ops joined to macros; both directions, compiled; and how the ops are numbered in the whole model.
struct Reduced {
  Problem forward, reversed;
  std::vector<int> original;
  Bytes only_within = kAnyBudget;                                 // what it says holds for budgets up to this
  std::unique_ptr<Symmetry> forward_symmetry, reversed_symmetry;  // looked for when turns get long

  const Problem& problem(bool from_the_end) const { return from_the_end ? reversed : forward; }
  const Symmetry* symmetry(bool from_the_end) const {
    return (from_the_end ? reversed_symmetry : forward_symmetry).get();
  }
  // The order of the model's ops that an order of a problem's macros stands for.
  std::vector<int> order(bool from_the_end, const std::vector<int>& macros) const;
  // Returns how many generators there are from the end.
  int look_for_symmetry(const std::function<bool()>& stop);
};

Reduced reduce(const Model& model, std::vector<int> original, Bytes only_within, const FusionRules& rules,
               size_t reach_memory);

// The model reduced, and once propagation has said what follows from the budget just below the best, what is left then.
class Reductions {
 public:
  Reductions(const Model& model, const FusionRules& rules, size_t reach_memory);

  // For any budget.
  const Reduced& free() const { return *free_; }
  // The smallest that holds for this budget.
  std::shared_ptr<const Reduced> within(Bytes budget) const {
    return restricted_ && budget <= restricted_->only_within ? restricted_ : free_;
  }
  // Whether a restriction to this budget would be news: a lower one says more.
  bool wants(Bytes budget) const { return !restricted_ || restricted_->only_within > budget; }
  void restrict(const Restricted& restricted, Bytes budget, const std::function<bool()>& stop);

  bool looked_for_symmetry() const { return looked_for_symmetry_; }
  // Both return the most generators of any reduction so far.
  int look_for_symmetry(const std::function<bool()>& stop);
  int symmetries() const { return symmetries_; }

 private:
  void look(Reduced& reduced, const std::function<bool()>& stop);

  const FusionRules rules_;
  const size_t reach_memory_;
  std::shared_ptr<Reduced> free_, restricted_;
  bool looked_for_symmetry_ = false;
  int symmetries_ = 0;
};

}  // namespace tide
