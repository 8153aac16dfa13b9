// What a budget implies: precedences that every order within it keeps, or that there is none.
//
// For op v and any u that could run on either side of it, force u to one side: if the least footprint at v then
// exceeds the budget, u must run on the other side. Each answer is a minimum cut, augmented from the one without
// force; only an op on v's cheap side of the cut can make it dearer by changing over. Precedences found this way are
// added, chains are fused again under them, and so on until nothing new follows (docs/proofs.md, Propagation).
#pragma once

#include <functional>

#include "fuse.h"

namespace tide {

// A model with precedences that only hold within a budget. Its ops are numbered anew.
struct Restricted {
  Model model;
  std::vector<int> original;  // per op, its number in the model that was given
  bool refuted = false;       // no order is within the budget
  bool complete = false;      // reached the fixpoint (else: stopped early, what is there is sound)
  int added = 0;              // precedences
  int64_t cuts = 0;
  int64_t work = 0;           // nodes of the networks cut
};

// `limit` bounds the work.
Restricted propagate(const Model& model, Bytes budget, const FusionRules& rules, int64_t limit,
                     const std::function<bool()>& stop);

}  // namespace tide
