#include "order/reduced.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tide {

namespace {

constexpr int64_t kSymmetryWork = 20'000'000;

std::vector<int> every_op(const Model& model) {
  std::vector<int> ops(model.n);
  std::iota(ops.begin(), ops.end(), 0);
  return ops;
}

}  // namespace

std::vector<int> Reduced::order(bool from_the_end, const std::vector<int>& macros) const {
  const Problem& p = problem(from_the_end);
  std::vector<int> result;
  result.reserve(original.size());
  for (int m : macros)
    for (int v : p.chains[m]) result.push_back(original[v]);
  if (from_the_end) std::reverse(result.begin(), result.end());
  return result;
}

int Reduced::look_for_symmetry(const std::function<bool()>& stop) {
  forward_symmetry = std::make_unique<Symmetry>(forward, kSymmetryWork, stop);
  reversed_symmetry = std::make_unique<Symmetry>(reversed, kSymmetryWork, stop);
  return reversed_symmetry->size();
}

Reduced reduce(const Model& model, std::vector<int> original, Bytes only_within, const FusionRules& rules,
               size_t reach_memory) {
  const Chains chains = fuse(model, rules, reach_memory);
  const Reach reach(chain_preds(model, chains), reach_memory);
  Reduced reduced;
  reduced.forward = compile(model, chains, reach, false);
  reduced.reversed = compile(model, chains, reach, true);
  reduced.original = std::move(original);
  reduced.only_within = only_within;
  return reduced;
}

Reductions::Reductions(const Model& model, const FusionRules& rules, size_t reach_memory)
    : rules_(rules),
      reach_memory_(reach_memory),
      free_(std::make_shared<Reduced>(reduce(model, every_op(model), kAnyBudget, rules, reach_memory))) {}

void Reductions::restrict(const Restricted& restricted, Bytes budget, const std::function<bool()>& stop) {
  restricted_ = std::make_shared<Reduced>(reduce(restricted.model, restricted.original, budget, rules_, reach_memory_));
  if (looked_for_symmetry_) look(*restricted_, stop);
}

int Reductions::look_for_symmetry(const std::function<bool()>& stop) {
  looked_for_symmetry_ = true;
  look(*free_, stop);
  if (restricted_) look(*restricted_, stop);
  return symmetries_;
}

void Reductions::look(Reduced& reduced, const std::function<bool()>& stop) {
  symmetries_ = std::max(symmetries_, reduced.look_for_symmetry(stop));
}

}  // namespace tide
