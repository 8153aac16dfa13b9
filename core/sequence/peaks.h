// Bytes live at each slot of a line, and the most of them: add to a range, ask for the maximum.
//
// A binary tree whose node holds how far the maximum below it lies above that of its sibling's, the larger of the two
// at zero, and the root the maximum of all:
//
//              9                a slot's bytes are the sum on its way to the root: 9, 5, 2, 6
//          0      -3            a change that the sibling hides ends there
//        0  -4  -4  0
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "base/model.h"

namespace tide {

class Peaks {
 public:
  explicit Peaks(int slots = 1) : first_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(slots)))) {
    node_.assign(2 * static_cast<size_t>(first_), 0);
  }
  int slots() const { return first_; }
  Bytes most() const { return node_[1]; }

  // Adds to slots [from, to].
  void add(int from, int to, Bytes bytes) {
    if (from > to) return;
    int l = from + first_, r = to + first_;
    node_[l] += bytes;
    if (l != r) {
      node_[r] += bytes;
      while ((l ^ r) != 1) {
        if (!(l & 1)) node_[l ^ 1] += bytes;
        if (r & 1) node_[r ^ 1] += bytes;
        l = lift(l);
        r = lift(r);
      }
    }
    while (l > 1) {
      const Bytes larger = std::max(node_[l], node_[l ^ 1]);
      if (larger == 0) return;
      node_[l] -= larger;
      node_[l ^ 1] -= larger;
      l >>= 1;
      node_[l] += larger;
    }
  }

  Bytes at(int slot) const {
    Bytes sum = 0;
    for (int p = slot + first_; p > 0; p >>= 1) sum += node_[p];
    return sum;
  }

  // The first slot with the most bytes.
  int highest() const {
    int p = 1;
    while (p < first_) p = 2 * p + (node_[2 * p] == 0 ? 0 : 1);
    return p - first_;
  }

 private:
  int lift(int p) {
    const Bytes larger = std::max(node_[p], node_[p ^ 1]);
    node_[p] -= larger;
    node_[p ^ 1] -= larger;
    p >>= 1;
    node_[p] += larger;
    return p;
  }

  int first_;
  std::vector<Bytes> node_;
};

}  // namespace tide
