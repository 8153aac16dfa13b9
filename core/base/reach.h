// Which op must run before which: a transitive closure, exact within a window of op numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bits.h"

namespace tide {

// Ops are numbered topologically, so every path from u to v stays between their numbers: a row that keeps only
// the last `window` numbers is exact for pairs within it. Pairs further apart are reported as unknown (false).
class Reach {
 public:
  // The window is what goes into so many bytes, and one word at least.
  Reach(const std::vector<std::vector<int>>& preds, size_t memory_bytes);

  // Whether u is known to run before v in every order.
  bool before(int u, int v) const {
    if (u >= v) return false;
    // Row v begins with word first_word_[v] of the set.
    const int base = first_word_[v];
    return bits::word_of(u) >= base && bits::has(&bits_[row_[v]], u - base * bits::kPerWord);
  }
  bool comparable(int u, int v) const { return before(u, v) || before(v, u); }

 private:
  std::vector<Word> bits_;
  std::vector<size_t> row_;
  std::vector<int> first_word_;
};

}  // namespace tide
