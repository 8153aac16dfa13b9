// Symmetries of a problem: permutations of the macros that leave everything a schedule costs as it is.
//
// Interchangeable heads, experts, matrix rows: a state and its image under a symmetry have the same completions, so a
// search needs only one of them. Symmetries are found by colour refinement with individualisation and checked in full
// before use; that the list is complete is not needed. `Symmetry::canonicalise` replaces a state by the first of its
// images that single symmetries lead to, one after another: not always the first of all, but always an equal one.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "order/problem.h"

namespace tide {

class Symmetry {
 public:
  // Looks for symmetries with about `work` steps; what it has found by then, or when told to stop, is what there is.
  Symmetry(const Problem& problem, int64_t work, const std::function<bool()>& stop);

  bool empty() const { return generators_.empty(); }
  int size() const { return static_cast<int>(generators_.size()); }
  // Replaces a state by the first of its images. If `image` is given, it becomes what each macro was mapped to. Returns
  // the nanoseconds that takes, about.
  int64_t canonicalise(BitSet& state, std::vector<int>* image = nullptr) const;

 private:
  // Per macro that moves, ascending: which one comes to its place.
  using Generator = std::vector<std::pair<int, int>>;
  std::vector<Generator> generators_;
  int n_;
};

}  // namespace tide
