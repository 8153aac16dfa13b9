// Bytes live at each slot of a line, and the most of them: add to a range, ask for the maximum.
//
// A tree in which each node has eight children: it holds what was added to all slots below it at once, and that plus
// the most of its children. A range is a few children at either end of each level, so that a change touches twice as
// many groups of eight as the tree has levels, five for 30,000 slots, each of them one line of the cache.
//
//     level 2                 9                        most = added + max(children)
//     level 1     9   5   ..   ..   0                  a slot's bytes: itself and what was added on its way to the root
//     level 0   9 5 2 6 ..
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/model.h"

namespace tide {

class Peaks {
 public:
  explicit Peaks(int slots = 1) : slots_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(slots)))) {
    // Children that a group has beyond the slots are never the most of it.
    int size = slots_;
    while (true) {
      const size_t padded = (static_cast<size_t>(size) + kWide - 1) / kWide * kWide;
      most_[levels_].assign(padded, kNever);
      std::fill_n(most_[levels_].begin(), size, 0);
      added_[levels_].assign(levels_ == 0 ? 0 : padded, 0);
      ++levels_;
      if (size == 1) break;
      size = static_cast<int>(padded / kWide);
    }
  }
  int slots() const { return slots_; }
  Bytes most() const { return most_[levels_ - 1][0]; }

  // Adds to slots [from, to].
  void add(int from, int to, Bytes bytes) {
    if (from > to) return;
    int l = from, r = to;       // whole nodes of a level that are still to be added to
    int left = -1, right = -1;  // nodes of which only a part was: their groups' maxima are to be told upwards
    for (int level = 0;; ++level) {
      if (left >= 0) renew(level, left);
      if (right >= 0 && right != left) renew(level, right);
      const int a = left >= 0 ? left : l, b = right >= 0 ? right : r;
      if (a / kWide == b / kWide) {
        add_to(level, l, r, bytes);
        climb(level, a / kWide);
        return;
      }
      const int end = (a / kWide + 1) * kWide, begin = b / kWide * kWide;
      add_to(level, l, std::min(r, end - 1), bytes);
      add_to(level, std::max(l, begin), r, bytes);
      left = a / kWide;
      right = b / kWide;
      l = left + 1;
      r = right - 1;
    }
  }

  Bytes at(int slot) const {
    Bytes sum = most_[0][slot];
    for (int level = 1, node = slot / kWide; level < levels_; ++level, node /= kWide) sum += added_[level][node];
    return sum;
  }

  // The first slot with the most bytes.
  int highest() const {
    int node = 0;
    for (int level = levels_ - 1; level > 0; --level) {
      const Bytes* group = &most_[level - 1][static_cast<size_t>(node) * kWide];
      node = node * kWide + static_cast<int>(std::max_element(group, group + kWide) - group);
    }
    return node;
  }

 private:
  static constexpr int kWide = 8;
  static constexpr Bytes kNever = std::numeric_limits<Bytes>::min() / 2;

  void add_to(int level, int l, int r, Bytes bytes) {
    Bytes* most = most_[level].data();
    for (int i = l; i <= r; ++i) most[i] += bytes;
    if (level == 0) return;
    Bytes* added = added_[level].data();
    for (int i = l; i <= r; ++i) added[i] += bytes;
  }

  // A node's maximum from those of its children; whether it is another one now.
  bool renew(int level, int node) {
    const Bytes* group = &most_[level - 1][static_cast<size_t>(node) * kWide];
    const Bytes a = std::max(std::max(group[0], group[1]), std::max(group[2], group[3]));
    const Bytes b = std::max(std::max(group[4], group[5]), std::max(group[6], group[7]));
    const Bytes now = added_[level][node] + std::max(a, b);
    const bool changed = now != most_[level][node];
    most_[level][node] = now;
    return changed;
  }

  // Upwards from a group of a level, as far as something changes.
  void climb(int level, int node) {
    for (++level; level < levels_ && renew(level, node); ++level) node /= kWide;
  }

  int slots_;
  int levels_ = 0;
  std::array<std::vector<Bytes>, 12> most_, added_;
};

}  // namespace tide
