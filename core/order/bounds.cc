#include "order/bounds.h"

#include <algorithm>
#include <limits>

namespace tide {

LazyBound::LazyBound(const Model& model)
    : model_(model), cut_(model), least_seen_(model.n, std::numeric_limits<Bytes>::max()), made_(model.n, 0) {}

void LazyBound::see(const std::vector<int>& order) {
  const std::vector<Bytes> steps = footprints(model_, order);
  for (int step = 0; step < model_.n; ++step)
    least_seen_[order[step]] = std::min(least_seen_[order[step]], steps[step]);
}

int LazyBound::raise(int cuts, Bytes goal) {
  int done = 0;
  for (; done < cuts && value_ < goal; ++done) {
    int best = -1;
    for (int v = 0; v < model_.n; ++v)
      if (!made_[v] && (best < 0 || least_seen_[v] > least_seen_[best])) best = v;
    if (best < 0 || least_seen_[best] <= value_) break;
    made_[best] = 1;
    const Bytes value = cut_.at(best, false).value;
    if (value > value_ || op_ < 0) {
      value_ = value;
      op_ = best;
    }
  }
  return done;
}

}  // namespace tide
