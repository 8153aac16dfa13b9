#include "base/reach.h"

#include <algorithm>

namespace tide {

Reach::Reach(const std::vector<std::vector<int>>& preds, size_t memory_bytes) {
  const int n = static_cast<int>(preds.size());
  const size_t words = memory_bytes / 8 / std::max(n, 1);
  const int window = static_cast<int>(std::clamp<size_t>(words, 4, static_cast<size_t>(n) / 64 + 1));
  row_.resize(n);
  first_word_.resize(n);
  size_t total = 0;
  for (int v = 0; v < n; ++v) {
    const int last = v >> 6;
    first_word_[v] = std::max(0, last - window + 1);
    row_[v] = total;
    total += last - first_word_[v] + 1;
  }
  bits_.assign(total, 0);
  for (int v = 0; v < n; ++v) {
    uint64_t* mine = &bits_[row_[v]];
    for (int u : preds[v]) {
      const int from = std::max(first_word_[u], first_word_[v]);
      for (int w = from; w <= u >> 6; ++w) mine[w - first_word_[v]] |= bits_[row_[u] + w - first_word_[u]];
      if (u >> 6 >= first_word_[v]) mine[(u >> 6) - first_word_[v]] |= uint64_t{1} << (u & 63);
    }
  }
}

}  // namespace tide
