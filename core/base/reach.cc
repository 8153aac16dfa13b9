#include "base/reach.h"

#include <algorithm>

namespace tide {

Reach::Reach(const std::vector<std::vector<int>>& preds, size_t memory_bytes) {
  const int n = static_cast<int>(preds.size());
  const size_t words = memory_bytes / sizeof(Word) / std::max(n, 1);
  const int window = static_cast<int>(std::min<size_t>(std::max<size_t>(words, 1), bits::words_for(n + 1)));
  row_.resize(n);
  first_word_.resize(n);
  size_t total = 0;
  for (int v = 0; v < n; ++v) {
    const int last = bits::word_of(v);
    first_word_[v] = std::max(0, last - window + 1);
    row_[v] = total;
    total += last - first_word_[v] + 1;
  }
  bits_.assign(total, 0);
  for (int v = 0; v < n; ++v) {
    Word* mine = &bits_[row_[v]];
    for (int u : preds[v]) {
      const int from = std::max(first_word_[u], first_word_[v]);
      for (int w = from; w <= bits::word_of(u); ++w) mine[w - first_word_[v]] |= bits_[row_[u] + w - first_word_[u]];
      if (bits::word_of(u) >= first_word_[v]) bits::put(mine, u - first_word_[v] * bits::kPerWord);
    }
  }
}

}  // namespace tide
